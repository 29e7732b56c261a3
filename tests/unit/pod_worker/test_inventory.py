"""What a pod finds on itself: processor, disks, engines, models, CUDA. Whoever is asked may lie."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import pytest

from events.delivery.pipe import FoundModel
from events.testing import ManualClock
from pod_worker.child.health_trial import try_cuda
from pod_worker.child.process import ChildOptions
from pod_worker.machine import ollama
from pod_worker.machine.hardware import CPUINFO_BYTES_MAX, cpu_model, disks_of
from pod_worker.machine.inventory import BYTES_MAX, MODELS_MAX, InventoryLook, Model
from pod_worker.machine.names import NAME_CHARS_MAX
from pod_worker.machine.ollama import ANSWER_BYTES_MAX, ollama_models


@pytest.mark.parametrize(
    ("cpuinfo", "model"),
    [
        (
            "processor\t: 0\nmodel name\t: AMD EPYC 9654\nprocessor\t: 1\nmodel name\t: other\n",
            "AMD EPYC 9654",
        ),
        ("processor : 0\nCPU implementer : 0x41\nCPU part : 0xd4f\n", "ARM Neoverse-V2"),
        ("processor : 0\nCPU implementer : 0xc0\nCPU part : 0xac3\n", "Ampere part 0xac3"),
        ("processor : 0\nModel : Raspberry Pi 5 Model B\n", "Raspberry Pi 5 Model B"),
        ("CPU implementer : many\nCPU part :\n", None),
        ("model name : a\0b\udcff" + "x" * CPUINFO_BYTES_MAX, "a\ufffdb" + "x" * (NAME_CHARS_MAX - 3)),
    ],
)
def test_the_processor_is_named_as_the_kernel_names_it(
    tmp_path: Path, cpuinfo: str, model: str | None
) -> None:
    (tmp_path / "cpuinfo").write_bytes(cpuinfo.encode("utf-8", "surrogateescape"))
    found = cpu_model(tmp_path)
    assert found == model or (found is not None and model is not None and found.startswith(model[:3]))
    assert found is None or len(found) <= NAME_CHARS_MAX
    assert cpu_model(tmp_path / "none") is None


def test_folders_of_one_file_system_are_one_disk_and_its_kind_is_that_of_its_queue(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    device = tmp_path.stat().st_dev
    block = tmp_path / "sys/dev/block" / f"{os.major(device)}:{os.minor(device)}"
    (block / "queue").mkdir(parents=True)
    (block / "queue/rotational").write_text("1\n")
    (disk,) = disks_of([tmp_path, tmp_path / "a", tmp_path / "missing"], tmp_path / "sys")
    assert (disk.path, disk.kind) == (str(tmp_path), "disk")
    assert 0 < disk.free_mib <= disk.total_mib


def listing(said: object) -> tuple[str, ...]:
    """Return a program that lists models as it likes."""
    text = said if isinstance(said, str) else json.dumps(said)
    return (sys.executable, "-c", f"print({text!r})")


def look(said: object, others: list[FoundModel] | None = None) -> tuple[Model, ...] | None:
    options = ChildOptions(environ={"PATH": os.defpath})
    return InventoryLook(options, listing(said), ollama=lambda: others or []).run_once().models


def test_the_models_of_all_places_are_listed_the_largest_first_and_what_lies_is_cut() -> None:
    told = [{"name": "small", "bytes": 1}, {"name": "large\0\nmodel", "bytes": 2**60}, {"name": "  "}]
    found = look(told, [FoundModel(name="qwen3:8b", bytes=-5, engine="ollama")])
    assert found == (
        Model("large\ufffd model", BYTES_MAX), Model("small", 1), Model("qwen3:8b", 0, "ollama")
    )  # fmt: skip
    many = look([{"name": f"m{number}" + "x" * 300, "bytes": number} for number in range(2 * MODELS_MAX)])
    assert many is not None
    assert len(many) == MODELS_MAX
    assert max(len(each.name) for each in many) == NAME_CHARS_MAX
    for lie in ("", "[1, 2]", "x" * 5_000_000, [{"bytes": "many"}]):
        assert look(lie) == ()


def test_a_look_that_fails_in_whatever_way_is_made_again_and_news_are_told() -> None:
    quiet, looks, told = Event(), list[int](), list[object]()

    def models() -> list[FoundModel]:
        looks.append(1)
        if len(looks) == 1:
            raise ValueError("no number")
        if len(looks) == 3:
            quiet.set()
        return [FoundModel(name="a")]

    found = InventoryLook(ChildOptions(environ={"PATH": os.defpath}), listing([]), ollama=models)
    found.run(quiet, ManualClock(), lambda: told.append(found.current().models))
    assert (len(looks), told) == (3, [None, (Model("a", None),)])


def test_weights_that_lie_in_a_folder_are_found_by_a_process_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "tiny.gguf").write_bytes(bytes(1234))
    environ = {"PATH": os.defpath, "MODEL_PATH": str(tmp_path), "HF_HUB_CACHE": str(tmp_path / "none")}
    found = InventoryLook(ChildOptions(environ=environ)).run_once()
    assert found.models is not None
    assert Model("tiny", 1234) in found.models
    assert found.engines is not None


DRIPS = b"headers"


class OllamaServer(HTTPServer):
    """A server with one answer, which knows when its client has given up."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(("127.0.0.1", 0), Ollama)
        self.answers = {"/api/tags": (status, body)}
        self.asked, self.given_up = Event(), Event()


class Ollama(BaseHTTPRequestHandler):
    """Answers as its server was told to."""

    server: OllamaServer

    def do_GET(self) -> None:
        self.server.asked.set()
        status, body = self.server.answers[self.path]
        self.send_response(status)
        with suppress(ConnectionError):
            for number in range(400 if body == DRIPS else 0):
                self.send_header(f"x-{number}", "y")
                self.flush_headers()
                self.server.given_up.wait(0.02)
            self.end_headers()
            self.wfile.write(body)
            return
        self.server.given_up.set()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def serving(status: int, body: bytes) -> Iterator[Mapping[str, str]]:
    server = OllamaServer(status, body)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield {"OLLAMA_HOST": f"http://0.0.0.0:{server.server_port}"}
    finally:
        server.shutdown()
        server.server_close()
        # on a busy machine its client may give up before it has asked
        assert body != DRIPS or not server.asked.is_set() or server.given_up.wait(10)


@pytest.mark.parametrize(
    ("status", "body", "models"),
    [
        (200, b'{"models": [{"name": "qwen3:8b", "size": 5225388164, "details": {}}, {"name": "x"}]}',
         [("qwen3:8b", 5225388164, "ollama"), ("x", None, "ollama")]),
        (200, b"{}", []),
        (200, b'{"models": [{"name": 3}]}', []),
        (200, b"<html>", []),
        (200, b'{"models": [{"name": "\xff"}]}', []),
        (200, b'{"models": ' + b"[" * 100_000, []),
        (200, DRIPS, []),
        (200, b"x" * (ANSWER_BYTES_MAX + 1), []),
        (500, b'{"models": [{"name": "x"}]}', []),
    ],
)  # fmt: skip
def test_an_ollama_of_this_machine_lists_its_models_and_an_odd_one_lists_none(
    status: int, body: bytes, models: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    if body == DRIPS:
        monkeypatch.setattr(ollama, "ANSWER_S", 0.1)
    with serving(status, body) as environ:
        found = ollama_models(environ)
    assert [(each.name, each.bytes, each.engine) for each in found] == models
    assert ollama_models(environ) == [], "nobody listens there any more"


class Tensor:
    def __init__(self, value: float) -> None:
        self.value = value

    def sum(self) -> Tensor:
        return self

    def item(self) -> float:
        return self.value


def torch(*, built_for: list[str], says: str | None = None, adds: float = 4096.0) -> Any:
    """Return a stand-in for PyTorch on a machine with one H100, whose kernels fail with `says`."""

    def ones(count: int, *, device: str) -> Tensor:
        assert device == "cuda:0"
        if says is not None:
            raise RuntimeError(says)
        return Tensor(adds)

    cuda = SimpleNamespace(
        is_available=lambda: bool(built_for),
        device_count=lambda: 1,
        get_device_capability=lambda number: (9, 0),
        get_arch_list=lambda: [each for each in built_for if each != "unknown"],
    )
    return SimpleNamespace(cuda=cuda, ones=ones)


NO_IMAGE = "CUDA error: no kernel image is available for execution on the device"
OTHER = "CUDA error: an illegal memory access was encountered"


@pytest.mark.parametrize(
    ("module", "is_ok", "code"),
    [
        (torch(built_for=["sm_80", "sm_90"]), True, None),
        (torch(built_for=["sm_50", "sm_60"], says=NO_IMAGE), False, "CUDA_UNSUPPORTED_ARCH"),
        (torch(built_for=["unknown"], says=NO_IMAGE), False, "CUDA_UNSUPPORTED_ARCH"),
        (torch(built_for=["sm_80", "sm_120"], says=OTHER), False, "CUDA_UNSUPPORTED_ARCH"),
        (torch(built_for=["sm_80", "compute_80"], says=OTHER), False, None),
        (torch(built_for=["sm_90"], says=OTHER), False, None),
        (torch(built_for=["gfx90a"], says=OTHER), False, "CUDA_UNSUPPORTED_ARCH"),
        (torch(built_for=[]), False, None),
        (torch(built_for=["sm_90"], adds=4095.0), False, None),
    ],
)
def test_a_gpu_for_which_pytorch_has_no_code_is_told_with_what_to_do(
    module: Any, is_ok: bool, code: str | None
) -> None:
    tried = try_cuda(module)
    assert (tried.ok, tried.code) == (is_ok, code)
    if code is not None:
        assert "sm_90" in tried.message
        assert "install a build of PyTorch" in tried.message
        assert "CPU" in tried.message
