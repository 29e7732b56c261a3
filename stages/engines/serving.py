"""Serves a model on this pod as long as a block of code lasts, and proves after it that nothing is left.

After the block no process of the engine's session is there, no container, and nobody listens at the port, or
it raises.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from events.models.containers import PROGRAM, UNKNOWN, Container, Inspected
from events.models.engine import Engine
from events.models.parameter import Value
from events.models.presence import is_here
from events.models.variables import FILES, faults
from events.models.visible_devices import VARIABLE
from events.runtime.clock import Clock, Ids
from events.runtime.errors import PipelineError
from stages.engines.container import Docker
from stages.engines.environment import NOT_IN_CONTAINERS, described, is_offline, mask_of
from stages.engines.failure import EngineFailed
from stages.engines.processes import LOOPBACK, free_port, is_free, tells_memory
from stages.engines.readiness import is_ready
from stages.engines.running import SOURCE, Running, ServingLimits, own_environment, start

ONE_LINE: Final = re.compile(r"[^\x00-\x1f\x7f-][^\x00-\x1f\x7f]{0,999}")
SHOWN_CHARS: Final = 100
IMAGE: Final = re.compile(r"[a-z0-9][a-zA-Z0-9._:/@-]{0,499}")
PYTHON_IN_IMAGE: Final = "python3"
HOST: Final = "host"


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A model that is served: `name` is what requests call it, `alias` proves that the server is ours."""

    url: str
    metrics_url: str
    name: str
    alias: str
    port: int
    pid: int
    log: Path
    parameters: Mapping[str, Value]
    command: tuple[str, ...]
    stop: Callable[[], None] = field(repr=False)
    ended: Callable[[], str | None] = field(repr=False)
    look: Callable[[], None] = field(repr=False)


def quiet(line: str) -> None:
    """Say nothing."""


@contextmanager
def serve(
    engine: Engine,
    model: Path | str,
    parameters: Mapping[str, Value],
    port: int | None = None,
    *,
    name: str,
    folder: Path,
    clock: Clock,
    ids: Ids,
    cores: int | None = None,
    gpus: int | None = None,
    environment: Mapping[str, str] | None = None,
    image: str = "",
    pod: str = "",
    say: Callable[[str], None] = quiet,
    limits: ServingLimits | None = None,
) -> Iterator[Served]:
    """Serve a model under `name`; without `port` at one that is free. Files go into `folder`.

    `model` is a file, or what the engine calls it. `environment` is what the engine gets beside its own: it
    has no key of this process. With `image` it runs in a container, which has the label of `pod`.
    `say` gets lines for people: what the engine was given, and how its log goes on.
    Raises `PipelineError`: CONFIG for what is wrong, NOT_AVAILABLE without the engine, else ENGINE_FAILED.
    """
    bounds = limits or ServingLimits()
    settled = engine.settled(parameters, cores or _cores(bounds), gpus)
    given = own_environment(folder, environment or {})
    _check(engine, {"model": str(model), "name": name}, image, given)
    if bounds.memory_bytes is not None and not image and not tells_memory():
        said = "the kernel of this pod does not say what memory a process has: leave out `memory_gib`"
        raise PipelineError("CONFIG", said, retryable=True)  # that of another pod may
    place = _free(port)
    alias = f"podfleet-{ids.token()[:22]}"
    fields = _fields(str(model), place, alias, name, image)
    words = engine.words(fields, settled)
    if words[0] == sys.executable:
        given["PYTHONPATH"] = SOURCE
    given |= engine.environment(fields, settled)
    if environment is not None:
        say(f"{engine.name} at port {place} has {described(environment)}")
        for each in faults(environment, os.path.exists):
            say(f"look at the variables of the engine: {each}")
    asked = _container(Container(name=alias, pod=pod, image=image), given, str(model), gpus, bounds)
    docker = Docker(asked, given, folder) if image else None
    process, output = start(asked.words(words) if docker else words, folder, given, bounds, docker)
    running = Running(
        process=process,
        output=output,
        engine=engine.name,
        port=place,
        clock=clock,
        limits=bounds,
        mask=mask_of(given),
        is_offline=is_offline(given),
        docker=docker,
        say=say,
    )
    try:
        running.wait_until(lambda: is_ready(engine, place, alias, running.process.pid))
        _look_at(docker, running, say)
        yield _served(running, engine, fields, settled, words)
    finally:
        running.look(is_last=True)
        running.stop()


def _served(
    running: Running,
    engine: Engine,
    fields: Mapping[str, str],
    settled: Mapping[str, Value],
    words: Sequence[str],
) -> Served:
    """Return what asks the engine that runs."""
    place = running.port
    return Served(
        url=f"http://{LOOPBACK}:{place}{engine.api}",
        metrics_url=f"http://{LOOPBACK}:{place}{engine.metrics}" if engine.metrics else "",
        name=fields[engine.called],
        alias=fields["alias"],
        port=place,
        pid=running.process.pid,
        log=running.log,
        parameters=settled,
        command=tuple(words),
        stop=running.stop,
        ended=running.ended,
        look=running.look,
    )


def _fields(model: str, port: int, alias: str, name: str, image: str) -> dict[str, str]:
    python = PYTHON_IN_IMAGE if image else sys.executable
    return {"python": python, "model": model, "port": str(port), "alias": alias, "name": name}


def _free(port: int | None) -> int:
    """Return the port to listen at. Raises `PipelineError` where somebody does already."""
    place = port or free_port()
    if is_free(place):
        return place
    raise PipelineError("ENGINE_FAILED", f"somebody listens at port {place} already", retryable=True)


def _check(engine: Engine, texts: Mapping[str, str], image: str, environment: Mapping[str, str]) -> None:
    """Raise `PipelineError` where the engine cannot be started here at all."""
    for what, text in texts.items():
        if not ONE_LINE.fullmatch(text):
            said = f"a {what} is one line that does not begin with '-', not {text[:SHOWN_CHARS]!r}"
            raise PipelineError("CONFIG", said)
    if not engine.command:
        raise PipelineError("CONFIG", f"{engine.name} needs the template of its command")
    if image:
        if not IMAGE.fullmatch(image):
            raise PipelineError("CONFIG", f"{image[:SHOWN_CHARS]!r} is no name of an image")
        if engine.proof == "listener":
            raise PipelineError(
                "CONFIG",
                f"{engine.name} cannot be told from another server in a container: it lists no alias",
            )
        if shutil.which(PROGRAM, path=environment["PATH"]) is None:
            raise _lacking(f"the image {image} needs Docker, and this pod has no program {PROGRAM!r}")
    elif not is_here(engine, environment):
        what = "program" if engine.needs_is == "program" else "package"
        raise _lacking(f"{engine.name} needs the {what} {engine.needs!r}: {engine.install}")


def _cores(limits: ServingLimits) -> int:
    """Return the cores by which its threads are bounded, one of which they leave. Raises `PipelineError`."""
    here = len(os.sched_getaffinity(0))
    if limits.cores is None:
        return here
    if limits.cores > here:
        said = f"{limits.cores} cores are wanted, and this pod has {here}: lower `cores`"
        raise PipelineError("CONFIG", said, retryable=True)  # another pod may have them
    return min(limits.cores + 1, here)  # where some are left to others, it may have all of its own


def _container(
    named: Container, given: Mapping[str, str], model: str, gpus: int | None, limits: ServingLimits
) -> Container:
    """Return the container with what it may have: variables, the model, and the caches that these name."""
    caches = {given[each] for each in ("HF_HOME", "HF_HUB_CACHE") if each in given}
    models = {given["MODEL_PATH"]} if "MODEL_PATH" in given else set()
    models |= {model} if os.path.isabs(model) else set()
    models |= {given[each] for each in FILES if each in given}
    return replace(
        named,
        variables=tuple(sorted({*given} - NOT_IN_CONTAINERS)),
        read_only=tuple(sorted(each for each in models if Path(each).exists())),
        writable=tuple(sorted(each for each in caches if Path(each).is_dir())),
        has_gpus=bool(gpus),
        devices=tuple(filter(None, given.get(VARIABLE, "").split(","))),
        memory_bytes=limits.memory_bytes,
        cores=limits.cores,
    )


def _look_at(docker: Docker | None, running: Running, say: Callable[[str], None]) -> None:
    """Read back what a container was given, and say it. Raises `EngineFailed` where it is another one."""
    if docker is None:
        return
    found = docker.inspected()
    if found is None or not _is_as_asked(found, docker.container):
        raise EngineFailed(f"Docker shows another container than was asked for: {found}", running.log)
    hidden = mask_of(found.environment)
    shown = hidden("", "", {name: found.environment[name] for name in sorted(found.environment)})
    say(f"its container has {', '.join(f'{name}={value}' for name, value in shown.items())}")


def _is_as_asked(found: Inspected, asked: Container) -> bool:
    return (
        (found.network, found.ipc) == (HOST, HOST)
        and found.is_running
        and found.pod == (asked.pod or UNKNOWN)
    )


def _lacking(message: str) -> PipelineError:
    return PipelineError("NOT_AVAILABLE", message, retryable=True)
