"""Jobs: a person's own program runs on a pod, and keeps its output, metrics, results and files; pure.

What a program says by `podfleet.run` is its own: metrics, rows and headline numbers are not declared.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from functools import lru_cache
from typing import Annotated, Any, Final, Literal

import msgspec

from events.kinds.declaring.spec import TIME_LIMIT_S, TITLE_MAX, Seconds, Spec
from events.kinds.kind import Kind
from events.kinds.results import FLOAT_MAX, WHOLE_MAX
from events.models.job_containers import HAS, LABEL, is_image
from events.text import filling
from events.text.input_source import is_source

WORDS_MAX: Final = 256
WORD_CHARS_MAX: Final = 8_192
VARIABLES_MAX: Final = 64
VARIABLE_CHARS_MAX: Final = 4_096
PATTERNS_MAX: Final = 32
INPUTS_MAX: Final = 32
PARAMS_MAX: Final = 64
SPLITS_MAX: Final = 32  # commands whose words are kept: the slots of a sweep have one, and are thousands
RUN: Final = "run"
USER: Final = "user"
SANDBOX: Final = "sandbox"
# The run itself says these; another value would mislead the program or what it loads.
RESERVED: Final = ("PODFLEET_", "LD_", "PYTHONHOME", "PYTHONSTARTUP", "CUDA_VISIBLE_DEVICES")

VariableName = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z_][A-Za-z0-9_]{0,199}\Z")]
VariableValue = Annotated[str, msgspec.Meta(max_length=VARIABLE_CHARS_MAX, pattern=r"\A[^\x00]*\Z")]
TreeId = Annotated[str, msgspec.Meta(pattern=r"\A([0-9a-f]{64})?\Z")]
InputSource = Annotated[str, msgspec.Meta(max_length=700)]
InputName = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")]
Pattern = Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
ParamName = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z_][A-Za-z0-9_]{0,63}\Z")]
ParamValue = (
    bool
    | Annotated[int, msgspec.Meta(ge=-WHOLE_MAX, le=WHOLE_MAX)]
    | Annotated[float, msgspec.Meta(ge=-FLOAT_MAX, le=FLOAT_MAX)]
    | Annotated[str, msgspec.Meta(max_length=1_024, pattern=r"\A[^\x00]*\Z")]
)


class Source(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where the files of a working folder come from."""

    commit: Annotated[
        str,
        msgspec.Meta(
            pattern=r"\A[0-9a-f]{40}([0-9a-f]{24})?\Z", description="The commit that was checked out."
        ),
    ]
    branch: Annotated[str, msgspec.Meta(max_length=250, description="Its branch.")] = ""
    remote: Annotated[
        str, msgspec.Meta(max_length=500, description="The address of its repository, without credentials.")
    ] = ""
    is_dirty: Annotated[bool, msgspec.Meta(description="Whether files differ from the commit.")] = False
    diff: Annotated[
        TreeId, msgspec.Meta(description="The file tree with `diff.patch`: in what they differ.")
    ] = ""


class Git(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A commit of a repository, which a pod fetches."""

    url: Annotated[
        str,
        msgspec.Meta(max_length=500, description="Its address: https://HOST/PATH or ssh://git@HOST/PATH."),
    ]
    commit: Annotated[
        str, msgspec.Meta(pattern=r"\A[0-9a-f]{40}\Z", description="The commit, by its 40 digits.")
    ]
    secret: Annotated[
        str,
        msgspec.Meta(
            max_length=200, description="The secret with a token (https) or a key (ssh), by its name."
        ),
    ] = ""

    @property
    def is_https(self) -> bool:
        """Say whether it is asked for by https, else by ssh."""
        return self.url.startswith("https://")


@lru_cache(maxsize=SPLITS_MAX)
def _split(command: str) -> tuple[str, ...]:
    return tuple(shlex.split(command))


# No user of https, which may be a token, and no word that a command reads as an option.
_GIT: Final = re.compile(
    r"(https://|ssh://([A-Za-z0-9_][\w.-]*@)?)([A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?"
    r"/[\w.~+/%@-]+",
    re.ASCII,
)


class JobSpec(Spec, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A command, its environment, and which of its files are kept."""

    command: Annotated[
        str,
        msgspec.Meta(
            min_length=1,
            max_length=32_768,
            description="Words of a command, quoted as for a shell; no shell reads them.",
        ),
    ]
    tree: Annotated[
        TreeId, msgspec.Meta(description="The file tree of its working folder; empty for none.")
    ] = ""
    git: Annotated[
        Git | None, msgspec.Meta(description="The commit that its working folder is, instead of a file tree.")
    ] = None
    source: Annotated[
        Source | None, msgspec.Meta(description="Where its working folder comes from; only told.")
    ] = None
    inputs: Annotated[
        Annotated[dict[InputName, InputSource], msgspec.Meta(max_length=INPUTS_MAX)],
        msgspec.Meta(
            description="What it reads, by names of folders in $PODFLEET_INPUTS: a data set (`images`, "
            "`images/3`), or the files of a run (`run:ID`, `run:ID/*.pt`)."
        ),
    ] = {}
    env: Annotated[
        Annotated[dict[VariableName, VariableValue], msgspec.Meta(max_length=VARIABLES_MAX)],
        msgspec.Meta(description="Variables of its environment."),
    ] = {}
    params: Annotated[
        Annotated[dict[ParamName, ParamValue], msgspec.Meta(max_length=PARAMS_MAX)],
        msgspec.Meta(
            description="Values for the places {NAME} in command and env; {{ is a brace. None: no places."
        ),
    ] = {}
    image: Annotated[
        str,
        msgspec.Meta(
            max_length=500,
            description="The image of a container in which it runs, with a tag or a digest: `repo/name:tag`, "
            "`repo/name@sha256:...`; empty for a process of the pod.",
        ),
    ] = ""
    python: Annotated[
        Literal["auto", "pod", "uv"],
        msgspec.Meta(
            description="`uv`: an environment made by uv of the working folder's uv.lock, pyproject.toml or "
            "requirements.txt; `pod`: the pod's own Python; `auto`: uv where one of these files is there."
        ),
    ] = "auto"
    isolation: Annotated[
        Literal["user", "sandbox"],
        msgspec.Meta(
            description="`user`: it runs as a user of its own, or in its own folders; `sandbox`: in one that "
            "a program which tries to get out has not left, without the network."
        ),
    ] = "user"
    network: Annotated[
        bool,
        msgspec.Meta(description="Whether it reaches the network in its sandbox; else it always does."),
    ] = False
    outputs: Annotated[
        Annotated[list[Pattern], msgspec.Meta(max_length=PATTERNS_MAX)],
        msgspec.Meta(description="Which files in its output folder are kept: patterns, `**/*` is every one."),
    ] = msgspec.field(default_factory=lambda: ["**/*"])
    grace_s: Annotated[
        float,
        msgspec.Meta(ge=0, le=25, description="Seconds between SIGTERM and SIGKILL, where it is ended."),
    ] = 10.0
    no_progress_s: Annotated[Seconds, msgspec.Meta(description="Maximum seconds between two events.")] = (
        TIME_LIMIT_S  # a program need not say anything
    )

    @property
    def words(self) -> list[str]:
        """The words of the command, filled in. Raises `ValueError` for quotes that do not end, or a place."""
        return [self._filled(word) for word in _split(self.command)]

    @property
    def variables(self) -> dict[str, str]:
        """The variables of the environment, filled in. Raises `ValueError`."""
        return {name: self._filled(value) for name, value in self.env.items()}

    def _filled(self, text: str) -> str:
        return filling.filled(text, self.params) if self.params else text


def _problems(spec: JobSpec) -> Iterator[str]:
    try:
        _split(spec.command)
    except ValueError as error:
        yield f"command: {str(error).lower()}: write it as for a shell"
        return
    try:
        words = spec.words
    except ValueError as error:
        yield f"command: {error}"
        return
    yield from _params_problems(spec)
    if not words or "\0" in spec.command:
        yield "command: name a program"
    if len(words) > WORDS_MAX or any(len(each) > WORD_CHARS_MAX for each in words):
        yield f"command: {WORDS_MAX} words of {WORD_CHARS_MAX:,} characters at most; put more into a file"
    if spec.git is not None:
        if spec.tree:
            yield "git: the working folder is a commit or a file tree: leave one of them out"
        if not _GIT.fullmatch(spec.git.url):
            yield (
                "git.url: write https://HOST/PATH or ssh://git@HOST/PATH, and a token or a key as a secret, "
                "whose name is git.secret"
            )
    if spec.network and spec.isolation == USER:
        yield (
            "network: at the isolation user a program always reaches the network: leave it out, or choose "
            "isolation: sandbox"
        )
    yield from _image_problems(spec)
    for name, source in spec.inputs.items():
        if not is_source(source):
            yield (
                f"inputs: {name} is {source[:100]!r}, which is none: name a data set (images, images/3), or "
                "files of a run (run:ID, run:ID/*.pt)"
            )
    for name in spec.env:
        if name.upper().startswith(RESERVED):
            yield f"env: {name} is set by the run itself; take another name"


def _params_problems(spec: JobSpec) -> Iterator[str]:
    try:
        long = [name for name, value in spec.variables.items() if len(value) > VARIABLE_CHARS_MAX]
    except ValueError as error:
        yield f"env: {error}"
        return
    if long:
        yield f"env: {long[0]} has more than {VARIABLE_CHARS_MAX:,} characters with its parameters"
    named = set().union(*map(filling.places, (spec.command, *spec.env.values())))
    if spec.params and (unused := [name for name in spec.params if name not in named]):
        yield f"params: no {{{unused[0]}}} stands in command or env, so that its value would change nothing"


def _image_problems(spec: JobSpec) -> Iterator[str]:
    if spec.image and not is_image(spec.image):
        yield (
            f"image: {spec.image[:100]!r} names none: write repo/name:tag or repo/name@sha256:DIGEST, "
            "in lower case"
        )
    if spec.image and spec.isolation == SANDBOX:
        yield "isolation: a container of an image is an isolation of its own: leave one of the two out"
    if spec.image and spec.python == "uv":
        yield "python: no environment is made in a container: its image has the packages; leave it out"


def _title(spec: JobSpec) -> str:
    return (shlex.join(spec.words) if spec.params else " ".join(spec.command.split()))[:TITLE_MAX]


def _problem(spec: Any) -> str | None:
    return "; ".join(_problems(spec)) or None


KIND: Final = Kind(
    name="job",
    says="Runs a program of your own, and keeps what it prints, measures and writes.",
    spec=JobSpec,
    example={"command": "python3 -c 'print(1 + 1)'"},
    pipeline="stages.kinds.job.pipeline",
    package="control_plane.kinds.job",
    title=_title,
    check=_problem,
    stages=(RUN,),
    commands={"run": ("podfleet.kinds.job", "Run a command of your own on a pod: `run -- COMMAND`.")},
    runs_programs=True,
    records_freely=True,
    has_inputs=True,
    prepares=True,
    asks=lambda spec: {LABEL: HAS} if spec.image else {},
    codes={
        "ENVIRONMENT_FAILED": "uv could not make the environment: what it says is in environment.txt.",
        "INDEX_UNREACHABLE": "An index of packages cannot be reached: see the pod's settings.",
        "JOB_FAILED": "The program ended with a status other than 0: all that it printed is in log.txt.",
        "NO_IMAGE": "The image of the container cannot be had: check its name, its tag, and who may have it.",
        "REGISTRY_UNREACHABLE": "The registry of the image cannot be reached: see the pod's network.",
        "NO_SOURCE": "The commit could not be fetched: source.txt says why.",
        "NO_PROGRAM": "The pod has no program of this name: check the spelling, or say which pods have it.",
    },
)
