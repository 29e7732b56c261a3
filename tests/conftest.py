"""What every test can rely on: property tests that repeat, and no environment of the developer."""

from __future__ import annotations

import gc
import importlib
import inspect
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import certifi
import httpx
import hypothesis
import pytest

from tests.budget import Budget
from tests.fork_server import common_server, join, start_program
from tests.servers import (
    database,
    database_url,
    emptied_url,
    memory_folder,
    memory_path,
    migrated_url,
    mongo_url,
    mongod,
    mongod_pid,
    no_socket_is_left,
    s3,
)

FROM_SERVERS = (
    *(database, database_url, emptied_url, memory_folder, memory_path, migrated_url, mongo_url),
    *(mongod, mongod_pid, no_socket_is_left, s3),
)

hypothesis.settings.register_profile("podfleet", deadline=None, derandomize=True, max_examples=100)
hypothesis.settings.register_profile("long", deadline=None, max_examples=2_000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "podfleet"))

OURS = ("PODFLEET_", "MINIO_", "MONGODB_", "CONTROL_PLANE_", "WORKER_", "RUNPOD_", "OPENAI_", "ANTHROPIC_")
ID_CHARS = 60
PATIENCE_S = 60.0  # for an answer that a test waits for
TESTS = Path(__file__).parent

END_OF_CERTIFICATE = "-----END CERTIFICATE-----\n"
FORK_SERVER = pytest.StashKey[str]()
GARBAGE_OBJECTS = 20_000  # of 700, looking for cycles takes a twentieth of the processor

# Folders whose tests start no program of the product.
WITHOUT_PROGRAMS = {"unit", "tidy", "simulation", "statistics"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the gate hold its tests to their budget."""
    parser.addoption(
        "--budget", action="store_true", help="fail where a test takes long and does not say why"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Keep the budget where results are reported to people; share there what each worker would import."""
    if is_worker(config):
        gc.disable()  # what is imported until the last test is collected stays: there is no garbage to find
        join(config.workerinput["fork_server"])  # type: ignore[attr-defined]
        return
    config.pluginmanager.register(Budget(is_held=config.getoption("budget")))
    if config.getoption("numprocesses", None):
        stack = ExitStack()
        config.stash[FORK_SERVER] = stack.enter_context(common_server())
        config.add_cleanup(stack.close)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker where the common fork server is."""
    node.workerinput["fork_server"] = node.config.stash[FORK_SERVER]


def is_worker(config: pytest.Config) -> bool:
    """Say whether this is one of the processes of pytest-xdist that run tests."""
    return hasattr(config, "workerinput")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Let each worker compile tests of its own first, where all would compile the same ones side by side.

    What a worker has imported is collected as it is, and what another one has compiled is only read: asserts
    are rewritten once, which takes seven seconds of a processor where nothing is cached.
    """
    config = session.config
    if is_worker(config) and [Path(each).resolve() for each in config.args] == [TESTS]:
        number, count = int(config.workerinput["workerid"][2:]), config.workerinput["workercount"]
        for path in sorted(TESTS.rglob("test_*.py"))[number::count]:
            if not (path.parent / "__init__.py").exists():  # in a package it has another name
                importlib.import_module(".".join(path.relative_to(TESTS.parent).with_suffix("").parts))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Keep the tests of a file on one worker, so that its servers, browsers and fleets are started once.

    Groups with a slow test come first, then those of several files, then those with programs, in an order
    that is random otherwise: what takes long is not to begin where all other workers are done.
    """
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(str(item.path.relative_to(TESTS).with_suffix(""))))
        for name in ("slow", "long"):
            if any(not mark.args for mark in item.iter_markers(name)):
                raise pytest.UsageError(f"{item.nodeid}: the mark {name} needs its reason")
    yield
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        groups.setdefault(group_of(item), []).append(item)

    def rank(group: list[pytest.Item]) -> tuple[bool, bool, bool]:
        marks = {mark.name for item in group for mark in item.iter_markers()}
        is_alone = len({item.path for item in group}) == 1
        return marks.isdisjoint({"slow", "long"}), is_alone, folder_of(group[0]) in WITHOUT_PROGRAMS

    items[:] = [item for group in sorted(groups.values(), key=rank) for item in group]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Start the fork server before the first test, which is not to pay for its imports."""
    gc.enable()
    gc.collect()
    gc.freeze()  # half a million objects of imported modules, which no test's garbage is among
    gc.set_threshold(GARBAGE_OBJECTS)
    if any(folder_of(item) not in WITHOUT_PROGRAMS for item in session.items):
        start_program(["-c", ""], env={}, cwd=Path.cwd()).wait()


def group_of(item: pytest.Item) -> str:
    """Return the group of tests that a test shares its worker with."""
    mark = item.get_closest_marker("xdist_group")
    assert mark is not None
    return str(mark.args[0])


def folder_of(item: pytest.Item) -> str:
    """Return the suite of a test: the folder of tests/ in which it lies."""
    return item.path.relative_to(TESTS).parts[0]


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Name long values by their length: an id is read by people, and the same in every process."""
    return f"{argname}{len(val)}" if isinstance(val, bytes | str) and len(val) > ID_CHARS else None


@pytest.fixture(scope="session", autouse=True)
def no_settings_from_outside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the settings of the machine, and of the shell that started the tests, out of them.

    No HTTP client gives up after the five seconds of httpx: a loaded machine may take longer to answer. Each
    reads the certificates of all authorities, for 20 ms; here, where each server is on loopback and speaks
    plain HTTP, one authority is enough.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as in a shell's background job
        signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(OURS):
                patch.delenv(name)
        authority = Path(certifi.where()).read_text("utf-8").partition(END_OF_CERTIFICATE)
        trusted = tmp_path_factory.mktemp("trusted") / "one.pem"
        trusted.write_text("".join(authority[:2]), "utf-8")
        patch.setenv("SSL_CERT_FILE", str(trusted))
        usual = inspect.signature(httpx.get).parameters["timeout"].default  # one object for all of httpx
        for name in ("connect", "read", "write", "pool"):
            patch.setattr(usual, name, PATIENCE_S)
        yield


@pytest.fixture(scope="session")
def until() -> Callable[..., None]:
    """Wait for a condition, never for a duration: `until(lambda: run.is_over, seconds=10)`.

    What takes long is looked at more seldom, since looking costs what is waited for its time;
    `every_s` is for what lasts only a moment.
    """

    def wait(condition: Callable[[], object], seconds: float = 60.0, *, every_s: float | None = None) -> None:
        begun_s = time.monotonic()
        pause = threading.Event()
        while not condition():
            waited_s = time.monotonic() - begun_s
            if waited_s > seconds:
                pytest.fail(f"still not so after {seconds} s")
            pause.wait(every_s or min(max(waited_s / 50, 0.02), 0.2))

    return wait


@pytest.fixture(scope="session")
def chromium() -> str:
    """The program of the system's browser, for tests of the web pages."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found:
            return found
    pytest.fail("no Chromium on the PATH: scripts/setup.sh browser installs one")
