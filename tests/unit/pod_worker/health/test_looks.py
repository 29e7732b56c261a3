"""Looks at a machine, at a provider and at a storage, which may lie, hang or be gone."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from pydantic import TypeAdapter

from control_plane.server.api.contract.bodies import CheckName
from events.delivery.control_plane_client import ControlPlane
from events.lifecycle import Fault
from events.models.providers import ANTHROPIC, OPENAI, Provider
from events.queue.faults import FAULTS
from events.runtime.clock import SystemClock
from events.runtime.errors import Transient
from pod_worker.child.process import ChildOptions
from pod_worker.health import bounded_head
from pod_worker.health.check import Finding
from pod_worker.health.checks import Subjects, checks_of
from pod_worker.health.machine import DiskLook, judge_clock, look_for_tools
from pod_worker.health.model_look import ModelLook
from pod_worker.health.storage_look import StorageLook
from pod_worker.health.trial import Trial

KEY = "sk-a-key-of-the-test"
Serve = Callable[[bytes], str]


@pytest.fixture
def serve() -> Iterator[tuple[list[bytes], Callable[..., str]]]:
    """Answer each connection with given bytes, and keep what was asked; `drips` never ends."""
    asked: list[bytes] = []
    over = threading.Event()

    def answered(listener: socket.socket, answer: bytes, drips: bytes) -> None:
        with contextlib.suppress(OSError):  # the listener was closed: the test is over
            while True:
                connection, _ = listener.accept()
                with connection, contextlib.suppress(OSError):  # who asked reads no further
                    asked.append(connection.recv(65_536))
                    connection.sendall(answer)
                    while drips and not over.wait(0.01):
                        connection.sendall(drips)

    with contextlib.ExitStack() as stack:

        def start(answer: bytes, drips: bytes = b"") -> str:
            listener = socket.create_server(("127.0.0.1", 0))
            stack.callback(listener.close)
            stack.callback(listener.shutdown, socket.SHUT_RDWR)
            threading.Thread(target=answered, args=(listener, answer, drips), daemon=True).start()
            return f"http://127.0.0.1:{listener.getsockname()[1]}"

        yield asked, start
        over.set()


def answer(status: int, body: bytes = b"{}", kind: str = "application/json") -> bytes:
    return (
        f"HTTP/1.1 {status} x\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
    )


def look_at(url: str, provider: Provider = OPENAI) -> Finding:
    return ModelLook(provider, {f"{provider.prefix}_BASE_URL": url, f"{provider.prefix}_API_KEY": KEY})()


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (200, None), (401, "MODEL_UNAUTHORISED"), (403, "MODEL_UNAUTHORISED"), (404, None), (405, None),
        (429, None), (500, "MODEL_UNREACHABLE"), (501, None), (503, "MODEL_UNREACHABLE"),
    ],
)  # fmt: skip
def test_the_answer_of_a_listing_tells_of_key_and_provider(serve: Any, status: int, code: str | None) -> None:
    asked, start = serve
    found = look_at(f"{start(answer(status))}/v1")
    assert (found.ok, found.code) == (code is None, code)
    assert asked[0].startswith(b"GET /v1/models HTTP/1.1\r\n")
    assert f"authorization: bearer {KEY}".encode() in asked[0].lower()
    assert KEY not in found.message


def test_the_listing_of_anthropic_has_its_own_place_and_headers(serve: Any) -> None:
    asked, start = serve
    assert look_at(start(answer(200)), ANTHROPIC).ok
    assert asked[0].startswith(b"GET /v1/models HTTP/1.1\r\n")
    assert b"x-api-key: " + KEY.encode() in asked[0].lower()
    refused = look_at(start(answer(401)), ANTHROPIC)
    assert "check ANTHROPIC_API_KEY" in refused.message


def test_a_provider_that_is_gone_or_shows_a_page_is_away(serve: Any) -> None:
    _, start = serve
    assert look_at("http://127.0.0.1:1").code == "MODEL_UNREACHABLE"
    assert look_at(start(b"what?\r\n\r\n")).code == "MODEL_UNREACHABLE"
    assert look_at(start(answer(200, b"<html>", "text/html; charset=utf-8"))).code == "MODEL_UNREACHABLE"
    assert look_at(start(answer(302))).ok, "where it leads to nobody goes"


def test_an_answer_without_end_is_not_read_and_a_head_without_end_is_given_up(
    serve: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, start = serve
    assert look_at(start(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65_536)).ok
    monkeypatch.setattr(bounded_head, "ASK_S", 0.3)
    for drips in (b"x", b"x-more: y\r\n"):
        assert look_at(start(b"HTTP/1.1 200 OK\r\n", drips)).code == "MODEL_UNREACHABLE"


def storage_look(
    signs: Callable[[httpx.Request], httpx.Response],
) -> Finding:
    client = httpx.Client(base_url="http://control", transport=httpx.MockTransport(signs))
    with client:
        return StorageLook(ControlPlane(client, SystemClock()), None, "pod")()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("told", "code"),
    [
        (answer(200), None),
        (answer(204), None),
        (answer(403), "STORAGE_REFUSED"),
        (answer(401), "STORAGE_REFUSED"),
        (answer(507), "STORAGE_UNREACHABLE"),
        (answer(200, b"<html>", "text/html; charset=utf-8"), "STORAGE_UNREACHABLE"),
    ],
)
def test_the_answer_to_an_upload_tells_of_the_storage(serve: Any, told: bytes, code: str | None) -> None:
    asked, start = serve
    url = start(told)
    found = storage_look(
        lambda _: httpx.Response(200, json={"url": f"{url}/b/.podfleet/uploads/1?s=2", "headers": {}})
    )
    assert (found.ok, found.code) == (code is None, code)
    assert asked[0].startswith(b"PUT /b/.podfleet/uploads/1?s=2 HTTP/1.1\r\n")
    assert b"content-length: 8\r\n" in asked[0].lower()


def test_where_nothing_is_signed_nothing_is_told() -> None:
    for status in (401, 403, 404, 405):
        assert storage_look(lambda _, status=status: httpx.Response(status)).ok, "not for this pod"  # type: ignore[misc]
    for odd in (
        httpx.Response(503),
        httpx.Response(200, text="<html>"),
        httpx.Response(200, json={"url": 1}),
    ):
        assert storage_look(lambda _, odd=odd: odd).ok is None  # type: ignore[misc]


def test_a_storage_that_is_gone_fails() -> None:
    gone = {"url": "http://127.0.0.1:1/b/.podfleet/uploads/1", "headers": {}}
    assert storage_look(lambda _: httpx.Response(200, json=gone)).code == "STORAGE_UNREACHABLE"


def test_a_full_disk_an_unwritable_one_and_a_full_outbox_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full() -> None:
        raise Transient("OUTBOX_FULL", "the outbox holds its limit")

    look = DiskLook(tmp_path, lambda: None)
    assert look().ok
    assert not list(tmp_path.iterdir()), "nothing stays"
    assert DiskLook(tmp_path, full)().code == "OUTBOX_FULL"
    assert DiskLook(tmp_path / "none", full)().code == "DISK_FAILED"
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=10, f_frsize=4096))
    assert look().code == "DISK_FULL"

    def refuses(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", refuses)
    assert look().code == "DISK_FULL"
    assert not list(tmp_path.iterdir()), "nothing stays"


@pytest.mark.parametrize(
    ("offset_s", "ok", "says"),
    [
        (None, True, "not measured"), (0.25, True, "within 2 s of"), (-59.0, True, "59 s behind"),
        (61.0, False, "61 s ahead of"), (-3600.0, False, "3,600 s behind"),
    ],
)  # fmt: skip
def test_a_clock_that_is_more_than_a_minute_off_fails(offset_s: float | None, ok: bool, says: str) -> None:
    found = judge_clock(offset_s)
    assert (found.ok, found.code) == (ok, None if ok else "CLOCK_OFF")
    assert says in found.message


def test_what_settings_name_and_is_not_there_fails(tmp_path: Path) -> None:
    (tmp_path / "prices").touch()
    named = {"PODFLEET_PRICES": str(tmp_path / "prices"), "PODFLEET_DATASETS": str(tmp_path)}
    assert look_for_tools({}).ok
    assert look_for_tools(named).ok
    missing = look_for_tools({**named, "PODFLEET_DATASETS": f"{tmp_path}{os.pathsep}{tmp_path / 'gone'}"})
    assert (missing.code, str(tmp_path / "gone") in missing.message) == ("NOT_AVAILABLE", True)
    (tmp_path / "prices").unlink()
    assert look_for_tools(named).code == "NOT_AVAILABLE"


def subjects(tmp_path: Path, *, has_gpu: bool = False, **environ: str) -> Subjects:
    client = httpx.Client()
    client.close()
    storage = StorageLook(ControlPlane(client, SystemClock()), None, "pod")  # type: ignore[arg-type]
    options = ChildOptions(environ=environ)
    return Subjects(
        data=tmp_path, check_room=lambda: None, environ=environ, options=options, storage=storage,
        has_gpu=has_gpu,
    )  # fmt: skip


def test_a_pod_checks_what_its_settings_and_devices_are(tmp_path: Path) -> None:
    plain = [each.name for each in checks_of(subjects(tmp_path))]
    assert plain == ["clock", "disk", "memory", "storage", "tools", "sandbox", "gpu"]
    by_codes = {each.check for each in FAULTS.values() if each.fault is Fault.POD} - {None, "model"}
    assert by_codes <= set(plain), "whatever is a pod's fault holds its claims back, on each pod"
    of_slot = checks_of(replace(subjects(tmp_path), card_faults=tuple))
    assert [(each.name, each.kinds) for each in of_slot][len(plain) :] == [("cards", None)]
    keyed = checks_of(subjects(tmp_path, has_gpu=True, OPENAI_BASE_URL="http://a:b@Models.internal:8000/v1"))
    assert [each.name for each in keyed][len(plain) :] == ["model:models.internal:8000"]
    for each in (*of_slot, *keyed):
        assert TypeAdapter(CheckName).validate_python(each.name) == each.name, "a report with it is taken"
    needed = {each.subject: each.kinds for each in keyed}
    assert needed["disk"] is needed["storage"] is None
    assert needed["model"] == {"experiment", "ideation"}
    assert needed["gpu"] == {"experiment", "image", "prompt", "trial"}


def trial(script: str, what: Any = "gpu") -> Finding:
    return Trial(what, ChildOptions(environ=dict(os.environ)), (sys.executable, "-c", script))()  # noqa: TID251


def test_a_trial_is_judged_by_its_last_line_and_whatever_kills_it_fails() -> None:
    assert trial('print(\'noise\'); print(\'{"ok": true, "message": "1 device computes"}\')').ok
    told = trial('print(\'{"ok": false, "message": "no kernel image", "code": "CUDA_UNSUPPORTED_ARCH"}\')')
    assert (told.ok, told.code) == (False, "CUDA_UNSUPPORTED_ARCH")
    killed = trial("import os; os.kill(os.getpid(), 11)")
    assert (killed.ok, killed.code) == (False, "GPU_BROKEN")
    assert "-11" in killed.message
    assert trial("print('[' * 100)", "sandbox").code == "NO_ISOLATION"


def test_the_sandbox_of_this_machine_passes_its_trial() -> None:
    environ = {**os.environ, "PODFLEET_ISOLATION": "best"}  # noqa: TID251
    found = Trial("sandbox", ChildOptions(environ=environ))()
    assert (found.ok, "programs run in" in found.message) == (True, True)
