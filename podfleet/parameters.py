"""Reads the parameters and options of a submission from the command line, and turns them into JSON."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from events.runtime.errors import ConfigError
from podfleet.client.options import OptionChanges, Options, StartOptions
from podfleet.connection import EXIT_WRONG_USE, fail

SPEC_BYTES_MAX: Final = 4 << 20
DEPTH_MAX: Final = 64
LABEL: Final = "labels."
NOTHING: Final = "nothing"  # as a requirement: any pod will do
NOW: Final = "now"
DURATION: Final = re.compile(r"([1-9]\d{0,9})([smhdw])", re.ASCII)
UNITS_S: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
PROJECT: Final = "PODFLEET_PROJECT"
FORMS: Final = (".yaml", ".yml", ".json")
# YAML 1.2's numbers: the library's own idea of them takes 1e-3 for text.
FLOAT: Final = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?\Z")

Parameters = Annotated[
    list[str] | None,
    typer.Option(
        "--parameter", "-p", metavar="KEY=VALUE", help="Field of the spec, JSON or text; a.b=1 nests."
    ),
]
SpecFile = Annotated[
    Path | None, typer.Option("--file", "-f", help="Spec as a YAML or JSON file; -p wins over it.")
]
# The options of a run, as each command that queues one, or changes it, has them.
Priority = Annotated[int | None, typer.Option(min=-100, max=100, help="Higher runs first; 0 by default.")]
Labels = Annotated[
    list[str] | None,
    typer.Option("--label", "-l", metavar="NAME=VALUE", help="Label of the run; repeatable."),
]
WithoutLabels = Annotated[
    list[str] | None, typer.Option("--remove-label", metavar="NAME", help="Label to remove; repeatable.")
]
Requires = Annotated[
    list[str] | None,
    typer.Option(
        "--requires",
        metavar="KEY=VALUE",
        help="Asked of the pod: gpu_gib, gpu, gpus, region, pod, labels.NAME; repeatable.",
    ),
]
Attempts = Annotated[
    int | None, typer.Option("--max-attempts", min=1, max=100, help="Attempts at most; 3 by default.")
]
QueueLimit = Annotated[
    int | None,
    typer.Option(
        "--queue-limit", min=1, metavar="SECONDS", help="Longest wait for a pod; a week by default."
    ),
]
SecretNames = Annotated[
    list[str] | None,
    typer.Option("--secret", metavar="NAME", help="A secret for the run's environment; repeatable."),
]
After = Annotated[
    list[str] | None,
    typer.Option(
        "--after", metavar="RUN", help="A run, or group:NAME, that has to complete first; repeatable."
    ),
]
Project = Annotated[
    str | None,
    typer.Option("--project", envvar=PROJECT, metavar="NAME", help="Project of the run, which is charged."),
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME", help="Not older: 2h, 30m, 1d, or a time such as 2026-12-24T18:00."
    ),
]
NotBefore = Annotated[
    str | None,
    typer.Option("--not-before", metavar="TIME", help="Earliest start, such as 2026-12-24T18:00+01:00."),
]


class Unreadable(Exception):
    """A parameter cannot be read; the text is the fault, and a remedy."""


def spec(file: Path | None, pairs: Sequence[str] | None) -> dict[str, Any]:
    """Return the file's fields with those of `pairs` over them. Ends the command at what cannot be read."""
    try:
        found = {} if file is None else read_file(file)
        for pair in pairs or ():
            put(found, pair)
    except Unreadable as error:
        raise typer.BadParameter(str(error)) from error
    return found


def options(
    *,
    priority: int | None,
    label: Sequence[str] | None,
    requires: Sequence[str] | None,
    attempts: int | None,
    queue_limit: int | None,
    secret: Sequence[str] | None,
    project: str | None = None,
) -> Options:
    """Return the options of the runs of a schedule or a group. Ends the command at what cannot be read."""
    return {
        "priority": priority,
        "labels": labels(label) or None,
        "requires": requirements(requires) or None,
        "max_attempts": attempts,
        "queue_limit_s": queue_limit,
        "secrets": secret or None,
        "project": usual_project(project),
    }


def usual_project(named: str | None) -> str | None:
    """Return the project that is named, by an option, the environment, or `.env`; None where none is.

    Ends the command at a file that cannot be read.
    """
    from podfleet.embedded.config import DOTENV, written

    if named:
        return named
    try:
        return written(Path.cwd() / DOTENV).get(PROJECT)
    except ConfigError as error:
        raise typer.BadParameter(error.message) from error


def start_options(*, not_before: str | None, **others: Any) -> StartOptions:
    """Return the options of a new run. Ends the command at what cannot be read."""
    return {**options(**others), "not_before": None if not_before is None else moment(not_before)}


def changes(
    *,
    priority: int | None,
    label: Sequence[str] | None,
    remove_label: Sequence[str] | None,
    requires: Sequence[str] | None,
    attempts: int | None,
    queue_limit: int | None,
    not_before: str | None,
) -> OptionChanges:
    """Return the options that are given, to replace others. Ends the command at what cannot be read."""
    found: OptionChanges = {}
    if priority is not None:
        found["priority"] = priority
    if label or remove_label:
        found["labels"] = {**dict.fromkeys(remove_label or ()), **labels(label)}
    if requires:
        found["requires"] = {} if [*requires] == [NOTHING] else requirements(requires)
    if attempts is not None:
        found["max_attempts"] = attempts
    if queue_limit is not None:
        found["queue_limit_s"] = queue_limit
    if not_before is not None:
        found["not_before"] = None if not_before == NOW else moment(not_before)
    return found


def moment(text: str) -> datetime:
    """Return a moment with its zone, that of this machine where none is given. Ends the command otherwise."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError, OSError) as error:
        raise typer.BadParameter(f"{text!r} is no time, such as 2026-12-24T18:00+01:00") from error


def since(text: str | None) -> datetime | None:
    """Return the moment that a text means: so long ago (`90s`, `30m`, `2h`, `1d`, `2w`), or a time.

    Ends the command at anything else.
    """
    if text is None:
        return None
    from events.runtime.clock import SystemClock

    if DURATION.fullmatch(text):
        try:
            return SystemClock().now() - timedelta(seconds=seconds_of(text, "--since"))
        except OverflowError:
            raise typer.BadParameter(f"{text!r} is before all times", param_hint="--since") from None
    return moment(text)


def seconds_of(text: str, option: str) -> int:
    """Return the seconds in an option's text, such as 30m; a wrong text ends the command."""
    found = DURATION.fullmatch(text.strip())
    if found is None:
        fail(f"{option} is {text!r}; it is a number with a unit, such as 90s, 30m, 2h or 7d", EXIT_WRONG_USE)
    return int(found[1]) * UNITS_S[found[2]]


def labels(pairs: Sequence[str] | None) -> dict[str, str]:
    """Return labels from texts `name=value`. Ends the command at what cannot be read."""
    found = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{pair!r} is not name=value, such as team=vision")
        found[name] = value
    return found


def requirements(pairs: Sequence[str] | None) -> dict[str, Any]:
    """Return what is asked of a pod: labels and its name are texts, also where they look like numbers."""
    found: dict[str, Any] = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"--requires {pair!r} is not key=value, such as labels.gpu=h100")
        if name.startswith(LABEL):
            found.setdefault("labels", {})[name.removeprefix(LABEL)] = value
        else:
            found[name] = value if name in ("pod", "gpu") else value_of(value)
    return found


def put(fields: dict[str, Any], pair: str) -> None:
    """Set the field of a text `key=value`; dots in the key lead into mappings. Raises `Unreadable`."""
    path, equals, value = pair.partition("=")
    names = path.split(".")
    if not equals or not all(names):
        raise Unreadable(f"-p {pair!r} is not key=value, such as -p seconds=5")
    place = fields
    for name in names[:-1]:
        inner = place.setdefault(name, {})
        if not isinstance(inner, dict):
            raise Unreadable(f"-p {pair!r}: {name!r} is {inner!r} already, and has no fields")
        place = inner
    place[names[-1]] = value_of(value)


def value_of(text: str) -> Any:
    """Return the text's value as JSON, else the text itself."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except ValueError:
        return text


def read_file(file: Path) -> dict[str, Any]:
    """Return the mapping in a file. Raises `Unreadable` that names the file, the line, and what would do."""
    if file.suffix.lower() not in FORMS:
        raise Unreadable(f"{file}: a spec is a file of YAML or JSON, whose name ends with {', '.join(FORMS)}")
    try:
        raw = file.read_bytes()
    except FileNotFoundError:
        raise Unreadable(f"{file}: there is no such file") from None
    except OSError as error:
        raise Unreadable(f"{file}: {error.strerror}") from error
    if len(raw) > SPEC_BYTES_MAX:
        raise Unreadable(f"{file}: {len(raw):,} bytes; a spec has {SPEC_BYTES_MAX:,} at most")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(f"{file}: it is no text in UTF-8 (byte {error.start})") from error
    found = _from_json(file, text) if file.suffix.lower() == ".json" else _from_yaml(file, text)
    if not isinstance(found, dict):
        kind = "nothing" if found is None else type(found).__name__
        raise Unreadable(f"{file}: it holds {kind}; a spec is a mapping, such as `seconds: 5`")
    _check(found, str(file), "", 0)
    return found


def _from_json(file: Path, text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        message = f"{file}: line {error.lineno}, column {error.colno}: {error.msg}"
        raise Unreadable(f"{message}; it has to be JSON") from error
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"{file}: {error}") from error


def _from_yaml(file: Path, text: str) -> Any:
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML brings no types
        """Plain values, and numbers as YAML 1.2 writes them."""

    Loader.add_implicit_resolver("tag:yaml.org,2002:float", FLOAT, list("-+0123456789."))
    try:
        return yaml.load(text, Loader)  # noqa: S506 - a SafeLoader, with nothing but a pattern added
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = "" if mark is None else f" line {mark.line + 1}, column {mark.column + 1}:"
        raise Unreadable(
            f"{file}:{where} {error.problem or 'it cannot be read'}; it has to be YAML"
        ) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise Unreadable(f"{file}: {str(error).splitlines()[0]}; it has to be YAML") from error


def _check(value: Any, file: str, path: str, depth: int) -> None:
    """Refuse values that JSON does not have, and name the field."""
    if depth > DEPTH_MAX:
        raise Unreadable(f"{file}: deeper than {DEPTH_MAX} levels")
    match value:
        case dict():
            for name, each in value.items():
                if not isinstance(name, str):
                    raise Unreadable(f"{file}: {path}{name!r} is no name of a field; put it in quotes")
                _check(each, file, f"{path}{name}.", depth + 1)
        case list():
            for each in value:
                _check(each, file, path, depth + 1)
        case float() if not math.isfinite(value):
            raise Unreadable(f"{file}: {path.rstrip('.')} is {value}, which no number of a spec can be")
        case None | bool() | int() | float() | str():
            return
        case _:
            raise Unreadable(
                f"{file}: {path.rstrip('.')} is a {type(value).__name__}; put it in quotes to mean the text"
            )


def _no_constant(name: str) -> Mapping[str, Any]:
    raise ValueError(f"{name} is no number of JSON")
