"""A whole experiment over the fleet, as anybody can look at it: through the API alone.

Whatever holds a paper against the run's events here reads JSON, and shares no code with the
product's own tracing.
"""

from __future__ import annotations

import io
import json
import math
import re
import threading
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import Any, Final

import pytest
from pypdf import PdfReader
from scipy import optimize, stats

from events.runtime.clock import SystemClock

IDEA: Final = "Dropout improves accuracy on iris"
NODES: Final = {"Stage_1": 2, "Stage_2": 2, "Stage_4": 3}
TRIED: Final = {
    "Stage_1": 2,
    "Stage_2": 2,
    "Stage_3": 4,
    "Stage_4": 3,
}  # by these limits, where all goes well
SPEC: Final[Mapping[str, Any]] = {
    "dataset": "iris", "preset": "quick", "seed": 5, "nodes": NODES, "review": "none",
}  # fmt: skip
STAGES: Final = ["Stage_1", "Stage_2", "Stage_3", "Stage_4", "validation", "plots", "paper", "review"]
WHOLE_S: Final = 1_500.0  # a limit of patience: beside much else a run of a minute takes twenty
LOOK_EVERY_S: Final = 0.5  # a look costs the control plane, and so the run, its time

Json = dict[str, Any]


def names_of(tried: Mapping[str, int]) -> list[str]:
    """Return the names of so many nodes of each stage."""
    return [f"{stage}/{number}" for stage, count in tried.items() for number in range(1, count + 1)]


@dataclass(frozen=True)
class Experiment:
    """A run of a fleet that is up."""

    fleet: Any
    run_id: str
    seen: list[str] = field(default_factory=list)  # its statuses, as far as somebody looked

    def look(self) -> Json:
        """Return the run as it is now, and remember its status."""
        run = self.run
        if self.seen[-1:] != [run["status"]]:
            self.seen.append(run["status"])
        return run

    def wait_for(self, *statuses: str, limit_s: float = WHOLE_S) -> Json:
        """Look at the run until it has one of these statuses, and its whole log."""
        clock = SystemClock()
        deadline_s = clock.monotonic_s() + limit_s
        while clock.monotonic_s() < deadline_s:
            run = self.look()
            if run["status"] in statuses and not run["logOpen"]:
                return run
            assert run["status"] in statuses or run["finishedAt"] is None, run["error"]
            clock.wait(threading.Event(), LOOK_EVERY_S)
        run = self.run
        raise AssertionError(f"the run stays {run['status']}: {run['currentStage']}, {run['error']}")

    def __str__(self) -> str:
        return self.run_id

    @property
    def run(self) -> Json:
        found: Json = self.fleet.run(self.run_id)
        return found

    def events(self, *types: str) -> list[Json]:
        """Return the events of these types, or all, the oldest first."""
        only = {"type": types[0]} if len(types) == 1 else {}
        found = self._pages(f"/api/runs/{self.run_id}/events", order="oldest", **only)
        return [each for each in found if not types or each["type"] in types]

    def of(self, event_type: str, name: str) -> list[Any]:
        """Return what the events of a type say under a name."""
        return [each["data"][name] for each in self.events(event_type)]

    def nodes(self) -> list[Json]:
        return self._pages(f"/api/runs/{self.run_id}/nodes")

    def artifacts(self) -> list[Json]:
        return self._pages(f"/api/runs/{self.run_id}/artifacts")

    def latest(self) -> dict[str, Json]:
        """Return the artifacts by name; of those of one name, the one that a reader is shown first."""
        found: dict[str, Json] = {}
        for each in self.artifacts():
            found.setdefault(each["name"], each)
        return found

    def content(self, name: str) -> bytes:
        path = f"/api/artifacts/{self.latest()[name]['id']}"
        answer = self.fleet.client.get(path, follow_redirects=True)
        assert answer.status_code == 200, answer.text
        return bytes(answer.content)

    def json(self, name: str) -> Any:
        return json.loads(self.content(name))

    def pdf(self) -> str:
        return text_of_pdf(self.content("paper/paper.pdf"))

    def _pages(self, path: str, **params: Any) -> list[Json]:
        items: list[Json] = []
        after: str | None = ""
        while after is not None:
            wanted = {**params, "limit": 200, **({"after": after} if after else {})}
            answer = self.fleet.client.get(path, params=wanted)
            assert answer.status_code == 200, answer.text
            page = answer.json()
            items += page["items"]
            after = page["next"]
        return items


def timeless(value: Any) -> Any:
    """Return a run's numbers without what no seed decides: seconds, and who ran it when."""
    drop = re.compile(r"seconds|^(run_id|attempt|at|isolation|other_pods)$")
    if isinstance(value, dict):
        return {name: timeless(each) for name, each in value.items() if not drop.search(name)}
    return [timeless(each) for each in value] if isinstance(value, list) else value


def measured(experiment: Experiment) -> Json:
    """Return everything that a run measured and decided, as far as the seed decides it."""
    (auto,) = [each for each in experiment.run["validations"] if each["by"] == "auto"]
    numbers = [
        {name: each[name] for name in ("key", "text", "value", "rule")}
        for each in experiment.json("paper/numbers.json")["numbers"]
        if "seconds" not in each["key"] and each["key"] != "run.attempt"
    ]
    return {
        "results": timeless(experiment.json("paper/results.json")),
        "numbers": numbers,
        "verdict": [auto["verdict"], auto["summary"].partition(" Parts of it")[0], timeless(auto["scores"])],
        "nodes": [timeless(each) for each in experiment.nodes()],
    }


def text_of_pdf(content: bytes) -> str:
    """Return the words of a PDF, its minus signs and spaces made plain."""
    text = "\n".join(page.extract_text() for page in PdfReader(io.BytesIO(content)).pages)
    return text.replace("\N{MINUS SIGN}", "-").replace("\N{NO-BREAK SPACE}", " ").replace("\u200b", "")


# --- a paper's numbers against the events ----------------------------------------------------


def said(events: list[Json], source: Json) -> Any:
    """Return the last value that the events give to a source; None where no event speaks of it."""
    types = {source["type"]}
    if source["type"] in ("ai.node.created", "ai.node.completed"):
        types.add("ai.node.restored")  # what an earlier attempt measured, said again
    name = "name" if source["type"] == "ai.run.stage_metric" else "node"
    found: Any = None
    for each in events:
        data = each["data"]
        if each["type"] not in types or (data["stage"], data.get(name)) != (source["stage"], source["about"]):
            continue
        if data.get("step") != source.get("step"):
            continue
        group, dot, rest = source["field"].partition(".")
        value = data.get(group, {}).get(rest) if dot else data.get(group)
        found = found if value is None else value
    return found


def must_follow(events: list[Json], number: Json) -> None:
    """Compute a number anew from what the events say, and hold what is printed against it."""
    values = [said(events, source) for source in number["source"]]
    assert None not in values, number
    match number["rule"]:
        case "same":
            (value,) = values
        case "difference":
            one, other = values
            value = one - other
        case "count":
            assert False not in values, number
            value = len({json.dumps(source, sort_keys=True) for source in number["source"]})
        case rule:
            raise AssertionError(f"an unknown rule {rule}")
    assert value == number["value"], number
    text = number["text"].replace("\N{MINUS SIGN}", "-").replace("\N{NO-BREAK SPACE}", "")
    scale = 100.0 if text.endswith("%") else 1.0
    decimals = len(text.rstrip("%").partition("e")[0].partition(".")[2])
    exponent = int(text.partition("e")[2] or 0)
    printed = float(text.rstrip("%")) / scale
    assert math.isclose(printed, value, rel_tol=1e-9, abs_tol=0.50001 * 10.0 ** (exponent - decimals) / scale)


NUMERAL: Final = re.compile(r"[+-]?\d+(?:\.\d+)*(?:e[+-]?\d+)?")
LAYOUT: Final = re.compile(
    r"^\d+$"  # the number of a page
    r"|^\d+(?= [A-Z])"  # of a section
    r"|\b(?:Table|Figure) \d+",
    re.MULTILINE,
)


def numerals(text: str) -> list[str]:
    return NUMERAL.findall(text)


def unexplained(pdf: str, numbers: Json, figures: Collection[str]) -> list[str]:
    """Return the numerals of a paper that are no number of the run, no quoted text, and in no figure.

    The appendix shows programs, and is none of it.
    """
    plain = [each["text"] for each in (*numbers["numbers"], *numbers["quotes"])]
    known = {
        numeral
        for text in (*(each.replace("\N{MINUS SIGN}", "-").replace("\u200b", "") for each in plain), *figures)
        for numeral in numerals(text)
    }
    return [each for each in numerals(LAYOUT.sub(" ", pdf.partition("Appendix:")[0])) if each not in known]


def must_state_what_was_said(experiment: Experiment) -> None:
    """Hold the paper's table of numbers, its source and its pages against the run's events."""
    events = experiment.events()
    table = experiment.json("paper/numbers.json")
    for number in table["numbers"]:
        must_follow(events, number)
    for quote in table["quotes"]:
        if quote["source"] is not None:
            words = quote["text"].replace("\u200b", "").removesuffix(" …")
            heard = said(events, quote["source"])
            heard = {True: "on", False: "off"}[heard] if isinstance(heard, bool) else heard
            assert heard.startswith(words), quote
    texts = {each["key"]: each["text"] for each in table["numbers"]}
    source = experiment.content("paper/paper.tex").decode().partition(r"\begin{document}")[2]
    pdf = experiment.pdf().replace("e\n-", "e-")  # a line may end before the minus sign of an exponent
    used = set(re.findall(r"\\val\{([^}]+)\}", source))
    assert {"effect.mean", "effect.low", "effect.high", "run.seed", "nodes.tried", "units.registered"} <= used
    for key in used:
        text = texts[key].replace("\N{MINUS SIGN}", "-").replace("\N{NO-BREAK SPACE}", " ")
        assert text in pdf, key
    pictures = [name for name in experiment.latest() if re.match(r"plots/.*\.pdf$", name)]
    assert unexplained(pdf, table, [text_of_pdf(experiment.content(each)) for each in pictures]) == []


def must_be_computed_from_single_measurements(experiment: Experiment) -> None:
    """Compute anew what the paper says in sums: from trials and units, not from what sums them up."""
    numbers = {each["key"]: each["value"] for each in experiment.json("paper/numbers.json")["numbers"]}
    events = experiment.events()
    metric = experiment.run["validations"][0]["scores"]["metric"]

    def fresh(name: str, arm: str) -> list[float]:
        source = {"type": "ai.run.stage_metric", "stage": "validation", "about": f"test_{name}_{arm}"}
        steps = range(1, int(numbers["units.registered"]) + 1)
        return [said(events, {**source, "field": "value", "step": step}) for step in steps]

    for name in {key.split(".")[1] for key in numbers if key.startswith("mean.")}:
        for arm in ("baseline", "intervention"):
            assert numbers[f"mean.{name}.{arm}"] == pytest.approx(fmean(fresh(name, arm)))
    pairs = zip(fresh(metric, "intervention"), fresh(metric, "baseline"), strict=True)
    differences = [one - other for one, other in pairs]
    mean, low, high = (numbers[f"effect.{each}"] for each in ("mean", "low", "high"))
    assert mean == pytest.approx(fmean(differences))
    assert [low, high] == pytest.approx(interval_of(differences, numbers))

    tried = {
        each["data"]["node"]: each["data"]
        for each in events
        if each["type"] in ("ai.node.completed", "ai.node.restored")
    }
    assert numbers["nodes.tried"] == len(tried)
    assert numbers["nodes.buggy"] == sum(each["buggy"] for each in tried.values())
    for stage in TRIED:
        own = [each for each in tried.values() if each["stage"] == stage]
        assert numbers[f"{stage.lower()}.nodes"] == len(own)
        assert numbers[f"{stage.lower()}.buggy"] == sum(each["buggy"] for each in own)
    spec = experiment.run["spec"]
    assert numbers["run.seed"] == spec["seed"]
    tries_without = numbers["stage_1.nodes"] + numbers["stage_2.nodes"]  # the third stage has as many
    limits = {**spec["nodes"], "Stage_3": tries_without}
    assert {stage: numbers[f"{stage.lower()}.limit"] for stage in limits} == limits


def interval_of(differences: list[float], numbers: Mapping[str, float]) -> list[float]:
    """Return the interval of a mean over units, from the definition of the modified t."""
    mean, spread = fmean(differences), stdev(differences)
    if spread == 0.0:  # what is counted
        return [mean, mean]
    rows, judging = numbers["units.rows"], numbers["units.test_rows"]
    root = math.sqrt(1 / len(differences) + judging / (rows - judging))
    reach = stats.t.ppf(1 - numbers["level"], len(differences) - 1) * root
    skew = 0.5 * stats.skew(differences, bias=False)

    def moved(skew: float) -> float:
        """Return where the modified t just reaches the level."""
        return float(
            optimize.brentq(
                lambda x: x + skew * root**2 / 6 + skew / 3 * x**2 + (skew / 3) ** 2 * x**3 / 3 - reach,
                -99.0,
                99.0,
            )
        )

    return [mean - spread * max(reach, moved(skew)), mean + spread * max(reach, moved(-skew))]


def must_have_done_nothing_twice(run: Experiment) -> None:
    """Hold executions against ends: nobody began again what an attempt before had finished."""
    pairs = (
        ("node", "ai.node.completed", "ai.node.executing"),
        ("stage", "ai.run.stage_completed", "ai.run.stage_started"),
    )
    for what, ends, begins in pairs:
        done = {each["data"][what]: each["attempt"] for each in reversed(run.events(ends))}
        assert max(Counter(run.of(ends, what)).values()) == 1, "it ended once"
        for each in run.events(begins):
            assert each["attempt"] <= done.get(each["data"][what], each["attempt"]), each
