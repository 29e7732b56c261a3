"""The declaration of a kind of run, pure.

Law: the `Kind` contains everything that the fleet needs to know about a kind. Queues, events, documents,
pages, commands and checks are derived from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal

from events.kinds.declaring.fact import Fact
from events.kinds.declaring.fields import schema_of
from events.kinds.declaring.queues import RUNS, Queue
from events.kinds.declaring.spec import Spec
from events.kinds.results import Column, Leaderboard, ResultSet


@dataclass(frozen=True, slots=True)
class Position:
    """Where an event stands: attempt `attempt` of a run, its sequence there, and when it was said."""

    run_id: str
    attempt: int
    sequence: int
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Projected:
    """Fields of a document of the kind; `key` names it within its attempt.

    The fields `runId`, `attempt` and `seq` are added to them.
    """

    collection: str
    key: str
    fields: Mapping[str, Any]


# What a pod tests of itself because some kinds alone use it.
PodPart = Literal["model", "tools", "gpu", "sandbox"]
# What a fact changes in the documents of its kind. The same fact makes the same fields, however often.
Projection = Callable[[Any, Position], Iterable[Projected]]


@dataclass(frozen=True, slots=True)
class Index:
    """An index of a collection: its name, and its fields with their direction, 1 or -1.

    No two documents have the same fields where it is `unique`.
    """

    name: str
    keys: tuple[tuple[str, Literal[1, -1]], ...]
    unique: bool = False


@dataclass(frozen=True, slots=True)
class DocumentSet:
    """A collection of the kind: who reads it, its fields beside `runId`, `attempt` and `seq`, more indexes.

    All have an index by run and attempt.
    """

    name: str
    says: str
    fields: tuple[str, ...]
    indexes: tuple[Index, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Noun:
    """A collection of the kind beside the log, which people write: `writers` maps a writer to its fields.

    `singular` names one of its documents in live changes. `command` is the module of its command line, whose
    `app` it is. `added` are paths into objects that documents of earlier releases lack, with what a migration
    sets there.
    """

    collection: str
    singular: str
    says: str
    writers: Mapping[str, tuple[str, ...]]
    indexes: tuple[Index, ...] = ()
    command: str = ""
    added: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuickStart:
    """A button on each page that starts a run of the kind: its words, and the few fields that it asks for.

    They are filled in as in the kind's `example`. The field `models` takes the name of a model, and suggests
    those of the catalogue. The form of a schedule asks for the fields `scheduled`.
    """

    words: str
    fields: tuple[str, ...]
    models: str = ""
    scheduled: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of run.

    - `example`: a specification that can be run;
    - `check`: what is wrong with a specification beyond its schema;
    - `measures`: what a run of a specification measures, in words; empty where it claims nothing. Raises
      `NotMeasurable` for a claim that cannot be measured as it is said;
    - `weights`: the name of the model that a run of a specification loads, None for a kind that loads none;
    - `needs`: the modules without which a pod cannot run it;
    - `uses`: the parts of a pod that its pipeline may use: a pod that finds one broken does not claim it;
    - `pipeline`: the module whose `run` does it;
    - `package`: the package with what the control plane adds for it (`control_plane/model/kind_packages.py`);
    - `beside`: the checkpoints that belong to no stage;
    - `lines`: its facts, each in one line;
    - `codes`: its own codes of failure, with what a person can do;
    - `results`: the rows that its runs record; `headline`: the numbers that sum a run up;
    - `leaderboard`: the board of these numbers that pages lead to;
    - `labels`: labels of its runs, each with the field of the specification that it is taken from;
    - `prepares`: whether its pipeline calls `wait_for_start` itself, after what it prepares; the worker waits
      with the others before they do anything;
    - `tells`: whether its package has a module `told`, which tells each attempt something at its start;
    - `scheduled_as`: what a run is about: of each there is one schedule that was set without a name;
    - `commands`: commands of the command line beside those of its nouns: the module of each, and its help;
    - `quick`: the button that starts a run of it, of a kind that many start by hand;
    - `asks`: the labels of pods that can do what a specification wants, beside those that the run asks for;
    - `runs_programs`: whether its runs are people's own programs, which commands and clients submit as it;
    - `records_freely`: whether its runs record rows and numbers that it does not declare;
    - `has_inputs`: whether `inputs` of its specifications names trees, data sets and files of runs;
    - `drawn`: fields of the specification that follow from the run's id unless they are given;
    - `normal`: returns a specification in the one form in which runs that do the same store it.
    """

    name: str
    says: str
    spec: type[Spec]
    example: Mapping[str, Any]
    pipeline: str
    package: str = ""
    title: Callable[[Any], str] = lambda _: ""
    check: Callable[[Any], str | None] = lambda _: None
    measures: Callable[[Any], str] = lambda _: ""
    weights: Callable[[Any], str] | None = None
    queue: Queue = RUNS
    stages: tuple[str, ...] = ()
    beside: frozenset[str] = frozenset()
    needs: tuple[str, ...] = ()
    uses: frozenset[PodPart] = frozenset()
    facts: Mapping[str, type[Fact]] = field(default_factory=dict)
    documents: tuple[DocumentSet, ...] = ()
    nouns: tuple[Noun, ...] = ()
    commands: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    projections: Mapping[type[Fact], Projection] = field(default_factory=dict)
    lines: Mapping[str, Callable[[Mapping[str, Any]], str]] = field(default_factory=dict)
    codes: Mapping[str, str] = field(default_factory=dict)
    results: tuple[ResultSet, ...] = ()
    headline: tuple[Column, ...] = ()
    leaderboard: Leaderboard | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    tells: bool = False
    prepares: bool = False
    asks: Callable[[Any], Mapping[str, str]] = lambda _: {}
    runs_programs: bool = False
    records_freely: bool = False
    has_inputs: bool = False
    quick: QuickStart | None = None
    scheduled_as: Callable[[Any], str] | None = None
    drawn: Mapping[str, Callable[[str], Any]] = field(default_factory=dict)
    normal: Callable[[Any], Any] | None = None


def described(kind: Kind) -> dict[str, Any]:
    """Return what a kind does and takes, as the API tells it."""
    return {
        "name": kind.name,
        "says": kind.says,
        "isOpen": kind.queue.takes_submissions,
        "stages": list(kind.stages),
        "specSchema": schema_of(kind.spec),
        "example": dict(kind.example),
        "labels": dict(kind.labels),
        "resultSets": [
            {"name": each.name, "title": each.title, "columns": [asdict(column) for column in each.columns]}
            for each in kind.results
        ],
        "headline": [asdict(column) for column in kind.headline],
        "needs": list(kind.needs),
    }
