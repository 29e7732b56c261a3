"""`podfleet doctor`: checks everything that the fleet depends on, and names a fix for each fault."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

import typer

from events.kinds import KINDS
from events.models.variables import FILES, FOLDERS, OFFLINE, PLACES, PROXIES, TOKENS, faults
from events.queue.abilities import ISOLATIONS
from events.runtime.interpreter import objection
from podfleet.client.problems import ClientError
from podfleet.client.synchronous import Client
from podfleet.commands.maintenance.config import masked
from podfleet.connection import EXIT_FAILED
from podfleet.nouns import noun
from podfleet.output import AsJson, Column, field, print_items, tell

app = noun("doctor", has_verbs=False)

PYTHON_MIN: Final = (3, 11)
PATIENCE_S: Final = 5.0
SKEW_MAX_S: Final = 5.0
STORAGE: Final = ("MINIO_ENDPOINT", "MINIO_ACCESS_KEY", "MINIO_SECRET_KEY")
PARTS: Final[Mapping[str, str]] = {
    **{module: f"runs of kind {kind.name}" for kind in KINDS.values() for module in kind.needs},
    **{"pynvml": "GPUs of a worker", "psutil": "a worker"},
}
SHOWN: Final = (*PROXIES, *TOKENS, *FILES, *FOLDERS, *PLACES, OFFLINE, "HF_ENDPOINT")
GPU_QUERY: Final = ("--query-gpu=name,memory.total,driver_version", "--format=csv,noheader")

State = Literal["ok", "note", "failed"]
Variables = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check; `then` is the remedy."""

    check: str
    state: State
    says: str
    then: str = ""

    @property
    def row(self) -> dict[str, str]:
        return {"check": self.check, "state": self.state, "says": masked("", self.says), "then": self.then}


COLUMNS: Final = (
    Column("CHECK", field("check"), is_whole=True),
    Column("STATE", field("state"), lambda state: f"{SIGNS[state]} {state}", is_whole=True),
    Column("FOUND", field("says"), is_prose=True),
    Column("WHAT TO DO", field("then"), is_prose=True),
)
SIGNS: Final[Mapping[str, str]] = {"ok": "✓", "note": "·", "failed": "✗"}


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Check Python, GPU, MongoDB, storage, control plane and clock; 1 if a required check fails."""
    from podfleet.embedded.config import environment

    variables = environment(Path.cwd())
    findings = [finding for check in CHECKS for finding in check(variables)]
    print_items([finding.row for finding in findings], COLUMNS, as_json=as_json)
    failed = [finding.check for finding in findings if finding.state == "failed"]
    if failed:
        tell(f"\nto fix: {', '.join(failed)}")
        raise typer.Exit(EXIT_FAILED)


def python(_: Variables) -> Iterator[Finding]:
    """Look at the interpreter, and at the parts that are installed in it."""
    found = ".".join(map(str, sys.version_info[:3]))
    needed = ".".join(map(str, PYTHON_MIN))
    if sys.version_info < PYTHON_MIN:
        yield Finding(
            "python", "failed", found, f"install Python {needed} or newer, and run `make setup` with it"
        )
        return
    if warning := objection(sys.version_info[:3]):
        yield Finding("python", "note", found, warning)
    missing = dict.fromkeys(what for name, what in PARTS.items() if find_spec(name) is None)
    says = f"{found}, podfleet {_version()}"
    if missing:
        extras = ",".join(["pod", *(kind.name for kind in KINDS.values() if kind.needs)])
        then = f"pip install 'podfleet[{extras}]' where workers shall run"
        yield Finding("python", "note", f"{says}; nothing installed for {', '.join(missing)}", then)
    else:
        yield Finding("python", "ok", says)


def gpu(_: Variables) -> Iterator[Finding]:
    """Ask the driver for its devices; a fleet needs none."""
    program = shutil.which("nvidia-smi")
    if program is None:
        yield Finding(
            "gpu", "note", "no NVIDIA driver here", "nothing: this machine serves runs that need no GPU"
        )
        return
    try:
        answer = subprocess.run(
            [program, *GPU_QUERY], capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = f"nvidia-smi did not answer ({type(error).__name__})"
        yield Finding("gpu", "note", problem, "look at the driver: `nvidia-smi`, `dmesg`")
        return
    lines = answer.stdout.strip().splitlines()
    if answer.returncode != 0 or not lines:
        complaint = (answer.stderr or answer.stdout).strip().splitlines() or ["it found no device"]
        yield Finding("gpu", "note", complaint[0], "look at the driver, or start the pod with its GPUs")
        return
    for line in lines:
        yield Finding("gpu", "ok", line)


def isolation(variables: Variables) -> Iterator[Finding]:
    """Report the isolation of a model's programs on a worker that is started here."""
    strictest, *weaker = ISOLATIONS
    chosen = variables.get("PODFLEET_ISOLATION") or strictest
    if chosen not in ISOLATIONS:
        then = f"set PODFLEET_ISOLATION to one of {', '.join(ISOLATIONS)}, or not at all"
        yield Finding("isolation", "failed", f"PODFLEET_ISOLATION is {chosen!r}", then)
    elif chosen in weaker:
        then = f"leave PODFLEET_ISOLATION away: {strictest} is the default"
        yield Finding("isolation", "note", f"{chosen}, a step down from {strictest}", then)
    else:
        yield Finding("isolation", "ok", f"{chosen}; a worker's log says what of it this machine can do")


def engines(variables: Variables) -> Iterator[Finding]:
    """Look at the variables by which engines of a worker that is started here reach their models."""
    found = [*faults(variables, lambda path: Path(path).exists())]
    for each in found:
        says, _, then = each.partition(": ")
        yield Finding("engines", "note", says, then)
    if not found:
        names = [name for name in SHOWN if variables.get(name, "").strip()]
        yield Finding("engines", "ok", f"variables of engines: {', '.join(names) or 'none is set'}")


def mongodb(variables: Variables) -> Iterator[Finding]:
    """Ask the database, where one is named, whether it can keep what is promised."""
    url = variables.get("MONGODB_URL")
    if not url:
        yield from _embedded_mongodb(variables)
        says = "MONGODB_URL is not set"
        yield Finding(
            "mongodb", "note", says, "set it where a control plane shall run; a worker may do without"
        )
        return
    then = "see `docs/operations.md`, What MongoDB must be; `podfleet migrate` builds missing indexes"
    yield _asked(
        "mongodb", "answers, keeps acknowledged writes, has its indexes", lambda: _mongodb(url), then
    )


def _embedded_mongodb(variables: Variables) -> Iterator[Finding]:
    """Name the MongoDB that `podfleet up` would start here."""
    from events.runtime.errors import ConfigError
    from podfleet.embedded.mongod import find_mongod, named

    try:
        says, _, then = named(find_mongod(variables.get("PATH"))).partition(": ")
    except ConfigError:
        return  # a machine of pods needs none
    words = f"{then}; or set MONGODB_URL" if then else ""
    yield Finding("mongodb", "note" if then else "ok", f"`podfleet up` starts {says}", words)


def storage(variables: Variables) -> Iterator[Finding]:
    """Ask the object storage, where one is named."""
    missing = [name for name in STORAGE if not variables.get(name)]
    if missing:
        says = f"{', '.join(missing)} not set"
        yield Finding("storage", "note", says, "set them where a control plane shall run; workers need none")
        return
    then = "check MINIO_ENDPOINT (host:port), its keys and MINIO_SECURE"
    yield _asked(
        "storage",
        f"{variables['MINIO_ENDPOINT']} answers, the keys are valid",
        lambda: _storage(variables),
        then,
    )


def clocks(variables: Variables) -> Iterator[Finding]:
    """Compare this machine's clock with those of the database and of the storage, where they answer."""
    from events.runtime.measured_clock import ALARM_S, THE_STORAGES, THE_STORES, ahead_words

    asks: dict[str, Callable[[], Awaitable[float | None]]] = {}
    if url := variables.get("MONGODB_URL"):
        asks[THE_STORES] = lambda: _ahead_of_store(url)
    if all(variables.get(name) for name in STORAGE):
        asks[THE_STORAGES] = lambda: _ahead_of_storage(variables)
    for whose, ask in asks.items():
        found: list[float | None] = []

        async def measure(
            ask: Callable[[], Awaitable[float | None]] = ask, found: list[float | None] = found
        ) -> None:
            found.append(await ask())

        _asked("clock", "", measure, "")  # what does not answer is a finding of its own check
        for ahead_s in found:
            if ahead_s is None:
                yield Finding(
                    "clock", "note", f"no answer tells {whose} time", "nothing: keys may be refused"
                )
            elif abs(ahead_s) < ALARM_S:
                yield Finding("clock", "ok", ahead_words(ahead_s, whose))
            else:
                then = "set the clock that is wrong: `timedatectl set-ntp true` there"
                yield Finding("clock", "failed", ahead_words(ahead_s, whose), then)


def control_plane(_: Variables) -> Iterator[Finding]:
    """Ask the control plane what it stands on, whether our key is valid, and what time it is there."""
    import httpx

    from events.runtime.clock import SystemClock
    from events.runtime.errors import ConfigError
    from podfleet.embedded.config import found_access

    try:
        found = found_access(Path.cwd())
    except ConfigError as error:
        yield Finding("key", "failed", error.message, "name the address and its key in the same place")
        return
    url, client = found.url, Client(found.url, found.key)
    try:
        http, asked_at = client.http, SystemClock().now()
        ready = http.get("/readyz", timeout=PATIENCE_S)
        answered_at = SystemClock().now()
        states = ready.json()
        if not isinstance(states, dict):
            raise ValueError("no control plane answers so")
        allowed = http.get("/api/runs", params={"limit": 1}, timeout=PATIENCE_S)
    except (httpx.HTTPError, httpx.InvalidURL, ClientError, ValueError) as error:
        then = "start one with `podfleet up`, or set CONTROL_PLANE_URL"
        yield Finding("control plane", "failed", f"{url}: {type(error).__name__}", then)
        return
    lacking = [f"{name}: {state}" for name, state in states.items() if state != "ok" and name != "works"]
    if lacking:
        then = "its own MongoDB and storage are meant: look at them, and at its log"
        yield Finding("control plane", "failed", f"{url} is not ready ({', '.join(lacking)})", then)
    elif ready.is_error:
        yield Finding(
            "control plane", "failed", f"{url} answers {ready.status_code}", "is it a control plane?"
        )
    else:
        yield Finding("control plane", "ok", f"{url} is ready")
    if allowed.status_code == httpx.codes.UNAUTHORIZED:
        then = "set PODFLEET_API_KEY to the key of this control plane"
        yield Finding("key", "failed", f"{url} refuses the key ({allowed.status_code})", then)
    elif allowed.status_code == httpx.codes.FORBIDDEN:
        then = "nothing on a pod, whose key claims and reports; people need a key that may read"
        yield Finding("key", "note", f"{url} knows this key, which may not read", then)
    yield from _clock(ready.headers.get("date"), asked_at, answered_at)


def _clock(date: str | None, asked_at: datetime, answered_at: datetime) -> Iterator[Finding]:
    if date is None:
        return
    try:
        there = parsedate_to_datetime(date)
    except ValueError:
        return
    # By whatever the answer took; the other side tells whole seconds.
    skew_s = (min(max(asked_at, there), answered_at) - there).total_seconds()
    if abs(skew_s) > SKEW_MAX_S:
        way = "ahead of" if skew_s > 0 else "behind"
        then = "set this machine's clock: `timedatectl set-ntp true`"
        yield Finding("clock", "failed", f"{abs(skew_s):.0f} s {way} the control plane's", then)
    else:
        yield Finding("clock", "ok", "within seconds of the control plane's")


def _asked(check: str, fine: str, ask: Callable[[], Awaitable[None]], then: str) -> Finding:
    import asyncio

    from events.runtime.errors import PodfleetError

    async def in_time() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await ask()

    try:
        asyncio.run(in_time())
    except TimeoutError:
        return Finding(check, "failed", f"no answer in {PATIENCE_S:.0f} s", then)
    except PodfleetError as error:
        return Finding(check, "failed", error.message, then)
    except Exception as error:  # noqa: BLE001 - whatever a check meets is what it has found
        return Finding(check, "failed", f"{type(error).__name__}: {error}", then)
    return Finding(check, "ok", fine)


async def _mongodb(url: str) -> None:
    from control_plane.store import database, schema

    client = database.connect(url)
    try:
        db = database.database(client, url)
        await database.ping(db)
        await database.require_guarantees(client)
        await schema.verify(db)
    finally:
        await client.close()


async def _storage(variables: Variables) -> None:
    from control_plane.config import read_storage
    from control_plane.files.blobs import open_blobs

    await open_blobs(read_storage(variables)).ping()


async def _ahead_of_store(url: str) -> float | None:
    from control_plane.store import database
    from events.runtime.clock import SystemClock

    client = database.connect(url)
    try:
        clock = await database.stores_clock(database.database(client, url), SystemClock())
        return clock.machine_ahead_s
    finally:
        await client.close()


async def _ahead_of_storage(variables: Variables) -> float | None:
    from control_plane.config import read_storage
    from control_plane.files.blobs import open_blobs

    blobs = open_blobs(read_storage(variables))
    await blobs.measure()
    return blobs.clock.machine_ahead_s


def _version() -> str:
    try:
        return version("podfleet")
    except PackageNotFoundError:
        return "not installed"


CHECKS: Final[tuple[Callable[[Variables], Iterator[Finding]], ...]] = (
    python,
    gpu,
    isolation,
    engines,
    mongodb,
    storage,
    clocks,
    control_plane,
)
