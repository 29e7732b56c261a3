"""The models on a pod, and the commands that show engines and models."""

from __future__ import annotations

from pathlib import Path

import pytest

from events.models.engines import ENGINES
from events.models.rows.llama_cpp import XLLAMACPP
from events.models.rows.ollama import OLLAMA
from events.models.rows.vllm import VLLM
from events.runtime.errors import PipelineError
from stages.engines import cache
from stages.engines.__main__ import main
from stages.engines.cache import cached, hub_cache
from stages.engines.weights import model_of


def a_file(path: Path, size: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))
    return path


def test_models_are_found_in_every_place_with_their_sizes(tmp_path: Path) -> None:
    a_file(tmp_path / "weights/tiny.gguf", 10)
    a_file(tmp_path / "weights/tiny.txt", 10)
    a_file(tmp_path / "models/large/part-1", 300)
    blob = a_file(tmp_path / "home/hub/models--org--name/blobs/abc", 100)
    (tmp_path / "home/hub/models--org--name/snapshots/1").mkdir(parents=True)
    (tmp_path / "home/hub/models--org--name/snapshots/1/config.json").symlink_to(blob)
    a_file(tmp_path / "home/hub/models--org--half/blobs/abc.incomplete", 50)
    a_file(tmp_path / "home/hub/datasets--org--d/blobs/abc", 50)
    found = cached({"HF_HOME": f"{tmp_path}/home", "MODEL_PATH": f"{tmp_path}/models"}, tmp_path / "weights")
    assert [(each.name, each.size, each.is_whole) for each in found] == [
        ("large", 300, True), ("org/name", 100, True), ("org/half", 50, False), ("tiny", 10, True)
    ]  # fmt: skip
    assert cached({"HOME": f"{tmp_path}/nobody"}, tmp_path / "none") == []


def test_links_are_followed_within_the_models_alone_and_folders_count_as_much_as_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = a_file(tmp_path / "elsewhere/large/part", 300).parent
    a_file(tmp_path / "models/own.gguf", 10)
    for place in ("models/linked", "home/hub/models--org--linked", "home/hub/models--org--own/snapshots"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).symlink_to(elsewhere)
    (tmp_path / "weights").symlink_to(tmp_path / "models")
    variables = {"HF_HOME": f"{tmp_path}/home", "MODEL_PATH": f"{tmp_path}/models"}
    found = [(each.name, each.size, each.is_whole) for each in cached(variables, tmp_path / "weights")]
    assert found == [("own", 10, True), ("own", 10, True), ("org/own", 0, False)]
    (tmp_path / "models/alias.gguf").symlink_to("own.gguf")
    snapshot = tmp_path / "models/hub/models--org--name/snapshots/1"
    snapshot.mkdir(parents=True)
    blob = a_file(snapshot.parent.parent / "blobs/abc", 400)
    for name, to in (("a", blob), ("again", blob), ("b", elsewhere / "part"), ("round", snapshot.parent)):
        (snapshot / name).symlink_to(to)
    for name, to in (("named", snapshot), ("all", tmp_path / "models"), ("gone", snapshot / "none")):
        (tmp_path / "models" / name).symlink_to(to)
    found = [(each.name, each.size, each.is_whole) for each in cached(variables, tmp_path / "none")]
    assert found == [
        ("hub", 400, True), ("named", 400, False), ("alias", 10, True), ("own", 10, True),
        ("org/own", 0, False),
    ]  # fmt: skip
    (snapshot / "b").unlink()
    assert {each.name: each.is_whole for each in cached(variables, tmp_path / "none")}["named"]
    (snapshot / "lost").symlink_to(blob.parent / "lost")
    assert not {each.name: each.is_whole for each in cached(variables, tmp_path / "none")}["named"]
    (snapshot / "lost").unlink()
    a_file(blob.parent / "d.incomplete", 1)
    assert not {each.name: each.is_whole for each in cached(variables, tmp_path / "none")}["named"]
    for each in ("hub", "named", "alias.gguf"):
        (tmp_path / "models" / each).rename(tmp_path / each)
    for number in range(20):
        (tmp_path / f"models/a/{number}/b/c").mkdir(parents=True)
    for most, size in ((1_000, 10), (30, 0)):
        monkeypatch.setattr(cache, "ENTRIES_MAX", most)
        sizes = {each.name: each.size for each in cached(variables, tmp_path / "none")}
        assert sizes["own"] == size, "its folders have used the look up"


def test_the_cache_is_where_the_libraries_of_the_hub_look() -> None:
    assert hub_cache({"HOME": "/h"}) == Path("/h/.cache/huggingface/hub")
    assert hub_cache({"HOME": "/h", "HF_HOME": "/x"}) == Path("/x/hub")
    assert hub_cache({"HF_HOME": "/x", "HF_HUB_CACHE": "/y"}) == Path("/y")


def test_a_model_is_a_file_a_folder_or_a_name(tmp_path: Path) -> None:
    at = {"MODEL_PATH": str(tmp_path)}
    own = a_file(tmp_path / "own.gguf", 1)
    folder = a_file(tmp_path / "org/name/config.json", 1).parent
    assert model_of(XLLAMACPP, "own", at) == own
    assert model_of(VLLM, "org/name", at) == folder
    assert model_of(VLLM, "org/other", at) == "org/other"
    assert model_of(OLLAMA, "own.gguf", at) == "own.gguf"
    for escaping in ("../own", str(own)):
        with pytest.raises(PipelineError, match="a name of weights"):
            model_of(XLLAMACPP, escaping, at)


def test_what_there_is_can_be_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    a_file(tmp_path / "hub/models--org--name/snapshots/1/x", 3 << 20)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    assert main(["list", "cache"]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n{name}: " in f"\n{shown}" for name in ENGINES)
    assert "  max_num_seqs: requests that are answered at once (1 to 8192; costs" in shown
    assert "  gpu_memory_utilization: share of the GPU's memory that it takes (0.05 to 1; 0.92 if" in shown
    assert "3.0 MiB  org/name" in shown
