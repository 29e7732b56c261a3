"""The frames between parent and child over the inherited pipes, one JSON object per line.

Law: a pipeline may write anything into its pipe. What is no frame within these bounds, or an end event of
another form than the catalogue's, is `BrokenFrame`, and never ends the worker. The child assigns no ids,
times or sequences. It sends facts, and the parent makes events of them.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec

from events.answers.worker.live_text import Lap, Offset, Values
from events.catalog import ENDS, TYPES
from events.files.checkpoints import FILES_MAX
from events.queue.notes import Note

LINE_MAX_BYTES: Final = 200 * 1024
SHOWN_CHARS_MAX: Final = 400  # as JSON with its numbers within 4 KiB, what a pipe takes whole or not at all

Word = Annotated[str, msgspec.Meta(max_length=200)]
KindNames = Annotated[list[Word], msgspec.Meta(max_length=1_000)]
FilePath = Annotated[str, msgspec.Meta(max_length=4_096, pattern=r"\A/[^\x00]*\Z")]
FileName = Annotated[str, msgspec.Meta(min_length=1, max_length=1_024)]


class BrokenFrame(ValueError):
    """A line of the child is no frame; the text says why."""


class Ready(msgspec.Struct, frozen=True, tag_field="frame", tag="ready"):
    """Child: what `kinds` need is imported; `device` is for people.

    While it `is_loading`, more kinds may follow, each time in a whole new frame.
    """

    kinds: KindNames
    device: Word | None = None
    is_loading: bool = False


class FactFrame(msgspec.Struct, frozen=True, tag_field="frame", tag="said"):
    """Child: a fact, by its public type."""

    type: Word
    data: dict[str, Any]


class Made(msgspec.Struct, frozen=True, tag_field="frame", tag="made"):
    """Child: a finished file that shall be kept under `name`; `path` is not written to any more."""

    path: FilePath
    name: FileName
    content_type: Word
    stage: Word | None = None


class Checkpoint(msgspec.Struct, frozen=True, tag_field="frame", tag="checkpoint"):
    """Child: these files make a checkpoint, the manifest last; `number` is what its answer will name."""

    number: Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
    name: Word
    files: Annotated[list[Made], msgspec.Meta(min_length=1, max_length=FILES_MAX + 1)]


class Shown(msgspec.Struct, frozen=True, tag_field="frame", tag="shown"):
    """Child: text of a lap from this character on, and numbers, for whoever looks now; it may be dropped."""

    lap: Lap
    offset: Offset
    text: Annotated[str, msgspec.Meta(max_length=SHOWN_CHARS_MAX)] = ""
    values: Values = {}


class Waiting(msgspec.Struct, frozen=True, tag_field="frame", tag="waiting"):
    """Child: what precedes the start is done; it waits until it may begin."""


class Began(msgspec.Struct, frozen=True, tag_field="frame", tag="began"):
    """Child: it began at this second of the monotonic clock, which both sides share."""

    at_s: float


class EnvironmentWanted(msgspec.Struct, frozen=True, tag_field="frame", tag="environment_wanted"):
    """Child: the run needs a Python environment that is made of what has this checksum."""

    digest: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]


class EnvironmentMade(msgspec.Struct, frozen=True, tag_field="frame", tag="environment_made"):
    """Child: the environment that it wanted lies in this folder, and may be copied for others."""

    path: FilePath


class Environment(msgspec.Struct, frozen=True, tag_field="frame", tag="environment"):
    """Parent: where the environment lies; without a path the child makes it, with these settings.

    `options` and `variables` tell uv where packages are, and `bytes_max` is the most that it may have.
    """

    path: str | None = None
    variables: dict[str, str] = {}
    options: list[str] = []
    bytes_max: int = 0
    problem: str | None = None


class ContainerWanted(msgspec.Struct, frozen=True, tag_field="frame", tag="container_wanted"):
    """Child: the program of the run shall run in a container of its image, as `ContainerOrder` says."""


class ContainerStop(msgspec.Struct, frozen=True, tag_field="frame", tag="container_stop"):
    """Child: the program gets SIGTERM, and SIGKILL after so many seconds."""

    grace_s: Annotated[float, msgspec.Meta(ge=0, le=60)] = 0.0


class ContainerOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a run writes of its program into its folder: words, where they start, and their variables."""

    words: Annotated[
        list[Annotated[str, msgspec.Meta(max_length=8_192, pattern=r"\A[^\x00]*\Z")]],
        msgspec.Meta(min_length=1, max_length=256),
    ]
    folder: FilePath
    variables: Annotated[
        dict[Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z_][A-Za-z0-9_]{0,199}\Z")], str],
        msgspec.Meta(max_length=256),
    ]

    def __repr__(self) -> str:
        return f"ContainerOrder({self.words[:1]}, {sorted(self.variables)})"


class ContainerTold(msgspec.Struct, frozen=True, tag_field="frame", tag="container_told"):
    """Parent: the image is fetched, the program runs, or it has ended; `problem` is why it did not run."""

    state: Literal["pulling", "running", "ended"]
    image: str = ""
    status: int = 0
    is_out_of_memory: bool = False
    code: str = ""
    problem: str = ""


class Go(msgspec.Struct, frozen=True, tag_field="frame", tag="go"):
    """Parent: begin at this second of the monotonic clock; at once, where it is over.

    `variables` are for the environment of what begins.
    """

    at_s: float
    variables: dict[str, str] = {}


class Renewed(msgspec.Struct, frozen=True, tag_field="frame", tag="renewed"):
    """Parent: these variables of the environment of the run have new values."""

    secrets: dict[str, str]

    def __repr__(self) -> str:
        return f"Renewed({sorted(self.secrets)})"


class Start(msgspec.Struct, frozen=True, tag_field="frame", tag="start"):
    """Parent: run this now; `restored` is the folder of the checkpoints of earlier attempts.

    `notes` are those that people have written before; `pod` is the name of the pod. `pods_before` has, for
    the name of a checkpoint, the pods of the attempts until it was left, "" for an unknown one.
    `replication_asked` is whether an earlier attempt asked for a replication; `told` is what the kind of the
    run tells its attempts; `trees` are folders by the ids of the file trees that it names. `secrets` are
    variables for the environment of the run, and nothing else. A run with a `barrier` waits for its start.
    """

    run_id: str
    attempt: int
    kind: str
    spec: dict[str, Any]
    workspace: str
    restored: str
    hypothesis_id: str | None = None
    notes: list[Note] = []
    pod: str = ""
    pods_before: dict[str, list[str]] = {}
    replication_asked: bool = False
    told: dict[str, Any] = {}
    secrets: dict[str, str] = {}
    trees: dict[str, str] = {}
    barrier: bool = False

    def __repr__(self) -> str:
        return f"Start({self.run_id}, attempt {self.attempt})"  # it may hold secrets


class Kept(msgspec.Struct, frozen=True, tag_field="frame", tag="kept"):
    """Parent: the checkpoint of this number is safe, or why it will never be."""

    number: int
    problem: str | None = None


class Tried(msgspec.Struct, frozen=True):
    """The last line of a process that tried a part of the pod."""

    ok: bool
    message: str
    code: str | None = None


class FoundModel(msgspec.Struct, frozen=True):
    """A model that lies on the pod: its name as engines are given it, and its size where that is known."""

    name: str
    bytes: int | None = None
    engine: str | None = None


FromChild = (
    Ready | FactFrame | Made | Checkpoint | Shown | Waiting | Began | EnvironmentWanted | EnvironmentMade
    | ContainerWanted | ContainerStop
)  # fmt: skip
FromParent = Start | Kept | Note | Go | Renewed | Environment | ContainerTold
_child_decoder: Final = msgspec.json.Decoder(FromChild)
_parent_decoder: Final = msgspec.json.Decoder(FromParent)


def encode(frame: FromChild | FromParent) -> bytes:
    """Return one line, with its end."""
    return msgspec.json.encode(frame) + b"\n"


def decode_child(line: bytes) -> FromChild:
    """Read a line of the child. Raises `BrokenFrame` on anything else."""
    try:
        frame: FromChild = _child_decoder.decode(line)
        if isinstance(frame, FactFrame) and frame.type in ENDS:
            msgspec.convert(frame.data, TYPES[frame.type])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise BrokenFrame(str(error)) from error
    return frame


def decode_parent(line: bytes) -> FromParent:
    """Read a line of the parent. Raises `msgspec.MsgspecError` on anything else."""
    frame: FromParent = _parent_decoder.decode(line)
    return frame
