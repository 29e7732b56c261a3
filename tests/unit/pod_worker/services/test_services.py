"""Services are reset by name, once, within a time, and by no word of the control plane."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest

from events.answers.pods import ResetOrder
from events.runtime.clock import SystemClock
from events.runtime.loops import start_thread
from events.text.mask import Mask
from pod_worker.services import command
from pod_worker.services.allowed import BUILT_IN, SERVICES_MAX, WORDS_MAX, services_of
from pod_worker.services.orders import ORDERS_MAX, Outcome, reset_orders
from pod_worker.services.resetter import (
    KNOWN_MAX,
    LINES_MAX,
    MESSAGE_CHARS_MAX,
    TOLD_MAX,
    WAITING_MAX,
    Journal,
    Resetter,
)
from stages.engines.cache import emptied

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECRET = "a-secret-of-this-pod"


def order(number: int, service: str, *, force: bool = False) -> ResetOrder:
    return ResetOrder(id=f"{number:026d}", service=service, force=force)


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def at_once(name: str, work: Callable[[], object]) -> None:
    work()


def resetter(folder: Path, services: Mapping[str, Sequence[str]], **more: Any) -> Resetter:
    return Resetter(
        services=services, journal=Journal(folder / "resets.json"), environ={"PATH": os.defpath},
        mask=Mask([SECRET]), clock=SystemClock(), now=lambda: NOW,
        **{"threads": at_once, "limit_s": 20.0, **more},
    )  # fmt: skip


def appending(file: Path, *, prints: str = "") -> tuple[str, ...]:
    return python(f"open({str(file)!r}, 'a').write('x'); print({prints!r})")


def test_a_setting_names_services_with_their_commands_and_every_mistake_is_told() -> None:
    found, problems = services_of(
        "ollama=systemctl restart 'my ollama'; engine-cache\n# a remark\n\n comfy = /x "
    )
    assert problems == []
    assert found == {
        "ollama": ("systemctl", "restart", "my ollama"), "engine-cache": BUILT_IN["engine-cache"],
        "comfy": ("/x",),
    }  # fmt: skip
    words = " ".join(["x"] * (WORDS_MAX + 1))
    found, problems = services_of(f"a='b; Ollama=x; ../x=y; unknown; long={words}; twice=x; twice=y")
    assert found == {"twice": ("x",)}
    assert len(problems) == 6
    assert all(each.startswith("PODFLEET_SERVICES") for each in problems)
    _, problems = services_of(";".join(f"s{number}=x" for number in range(SERVICES_MAX + 1)))
    assert len(problems) == 1


def test_what_is_no_order_is_left_out_and_nothing_but_id_name_and_force_is_taken() -> None:
    good = {"id": f"{1:026d}", "service": "ollama", "force": True, "argv": ["rm", "-rf", "/"]}
    lies: list[object] = [
        None, "x", 3, {}, {**good, "id": "1"}, {**good, "id": 7}, {**good, "service": "x" * 10**6},
        {**good, "service": "a b"}, {**good, "service": ["ollama"]}, [good],
    ]  # fmt: skip
    for lie in lies:
        assert reset_orders([lie]) == ()
    assert reset_orders([good]) == (order(1, "ollama", force=True),)
    assert reset_orders([{**good, "force": 1}]) == (order(1, "ollama"),)
    assert len(reset_orders([good] * 10**5)) == ORDERS_MAX
    for lie in (None, 3, "orders", {"id": 3}, b"x"):
        assert reset_orders(lie) == ()


def test_an_order_is_carried_out_once_over_answers_that_come_twice_and_restarts(tmp_path: Path) -> None:
    file = tmp_path / "done"
    services = {"a": appending(file, prints=f"key {SECRET}\nit\0 runs"), "b": appending(file)}
    told: list[bool] = []
    resets = resetter(tmp_path, services, tell=lambda: told.append(True))
    resets.hear([order(1, "a"), order(2, "b"), order(1, "a")])
    resets.hear([order(1, "a"), order(1, "b")])  # the same id with another name
    assert file.read_text() == "xx"
    assert len(told) == 2
    assert resets.outcomes() == (
        Outcome(order(1, "a").id, True, None, "key ***\nit\ufffd runs", NOW),
        Outcome(order(2, "b").id, True, None, "", NOW),
    )
    again = resetter(tmp_path, services)
    again.hear([order(1, "a"), order(2, "b")])
    assert file.read_text() == "xx"
    assert again.outcomes() == resets.outcomes()


def test_an_order_that_a_workers_end_cut_off_is_never_begun_again(tmp_path: Path) -> None:
    file = tmp_path / "done"
    resets = resetter(
        tmp_path, {"a": appending(file)}, threads=lambda name, work: None
    )  # it never comes to it
    resets.hear([order(1, "a")])
    again = resetter(tmp_path, {"a": appending(file)})
    again.hear([order(1, "a")])
    assert not file.exists()
    assert [(each.ok, each.code) for each in again.outcomes()] == [(False, "CUT_OFF")]
    for damage in (b"", b"{", b"\xff", b"[" * 100_000, b'[{"id": 3}]'):
        (tmp_path / "resets.json").write_bytes(damage)
        again = resetter(tmp_path, {"a": appending(file)})
        again.hear([order(1, "a")])
        assert not file.exists(), "it may have been done"
        (told,) = again.outcomes()
        assert told.code == "DISK_FAILED"
        assert "resets.json" in told.message
        assert (tmp_path / "resets.json").read_bytes() == damage


def test_a_name_that_the_operator_did_not_give_is_refused_and_orders_are_bounded(tmp_path: Path) -> None:
    resets = resetter(tmp_path, {"a": appending(tmp_path / "done")}, threads=lambda name, work: None)
    resets.hear([order(1, "b"), order(2, sys.executable)])
    assert [each.code for each in resets.outcomes()] == ["UNKNOWN_SERVICE"] * 2
    for number in range(3, 3 + 2 * KNOWN_MAX):
        resets.hear([order(number, "a")])
    assert len(resets._waiting) == WAITING_MAX
    assert len(resets.outcomes()) == TOLD_MAX
    assert {each.code for each in resets.outcomes()} == {"TOO_MANY"}
    assert len(json.loads((tmp_path / "resets.json").read_bytes())) == KNOWN_MAX
    assert not (tmp_path / "done").exists()


def test_a_pod_with_a_run_resets_nothing_but_by_force_and_claims_nothing_meanwhile(tmp_path: Path) -> None:
    file, claiming = tmp_path / "done", threading.Lock()
    held: list[bool] = []

    def is_busy() -> bool:
        held.append(claiming.locked())
        return False

    resets = resetter(tmp_path, {"a": appending(file)}, is_busy=lambda: True, claiming=claiming)
    resets.hear([order(1, "a")])
    assert not file.exists()
    resets.hear([order(2, "a", force=True)])
    assert [each.code for each in resets.outcomes()] == ["BUSY", None]
    assert not claiming.locked()
    free = resetter(tmp_path, {"a": appending(file)}, is_busy=is_busy, claiming=claiming)
    free.hear([order(3, "a")])
    assert held == [True]
    assert file.read_text() == "xx"


def test_what_a_disk_does_not_keep_is_not_begun(tmp_path: Path) -> None:
    resets = resetter(tmp_path / "gone", {"a": appending(tmp_path / "done")})
    resets.hear([order(1, "a")])
    resets.hear([order(1, "a")])
    assert [each.code for each in resets.outcomes()] == ["DISK_FAILED"]
    assert not (tmp_path / "done").exists()


def living(group: int) -> list[int]:
    """Return the processes of a group that are no zombies."""
    found = []
    for each in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, ProcessLookupError):
            if os.getpgid(each.pid) == group and each.status() != psutil.STATUS_ZOMBIE:
                found.append(each.pid)
    return found


FORKS = """
import os, sys
if os.fork() == 0:
    import time
    time.sleep(30)
print("started", os.getpid(), flush=True)
os._exit(0)
"""


def test_a_command_that_hangs_is_killed_with_its_group_and_one_that_forks_has_ended(tmp_path: Path) -> None:
    clock, file = SystemClock(), tmp_path / "pid"
    code = (
        f"import os, time\nif os.fork():\n open({str(file)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)"
    )
    begun_s = clock.monotonic_s()
    ended = command.run(python(code), {}, clock, limit_s=1.5)
    assert ended == command.Ended(None, "")
    assert living(int(file.read_text())) == []
    ended = command.run(python(FORKS), {}, clock, limit_s=30.0)
    assert ended.status == 0
    group = int(ended.printed.split()[1])
    assert clock.monotonic_s() - begun_s < 25, "nobody waits for what a command leaves behind"
    assert living(group), "as a service that it started, that lives on"
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def test_of_what_a_command_prints_the_end_is_kept_and_its_status_is_told(tmp_path: Path) -> None:
    floods = python(
        "import sys\nfor _ in range(100):\n sys.stdout.write('y' * 10**6)\nprint('\\nlast\\x1b[31m')"
    )
    lines = python("print('\\n'.join(str(each) for each in range(99)));raise SystemExit(3)")
    services = {"floods": floods, "fails": lines, "none": ("/no/such/program",), "hangs": python("input()")}
    resets = resetter(tmp_path, services, limit_s=60.0)
    resets.hear([order(1, "floods"), order(2, "fails"), order(3, "none"), order(4, "hangs")])
    flooded, failed, missing, asked = resets.outcomes()
    assert flooded.ok
    assert flooded.message.endswith("last\ufffd[31m")
    assert len(flooded.message) <= MESSAGE_CHARS_MAX
    assert (failed.code, failed.message.splitlines()[-1]) == ("RESET_FAILED", "98")
    assert len(failed.message.splitlines()) == LINES_MAX
    assert failed.message.startswith("it ended with status 3; 89")
    assert (missing.code, missing.ok) == ("NOT_STARTED", False)
    assert "EOFError" in asked.message, "nobody types anything"


def test_orders_are_carried_out_beside_the_reports(tmp_path: Path) -> None:
    done = threading.Event()
    resets = resetter(tmp_path, {"a": python("pass")}, threads=start_thread, tell=done.set)
    resets.hear([order(1, "a")])
    assert done.wait(30)
    assert [each.ok for each in resets.outcomes()] == [True]


def test_the_cache_of_engines_loses_what_was_fetched_and_nothing_that_somebody_put_there(
    tmp_path: Path,
) -> None:
    weights, blobs = tmp_path / "weights", tmp_path / "hub/models--org--name/blobs"
    weights.mkdir()
    blobs.mkdir(parents=True)
    for file in (weights / "smollm2.gguf", weights / "mine.gguf", blobs / "ab.incomplete", blobs / "cd"):
        file.write_bytes(bytes(10))
    removed = emptied({"HF_HUB_CACHE": str(tmp_path / "hub")}, weights)
    assert sorted(each.path.name for each in removed) == ["ab.incomplete", "smollm2.gguf"]
    assert {each.name for each in (*weights.iterdir(), *blobs.iterdir())} == {"mine.gguf", "cd"}


def test_what_runs_left_in_the_cache_neither_stops_its_emptying_nor_leads_it_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub, elsewhere = tmp_path / "hub", tmp_path / "elsewhere"
    for folder in (hub / "models--a/blobs/y.incomplete", hub / "models--c/blobs", elsewhere / "blobs"):
        folder.mkdir(parents=True)
    (hub / "models--b").symlink_to(elsewhere)
    (hub / "models--d").mkdir()
    (hub / "models--d/blobs").symlink_to(elsewhere / "blobs")
    (hub / "models--e\n/blobs").mkdir(parents=True)
    for file in (elsewhere / "blobs/x.incomplete", *(hub / f"models--c/blobs/{n}.incomplete" for n in "pq")):
        file.write_bytes(bytes(10))
    (hub / "models--c/blobs/link.incomplete").symlink_to(elsewhere / "blobs/x.incomplete")
    unlink = os.unlink

    def refused(name: str, **more: Any) -> None:
        if name == "p.incomplete":
            raise PermissionError(errno.EPERM, "not permitted", name)
        unlink(name, **more)

    monkeypatch.setattr(os, "unlink", refused)
    with pytest.raises(PermissionError):
        emptied({"HF_HUB_CACHE": str(hub)}, tmp_path / "none")
    monkeypatch.undo()
    left = {each.name for each in (hub / "models--c/blobs").iterdir()}
    assert left == {"p.incomplete", "link.incomplete"}, "the others are removed all the same"
    (removed,) = emptied({"HF_HUB_CACHE": str(hub)}, tmp_path / "none")
    assert (removed.name, removed.size) == ("p.incomplete", 10)
    assert (elsewhere / "blobs/x.incomplete").exists()
