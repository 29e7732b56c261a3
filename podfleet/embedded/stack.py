"""The stack on one machine: MongoDB, S3, the control plane and its workers, in that order.

What the environment names already (MONGODB_URL, MINIO_ENDPOINT) is used and not started.
Secrets reach a service by its environment only, and a worker gets none of the storage's.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self
from urllib.parse import quote

import httpx

from events.queue.labels import operators_labels
from events.runtime.access import DATA_DEFAULT, FILE, Access, noted, running
from events.runtime.clock import Clock, Ids
from events.runtime.errors import ConfigError, PodfleetError
from events.runtime.exits import EXIT_LEFT
from podfleet.embedded import ports
from podfleet.embedded.credentials import (
    SECRETS_KEY,
    SECRETS_KEY_FILE,
    Credentials,
    credentials,
    secrets_key_file,
)
from podfleet.embedded.data_lock import held
from podfleet.embedded.interrupts import interrupts
from podfleet.embedded.mongod import find_mongod, named, prepare_mongod
from podfleet.embedded.private_file import private_directory, replace_private
from podfleet.embedded.process import Command
from podfleet.embedded.public_address import NOT_PUBLIC, PublicAddress
from podfleet.embedded.s3 import find_s3, prepare_s3
from podfleet.embedded.service import Service
from podfleet.embedded.supervisor import LOOK_S, Say, Supervisor

DEFAULT_DATA: Final = DATA_DEFAULT
DEFAULT_PORT: Final = 8700
WORKERS_MAX: Final = 64
CREDENTIALS: Final = "credentials.json"
PUBLIC_URL: Final = "PODFLEET_PUBLIC_URL"
SECRETS_KEY_NAME: Final = "secrets.key"

CONTROL_PLANE_START_S: Final = 60.0
CONTROL_PLANE_GRACE_S: Final = 10.0
WORKER_START_S: Final = 30.0
WORKER_GRACE_S: Final = 20.0
WORKER_STEADY_S: Final = 1.0
READY_TIMEOUT_S: Final = 2.0

EXIT_STOPPED: Final = 0
EXIT_FAILED: Final = 1
EXIT_WRONG_USE: Final = 2

# a server of models on one's own machine is what people try first
LOCAL_MODELS: Final = {"PODFLEET_PRIVATE_HOSTS": "127.0.0.0/8,::1"}
# Without a model only programs that we ship run here, so nothing is refused for what the machine lacks.
MODELS: Final = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL")
SHIPPED_ONLY: Final = {"PODFLEET_ISOLATION": "best"}
# which parts of the environment a worker must not see, and by which it would be renamed
STORES: Final = ("MONGODB_URL", "MINIO_")
NOT_FOR_WORKERS: Final = ("MINIO_", "PODFLEET_SECRETS_KEY", "RUNPOD_POD_ID")


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """How the two programs of ours are started."""

    control_plane: tuple[str, ...] = (sys.executable, "-m", "control_plane", "serve")
    worker: tuple[str, ...] = (sys.executable, "-m", "pod_worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the user may choose; port 0 means any free one."""

    data: Path = DEFAULT_DATA
    port: int = DEFAULT_PORT
    workers: int = 1
    labels: tuple[str, ...] = ()  # of the workers
    keyless: bool = False  # whether this machine needs no key, as long as there is none and no proxy
    public: PublicAddress = NOT_PUBLIC  # by which others reach the fleet
    programs: Programs = Programs()

    def problems(self) -> list[str]:
        """Return what cannot work, in words for the user."""
        found: list[str] = []
        if not 0 <= self.workers <= WORKERS_MAX:
            found.append(f"--workers is {self.workers}; it has to be from 0 to {WORKERS_MAX}")
        found += operators_labels(None, self.labels)[1]
        found += self.public.problems(keyless=self.keyless)
        if not found and (place := self.public.place) is not None:
            host, port = place
            if port == self.port or not ports.is_free(port, host=host):
                found.append(
                    f"port {port} on {host} is already taken: choose another with --listen HOST:PORT"
                )
        if not 0 <= self.port < 65_536:
            found.append(f"--port is {self.port}; it has to be from 0 to 65535")
        elif self.port and not ports.is_free(self.port):
            found.append(
                f"port {self.port} on {ports.LOOPBACK} is already taken{self._by_us()}: "
                "stop what listens there, or choose another with --port"
            )
        return found

    def _by_us(self) -> str:
        """Return a hint if the fleet of this folder runs already."""
        near = running(self.data)
        return (
            "" if near is None else f" (this folder's fleet runs at {near.url}; `podfleet signin` opens it)"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What the stack takes from outside."""

    environment: Mapping[str, str]
    clock: Clock
    ids: Ids
    say: Say
    """Takes one line for people; called from another thread too."""


class Stack:
    """A running fleet; as a context manager it is ready inside and gone, to the last process, after."""

    def __init__(self, options: Options, world: World) -> None:
        self._options = options
        self._world = world
        self._data = options.data.absolute()
        self._held = ExitStack()
        self._supervisor: Supervisor | None = None
        self.port = options.port
        self.mongodb_url = ""
        self._stores: Mapping[str, str] = {}
        self.api_key = ""

    @property
    def url(self) -> str:
        """The address of the control plane."""
        return f"http://{ports.LOOPBACK}:{self.port}"

    def begin(self) -> None:
        """Check everything that can be checked beforehand, then start; returns at once."""
        problems = self._options.problems()
        if problems:
            raise ConfigError(problems)
        private_directory(self._data)
        self._held.enter_context(held(self._data))
        self.port = self._options.port or ports.choose(self._world.ids)
        self._held.enter_context(ports.kept(self.port))
        tiers = self._tiers()
        access = self._data / FILE  # where the command line and other workers find us, and the key
        replace_private(
            access,
            noted(Access(self.url, self.api_key, self._stores, self._options.public.origin), os.getpid()),
        )
        self._held.callback(access.unlink, missing_ok=True)
        self._supervisor = Supervisor(
            tiers, logs=self._data / "logs", clock=self._world.clock, say=self._world.say
        )
        self._supervisor.begin()

    def is_settled(self, wait_s: float) -> bool:
        """Wait a while for the start to succeed or fail; `check` returns which."""
        return self._running().is_settled(wait_s)

    def check(self) -> None:
        """Raise what ended the stack, if anything did."""
        self._running().check()

    def sign_in_link(self, to: str = "/") -> str | None:
        """Return an address that signs one browser in, once and soon; None where none is made."""
        headers = {"Authorization": f"Bearer {self.api_key}"}
        try:
            answer = httpx.post(f"{self.url}/api/signin-links", headers=headers, trust_env=False)
        except httpx.TransportError:
            return None
        if answer.status_code != httpx.codes.CREATED:
            return None
        link = answer.json()
        return f"{link.get('url') or self.url + link['path']}&to={quote(to, safe='/')}"

    def is_running(self) -> bool:
        """Return whether the services are supervised."""
        return self._supervisor is not None and self._supervisor.is_running()

    def ask_to_stop(self) -> None:
        """Begin to stop; `is_running` is false when nothing is left."""
        if self._supervisor is not None:
            self._supervisor.ask_to_stop()

    def hurry(self) -> None:
        """Let the stop under way kill instead of wait."""
        if self._supervisor is not None:
            self._supervisor.hurry()

    def stop(self) -> None:
        """Stop everything and return when nothing is left."""
        try:
            if self._supervisor is not None:
                self._supervisor.stop()
        finally:
            self._held.close()

    def pids(self) -> dict[str, int]:
        """Return the process of each living service, by its name."""
        return self._running().pids()

    def __enter__(self) -> Self:
        try:
            self.begin()
            while not self.is_settled(LOOK_S):
                pass
            self.check()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _running(self) -> Supervisor:
        assert self._supervisor is not None, "begin first"
        return self._supervisor

    def _tiers(self) -> list[list[Service]]:
        secrets = credentials(self._data / CREDENTIALS, self._world.ids)
        servers: list[Service] = []
        control = LOCAL_MODELS | _for_python(self._world.environment)
        control["CONTROL_PLANE_URL"] = self.url
        self.api_key = control["PODFLEET_API_KEY"] = control.get("PODFLEET_API_KEY") or secrets.api_key
        control["MONGODB_URL"] = self.mongodb_url = self._mongodb(secrets, servers)
        control |= self._storage(secrets, servers)
        control |= self._secrets_key()
        if self._options.public.origin is not None:
            control[PUBLIC_URL] = self._options.public.origin
        self._stores = {name: control[name] for name in control if name.startswith(STORES)}
        has_model = any(self._world.environment.get(name, "").strip() for name in MODELS)
        worker = ({} if has_model else SHIPPED_ONLY) | {
            name: value for name, value in control.items() if not name.startswith(NOT_FOR_WORKERS)
        }
        workers = [self._worker(number, worker) for number in range(1, self._options.workers + 1)]
        return [tier for tier in (servers, [self._control_plane(control)], workers) if tier]

    def _secrets_key(self) -> dict[str, str]:
        """Return the variable that names the key for secrets, which is made the first time."""
        if any(self._world.environment.get(name) for name in (SECRETS_KEY, SECRETS_KEY_FILE)):
            return {}
        return {SECRETS_KEY_FILE: str(secrets_key_file(self._data / SECRETS_KEY_NAME))}

    def _mongodb(self, secrets: Credentials, servers: list[Service]) -> str:
        """Return the address of MongoDB; where there is none yet, the server to start joins `servers`."""
        given = self._world.environment.get("MONGODB_URL")
        if given:
            return given
        binary = find_mongod(self._world.environment.get("PATH"))
        self._world.say(f"mongodb is {named(binary)}")
        mongod = prepare_mongod(binary, self._data / "mongo", secrets, self._world.ids)
        self._held.enter_context(ports.kept(mongod.port))
        servers.append(mongod.service())
        return mongod.url()

    def _storage(self, secrets: Credentials, servers: list[Service]) -> dict[str, str]:
        """Return the storage's variables; where there is none yet, the server joins `servers`."""
        if self._world.environment.get("MINIO_ENDPOINT"):
            return {}
        found = find_s3(self._world.environment.get("PATH"))
        storage = prepare_s3(found, self._data / "s3", secrets, self._world.ids)
        self._held.enter_context(ports.kept(storage.port))
        servers.append(storage.service())
        return storage.environment()

    def _control_plane(self, environment: Mapping[str, str]) -> Service:
        argv = (*self._options.programs.control_plane, "--port", str(self.port), "--migrate")
        argv += self._options.public.arguments
        if self._options.keyless:
            argv += ("--keyless",)
        return Service(
            name="control-plane",
            command=Command(argv, environment),
            is_ready=self._answers_ready,
            start_s=CONTROL_PLANE_START_S,
            grace_s=CONTROL_PLANE_GRACE_S,
        )

    def _answers_ready(self) -> bool:
        try:
            # trust_env: a proxy of the user must not stand between us and our own loopback
            answer = httpx.get(f"{self.url}/readyz", timeout=READY_TIMEOUT_S, trust_env=False)
        except httpx.TransportError:
            return False
        return answer.status_code == httpx.codes.OK

    def _worker(self, number: int, environment: Mapping[str, str]) -> Service:
        name = f"worker-{number}"
        argv = (*self._options.programs.worker, "--mode", "hybrid", "--data", str(self._data / name))
        argv += tuple(f"--label={each}" for each in self._options.labels)
        share = (
            {"PODFLEET_GPU_SHARE": f"{number}/{self._options.workers}"} if self._options.workers > 1 else {}
        )
        return Service(
            name=name,
            command=Command(argv, {**environment, **share, "PODFLEET_POD_ID": f"local-{number}"}),
            is_ready=_is_alive,
            start_s=WORKER_START_S,
            grace_s=WORKER_GRACE_S,
            steady_s=WORKER_STEADY_S,
            exit_left=EXIT_LEFT,
        )


def _how_to_enter(stack: Stack, options: Options) -> str:
    if options.keyless:
        return "no key is needed here (--keyless) until an admin key is made, or a proxy stands before it"
    link = stack.sign_in_link()
    if link is None:
        return f"`{_program()} signin` prints a link that signs a browser in"
    return f"sign in    {link}\n           once, within ten minutes; `{_program()} signin` prints another"


def _program() -> str:
    """Return how the command line is called from here."""
    if shutil.which("podfleet"):
        return "podfleet"
    return os.path.relpath(Path(sys.executable).parent / "podfleet")


def _is_alive() -> bool:
    """A worker has no address to ask: having lived for `steady_s` is what there is to know."""
    return True


def _for_python(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a program of ours, which writes its log at once and reaches loopback."""
    direct = ",".join(
        part
        for part in (environment.get("NO_PROXY", environment.get("no_proxy")), "127.0.0.1,localhost")
        if part
    )
    return {**environment, "PYTHONUNBUFFERED": "1", "NO_PROXY": direct, "no_proxy": direct}


def up(options: Options, world: World) -> int:
    """Run the stack until a signal to stop; return the exit status of the command.

    The first Ctrl-C, SIGTERM or SIGHUP stops everything in order, the second one at once.
    """
    stack = Stack(options, world)
    idle = threading.Event()
    with interrupts() as interrupted:
        try:
            stack.begin()
            for warning in options.public.warnings():
                world.say(warning)
            while not interrupted.count and not stack.is_settled(LOOK_S):
                pass
            if not interrupted.count:
                stack.check()
                world.say(f"ready {stack.url} (data in {options.data}; Ctrl-C stops everything)")
                if options.public.origin is not None:
                    world.say(f"public {options.public.origin} (for pods and browsers elsewhere)")
                world.say(_how_to_enter(stack, options))
            while not interrupted.count and stack.is_running():
                world.clock.wait(idle, LOOK_S)
            stack.check()
        except PodfleetError as error:
            world.say(error.message)
            return EXIT_WRONG_USE if isinstance(error, ConfigError) else EXIT_FAILED
        finally:
            stack.ask_to_stop()
            while stack.is_running():
                if interrupted.count > 1:
                    stack.hurry()
                world.clock.wait(idle, LOOK_S)
            stack.stop()
        world.say("stopped")
        return EXIT_STOPPED
