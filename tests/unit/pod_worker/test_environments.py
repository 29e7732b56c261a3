"""What a pod keeps of environments: whole, read-only, made once, and nothing that leads out of them."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from events.delivery.pipe import Environment, EnvironmentMade, EnvironmentWanted
from events.runtime.clock import SystemClock
from events.runtime.errors import Rejected, Transient
from events.runtime.loops import start_thread
from events.testing import ManualClock
from pod_worker.attempt.environment_use import EnvironmentUse, PodEnvironments
from pod_worker.files import environments
from pod_worker.files.environments import EnvironmentCache
from pod_worker.files.index_settings import IndexSettings, pip_files

ONE, TWO, THREE = ("1" * 64, "2" * 64, "3" * 64)


def never() -> None:
    raise Transient("busy", "another one holds it")


def made(folder: Path, size: int = 100) -> Path:
    """Return an environment as uv leaves it, in small."""
    (folder / "bin").mkdir(parents=True)
    (folder / "lib" / "site").mkdir(parents=True)
    (folder / "bin" / "python").symlink_to(os.path.realpath(sys.executable))
    (folder / "bin" / "python3").symlink_to("python")
    (folder / "lib64").symlink_to("lib")
    (folder / "bin" / "tool").write_bytes(b"#!/bin/sh\n")
    (folder / "bin" / "tool").chmod(0o4755)
    (folder / "lib" / "site" / "one.py").write_bytes(bytes(size - 10))
    os.utime(folder / "lib" / "site" / "one.py", (5, 5))
    return folder


def test_what_a_run_made_is_copied_read_only_and_found_by_the_next(tmp_path: Path) -> None:
    cache = EnvironmentCache(tmp_path / "kept", ManualClock())
    held = cache.hold(ONE, never)
    assert held.path is None
    with pytest.raises(Transient, match="another one holds it"):  # it is the first one's to make
        cache.hold(ONE, never)
    work = made(tmp_path / "work")
    path = held.keep(work, lambda: None)
    (work / "lib" / "site" / "one.py").write_bytes(b"evil")  # by a process of the run that lives on

    other = cache.hold(ONE, never)
    assert other.path == path
    one = path / "lib" / "site" / "one.py"
    assert one.read_bytes() == bytes(90)
    assert (one.stat().st_mtime, one.stat().st_mode & 0o7777) == (5, 0o444)
    assert (path / "bin" / "tool").stat().st_mode & 0o7777 == 0o555
    assert os.readlink(path / "bin" / "python3") == "python"
    assert path.stat().st_mode & 0o222 == (path / "lib").stat().st_mode & 0o222 == 0
    assert [each.name for each in (tmp_path / "kept").iterdir()] == [ONE], "no lock that a run could take"
    held.close()
    other.close()
    with pytest.raises(Rejected, match="no key"):
        cache.hold("../x", never)


def _foreign(folder: Path) -> None:
    (folder / "lib" / "x").symlink_to("../../secret")


def _absolute(folder: Path) -> None:
    (folder / "lib" / "x").symlink_to("/etc/passwd")


def _pipe(folder: Path) -> None:
    os.mkfifo(folder / "lib" / "x")


def _socket(folder: Path) -> None:
    here = os.getcwd()
    os.chdir(folder)
    try:
        with socket.socket(socket.AF_UNIX) as each:
            each.bind("s")
    finally:
        os.chdir(here)


def _deep(folder: Path) -> None:
    for _ in range(environments.DEPTH_MAX + 2):
        folder = folder / "d"
        folder.mkdir()


def _large(folder: Path) -> None:
    with (folder / "large").open("wb") as file:
        file.truncate(10 << 30)  # it takes no room until it is copied


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (_foreign, "leads out"),
        (_absolute, "leads out"),
        (_pipe, "no plain file"),
        (_socket, "no plain file"),
        (_deep, "below 60 others"),
        (_large, "more bytes"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_what_leads_out_or_has_no_end_is_not_kept(
    tmp_path: Path, harm: Callable[[Path], None], why: str
) -> None:
    cache = EnvironmentCache(tmp_path / "kept", ManualClock(), bytes_max=1 << 20)
    held = cache.hold(ONE, never)
    harm(made(tmp_path / "work"))
    with pytest.raises(Rejected, match=why):
        held.keep(tmp_path / "work", lambda: None)
    held.close()
    assert [each for each in (tmp_path / "kept").iterdir() if each.is_dir()] == []
    again = cache.hold(ONE, never)
    assert again.path is None
    again.close()


def test_the_longest_unused_goes_and_none_in_use(tmp_path: Path) -> None:
    cache = EnvironmentCache(tmp_path / "kept", ManualClock(), bytes_max=250)
    first = cache.hold(ONE, never)
    first.keep(made(tmp_path / "1"), lambda: None)
    second = cache.hold(TWO, never)
    second.keep(made(tmp_path / "2"), lambda: None)
    third = cache.hold(THREE, never)
    with pytest.raises(Transient, match="beside those in use"):
        third.keep(made(tmp_path / "3"), lambda: None)
    second.close()
    third.keep(tmp_path / "3", lambda: None)
    assert {each.name for each in (tmp_path / "kept").iterdir() if each.is_dir()} == {ONE, THREE}
    third.close()
    first.close()


def used(
    tmp_path: Path, name: str, answers: list[Environment], told: threading.Event, *, is_alone: bool = False
) -> EnvironmentUse:
    cache = EnvironmentCache(tmp_path / "kept", SystemClock())
    settings = IndexSettings({"UV_FIND_LINKS": "/wheels"}, ("--no-index",))

    def answer(found: Environment) -> None:
        answers.append(found)
        told.set()

    return EnvironmentUse(PodEnvironments(cache, settings), tmp_path / name, start_thread, answer, is_alone)


def test_of_two_runs_one_makes_it_and_the_other_waits(tmp_path: Path) -> None:
    answers: list[list[Environment]] = [[], []]
    told = [threading.Event(), threading.Event()]
    one, two = (used(tmp_path, f"run-{n}", answers[n], told[n]) for n in range(2))
    one.hear(EnvironmentWanted(ONE))
    assert told[0].wait(20)
    assert answers[0][0].path is None
    assert (answers[0][0].variables, answers[0][0].options) == ({"UV_FIND_LINKS": "/wheels"}, ["--no-index"])
    two.hear(EnvironmentWanted(ONE))
    told[0].clear()
    made(tmp_path / "elsewhere")
    made(tmp_path / "run-0" / "made")
    one.hear(EnvironmentMade(str(tmp_path / "run-0" / "made")))
    assert told[0].wait(20)
    assert told[1].wait(20)
    assert answers[0][1].path == answers[1][0].path is not None
    told[0].clear()
    one.hear(EnvironmentMade(str(tmp_path / "run-0" / "made")))  # a second one is none of ours
    assert told[0].wait(20)
    assert answers[0][2].problem
    one.close()
    two.close()


def test_a_run_cannot_have_a_folder_of_others_kept_and_leaves_at_once(tmp_path: Path) -> None:
    answers, told = list[Environment](), threading.Event()
    one = used(tmp_path, "run-0", answers, told)
    one.hear(EnvironmentWanted(ONE))
    assert told.wait(20)
    told.clear()
    (tmp_path / "run-0").mkdir()
    (tmp_path / "run-0" / "made").symlink_to(made(tmp_path / "elsewhere"))
    one.hear(EnvironmentMade(str(tmp_path / "run-0" / "made")))
    assert told.wait(20)
    assert answers[1].path is None
    assert "outside" in (answers[1].problem or "")
    waiting = used(tmp_path, "run-1", answers, told)
    waiting.hear(EnvironmentWanted(ONE))
    waiting.close()  # while it waits for the first
    one.close()
    held = EnvironmentCache(tmp_path / "kept", SystemClock()).hold(ONE, never)
    assert held.path is None
    held.close()


def test_nobody_waits_for_an_environment_that_is_not_kept(tmp_path: Path) -> None:
    answers, told = list[Environment](), threading.Event()
    one = used(tmp_path, "run-0", answers, told)
    one.hear(EnvironmentWanted(ONE))
    assert told.wait(20)
    told.clear()
    _absolute(made(tmp_path / "run-0" / "made"))
    one.hear(EnvironmentMade(str(tmp_path / "run-0" / "made")))
    assert told.wait(20)
    assert "leads out" in (answers[1].problem or "")
    cache = EnvironmentCache(tmp_path / "kept", SystemClock())
    cache.hold(ONE, never).close()  # while the program of the first goes on

    told.clear()
    alone = used(tmp_path, "run-1", answers, told, is_alone=True)
    alone.hear(EnvironmentWanted(ONE))
    assert told.wait(20)
    assert (answers[2].path, answers[2].problem, answers[2].options) == (None, None, ["--no-index"])
    cache.hold(ONE, never).close()
    told.clear()
    alone.hear(EnvironmentMade(str(made(tmp_path / "run-1" / "made"))))
    assert told.wait(20)
    assert "nothing to keep" in (answers[3].problem or "")
    for each in (one, alone):
        each.close()


def test_settings_of_uv_and_pip_are_passed_without_their_passwords(tmp_path: Path) -> None:
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / "pip.conf").write_text(
        f"[global]\nindex-url = https://me:secret@one.example/simple\nfind-links = {tmp_path} /not/there\n"
        "[install]\nno-index = true\n"
    )
    environ = {
        "XDG_CONFIG_DIRS": str(tmp_path),
        "PIP_EXTRA_INDEX_URL": "https://token@two.example/simple https://three.example",
        "UV_HTTP_TIMEOUT": "7",
        "https_proxy": "http://user:wo@rd@proxy:1",
        "HTTP_PROXY": "user:word@other:2",
        "UV_PUBLISH_TOKEN": "secret",
    }
    found = IndexSettings.of(environ, pip_files(environ)[:1])
    assert found.options == ("--no-index",)
    assert found.variables == {
        "UV_DEFAULT_INDEX": "https://one.example/simple",
        "UV_INDEX": "https://two.example/simple https://three.example",
        "UV_FIND_LINKS": str(tmp_path),
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_HTTP_TIMEOUT": "7",
        "HTTPS_PROXY": "http://proxy:1",
        "https_proxy": "http://proxy:1",
        "HTTP_PROXY": "other:2",
        "http_proxy": "other:2",
    }
    over = IndexSettings.of({**environ, "UV_DEFAULT_INDEX": "https://four.example"}, pip_files(environ)[:1])
    assert over.variables["UV_DEFAULT_INDEX"] == "https://four.example"
    assert pip_files({"PIP_CONFIG_FILE": os.devnull}) == ()
