"""Items out of data sets of each form, as a user puts them into a folder; and files that are none."""

from __future__ import annotations

import csv
import gzip
import json
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow
import pytest
from pyarrow import parquet

from events.kinds.benchmark import Fields, OwnSuite
from stages.kinds.benchmark.suites.catalogue import SUITES
from stages.kinds.benchmark.suites.data import records
from stages.kinds.benchmark.suites.data.loading import load
from stages.kinds.benchmark.suites.data.records import read_records
from stages.kinds.benchmark.suites.data.sources import DataRefused, DataSources, NeedsSetup
from stages.kinds.benchmark.suites.item import Item
from stages.kinds.benchmark.suites.own import own
from stages.kinds.benchmark.suites.payload import (
    Function,
    Instructions,
    Line,
    Options,
    Program,
    Quantity,
    Wanted,
)


def loaded(name: str, sources: DataSources) -> list[Item]:
    return load(SUITES[name], sources)


def write(folder: Path, name: str, rows: Sequence[object]) -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def given(folder: Path) -> DataSources:
    return DataSources(folders=(folder,), cache=folder / "cache", hub="")


def test_a_table_leaves_the_limit_of_a_cell_as_it_was(tmp_path: Path) -> None:
    usual = csv.field_size_limit()
    for content in ("question,answer\n1,2\n", "question,answer\n1,2,3\n"):
        (tmp_path / "gsm8k.csv").write_text(content)
        with suppress(DataRefused):
            list(read_records(tmp_path / "gsm8k.csv"))
        assert csv.field_size_limit() == usual


def test_padding_of_mmlu_pro_is_dropped(sources: DataSources) -> None:
    first, second = loaded("mmlu-pro", sources)
    assert isinstance(first.payload, Options)
    assert first.payload.texts == ("Oxygen", "Carbon dioxide", "Helium")
    assert first.payload.order == (0, 1, 3)
    assert first.expected == "B) Carbon dioxide"
    assert "N/A" not in first.prompt
    assert "C) Helium" in first.prompt
    assert second.expected == "F) 6 N"
    assert (second.id, second.subject) == ("2", "physics")


def test_options_of_gpqa_are_mixed_by_item_and_the_order_is_told(sources: DataSources) -> None:
    items = loaded("gpqa", sources)
    assert items == loaded("gpqa", sources)
    orders = set()
    for item in items:
        assert isinstance(item.payload, Options)
        assert sorted(item.payload.order) == [0, 1, 2, 3]
        assert item.payload.order[item.payload.right] == 0
        assert item.payload.texts[item.payload.right].startswith("right")
        assert ", ".join(map(str, item.payload.order)) in item.note
        orders.add(item.payload.order)
    assert len(orders) > 1


def test_numbers_of_gsm8k_and_aime(sources: DataSources) -> None:
    assert [item.expected for item in loaded("gsm8k", sources)] == ["30", "5,000"]
    first, second = loaded("aime", sources)
    assert (first.id, first.expected, second.expected) == ("2024-X-1", "1", "73")
    assert isinstance(second.payload, Quantity)
    assert "\\boxed" in second.prompt


def test_instructions_of_ifeval_lose_what_is_null(sources: DataSources) -> None:
    payload = loaded("ifeval", sources)[0].payload
    assert isinstance(payload, Instructions)
    assert payload.checks == (("punctuation:no_comma", {}), ("change_case:english_lowercase", {}))


def test_humaneval_comes_out_of_its_wheel(tmp_path: Path) -> None:
    items = loaded("humaneval", given(tmp_path))
    assert len(items) == SUITES["humaneval"].expected_count == 164
    assert items[0].id == "HumanEval/0"
    assert all(isinstance(item.payload, Function) and item.payload.name in item.prompt for item in items)


def test_private_tests_of_livecodebench_stay_in_their_file(sources: DataSources, samples: Path) -> None:
    first, second = loaded("livecodebench", sources)
    assert isinstance(first.payload, Program)
    assert isinstance(first.payload.private, Line)
    assert first.payload.private.file == samples / "livecodebench.jsonl"
    assert isinstance(second.payload, Program)
    assert (second.payload.function, second.difficulty) == ("sums", "medium")
    assert "def sums" in second.prompt


def test_each_form_of_file_gives_the_same_items(samples: Path, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in (samples / "gsm8k.jsonl").read_text().splitlines()]
    wanted = [item.expected for item in loaded("gsm8k", given(samples))]
    text = (samples / "gsm8k.jsonl").read_bytes()
    table = tmp_path / "table.csv"
    with table.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "table.parquet")
    forms: dict[str, bytes] = {
        "gsm8k.jsonl": text,
        "GSM8K.jsonl.gz": gzip.compress(text),
        "gsm8k.json": json.dumps({"data": rows}).encode(),
        "gsm8k.json.gz": gzip.compress(json.dumps(rows).encode()),
        "gsm8k.csv": table.read_bytes(),
        "gsm8k.csv.gz": gzip.compress(table.read_bytes()),
        "gsm8k.parquet": (tmp_path / "table.parquet").read_bytes(),
        "openai--gsm8k/main/test-00000-of-00001.parquet": (tmp_path / "table.parquet").read_bytes(),
    }
    for number, (name, content) in enumerate(forms.items()):
        folder = tmp_path / str(number)
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_bytes(content)
        assert [item.expected for item in loaded("gsm8k", given(folder))] == wanted, name


def test_a_folder_gives_the_files_of_its_split_in_their_order(samples: Path, tmp_path: Path) -> None:
    lines = (samples / "gsm8k.jsonl").read_text().splitlines()
    folder = tmp_path / "gsm8k" / "main"
    folder.mkdir(parents=True)
    (folder / "train-0.jsonl").write_text(lines[0])
    (folder / "test-10.jsonl").write_text(lines[0])
    (folder / "test-2.jsonl").write_text(lines[1])
    assert [(item.id, item.expected) for item in loaded("gsm8k", given(tmp_path))] == [
        ("0", "5,000"),
        ("1", "30"),
    ]


def test_a_suite_without_data_says_what_to_do(tmp_path: Path) -> None:
    for name in SUITES.keys() - {"humaneval"}:
        with pytest.raises(NeedsSetup, match="PODFLEET_DATASETS"):
            loaded(name, given(tmp_path))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("gsm8k.jsonl", b"{]\n", "line 1 is no JSON"),
        ("gsm8k.jsonl", b"[1]\n", "line 1 is no object"),
        ("gsm8k.jsonl", b"", "has no items"),
        ("gsm8k.jsonl", b'{"question": "?", "answer": "42"}\n', "no ####"),
        ("gsm8k.jsonl", b'{"question": "?", "answer": "#### many"}\n', "is no number"),
        ("gsm8k.jsonl", b'{"answer": "#### 1"}\n', "has no question"),
        ("gsm8k.jsonl", b'{"question": "\xff", "answer": "#### 1"}\n', "UTF-8"),
        ("gsm8k.jsonl.gz", b"not packed", "cannot be read"),
        ("gsm8k.jsonl.gz", gzip.compress(b"x" * 1_000, mtime=0)[:-9], "cannot be read"),
        ("gsm8k.json", b'{"name": 1}', "no list of records"),
        ("gsm8k.json", b"[" * 100_000, "no JSON"),
        ("gsm8k.csv", b"question,answer\n1,2,3\n", "another number of cells"),
        ("gsm8k.parquet", b"PAR1 it is not PAR1", "no Parquet file"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataRefused, match=words):
        loaded("gsm8k", given(tmp_path))


@pytest.mark.parametrize(
    ("suite", "change", "words"),
    [
        ("mmlu-pro", {"answer_index": 9}, "do not name one of its options"),
        ("mmlu-pro", {"answer": "C"}, "do not name one of its options"),
        ("mmlu-pro", {"options": ["one", "N/A"], "answer": "A", "answer_index": 0}, "1 options"),
        ("mmlu-pro", {"options": "no list"}, "is no list"),
        ("mmlu-pro", {"question_id": "a" * 300}, "no id"),
        ("mmlu-pro", {"question_id": 2}, "two items"),
        ("mmlu-pro", {"question": "x" * (1 << 20)}, "more than"),
        ("ifeval", {"instruction_id_list": ["a:b", "punctuation:no_comma"]}, "is unknown"),
        ("ifeval", {"kwargs": []}, "one kwargs for each"),
        (
            "ifeval",
            {"instruction_id_list": ["length_constraints:number_words"], "kwargs": [{}]},
            "do not fit",
        ),
        ("livecodebench", {"starter_code": "class Solution:"}, "starter without"),
        ("livecodebench", {"metadata": '{"func_name": "a b"}'}, "name no method"),
        ("livecodebench", {"metadata": "{"}, "no JSON"),
        ("livecodebench", {"public_test_cases": 5}, "is no text"),
    ],
)
def test_a_record_that_is_no_item_refuses_the_set(
    samples: Path, tmp_path: Path, suite: str, change: dict[str, Any], words: str
) -> None:
    rows = [json.loads(line) for line in (samples / f"{suite}.jsonl").read_text().splitlines()]
    write(tmp_path, f"{suite}.jsonl", [rows[0] | change, *rows[1:]])
    with pytest.raises(DataRefused, match=words):
        loaded(suite, given(tmp_path))


def test_bounds_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "gsm8k.jsonl", [{"question": "x" * 100, "answer": "#### 1"}] * 3)
    monkeypatch.setattr(records, "RECORDS_MAX", 2)
    with pytest.raises(DataRefused, match="more than 2 records"):
        list(read_records(path))
    monkeypatch.setattr(records, "LINE_BYTES_MAX", 50)
    with pytest.raises(DataRefused, match="more than 50 bytes"):
        list(read_records(path))
    packed = tmp_path / "bomb.jsonl.gz"
    packed.write_bytes(gzip.compress(b"\n" * 10_000 + path.read_bytes()))
    monkeypatch.setattr(records, "WHOLE_BYTES_MAX", 1_000)
    for name in ("bomb.jsonl.gz", "bomb.json.gz", "bomb.csv.gz"):
        shutil.copy(packed, tmp_path / name) if not (tmp_path / name).exists() else None
        with pytest.raises(DataRefused, match=r"more than (1000|50) bytes"):
            list(read_records(tmp_path / name))


OWN = OwnSuite(name="colours", file="own.jsonl", fields=Fields(prompt="frage", answer="soll", id="nr"))


def test_an_own_suite_maps_its_fields(sources: DataSources) -> None:
    suite = own(OWN)
    first, second = load(suite, sources)
    assert (first.id, first.prompt) == ("a1", "Which colour has the sky at noon?")
    assert isinstance(first.payload, Wanted)
    assert first.payload.texts == ("blue", "azure")
    assert second.expected == "green"
    assert suite.expected_count is None


@pytest.mark.parametrize(
    "name", ["../own.jsonl", "/etc/passwd", "own.jsonl/../../conftest.py", "missing.jsonl", "a\0b"]
)
def test_an_own_file_lies_in_the_operators_folders(sources: DataSources, name: str) -> None:
    with pytest.raises((NeedsSetup, DataRefused)) as caught:
        load(own(OwnSuite(name="x", file=name)), sources)
    assert "root:" not in str(caught.value)


def test_a_link_out_of_the_folders_is_not_followed(tmp_path: Path, samples: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "own.jsonl").symlink_to(samples / "own.jsonl")
    with pytest.raises(NeedsSetup):
        load(own(OWN), given(folder))
    (folder / "mine").mkdir()
    (folder / "mine" / "own.jsonl").symlink_to(samples / "own.jsonl")
    (folder / "mine" / "more.jsonl").write_text('{"nr": "b1", "frage": "?", "soll": "red"}')
    assert [item.id for item in load(own(msgspec.structs.replace(OWN, file="mine")), given(folder))] == ["b1"]


@pytest.mark.parametrize(
    ("spec", "row", "words"),
    [
        ({"scorer": "regex"}, {"prompt": "?", "answer": "(["}, "no regular expression"),
        ({"scorer": "regex"}, {"prompt": "?", "answer": "a" * 3_000}, "more than"),
        ({"scorer": "number"}, {"prompt": "?", "answer": "many"}, "is no number"),
        ({"scorer": "choice"}, {"prompt": "?", "answer": "A"}, "0 options"),
        ({}, {"prompt": "?", "answer": []}, "no answer"),
        ({}, {"prompt": "", "answer": "x"}, "has no prompt"),
        ({}, {"prompt": {"a": 1}, "answer": "x"}, "has no prompt"),
    ],
)
def test_an_own_record_that_its_scorer_cannot_use_is_refused(
    tmp_path: Path, spec: dict[str, Any], row: dict[str, Any], words: str
) -> None:
    write(tmp_path, "mine.jsonl", [row])
    with pytest.raises(DataRefused, match=words):
        load(own(OwnSuite(name="mine", file="mine.jsonl", **spec)), given(tmp_path))


def test_an_own_choice_names_its_option_by_letter_text_or_place(tmp_path: Path) -> None:
    rows = [{"prompt": "?", "answer": answer, "of": ["red", "green", "blue"]} for answer in ("B", "green", 1)]
    write(tmp_path, "mine.jsonl", rows)
    suite = own(OwnSuite(name="mine", file="mine.jsonl", scorer="choice", fields=Fields(options="of")))
    assert [item.expected for item in load(suite, given(tmp_path))] == ["B", "B", "B"]


def test_every_suite_has_a_name_a_licence_and_a_pinned_source() -> None:
    for name, suite in SUITES.items():
        assert suite.name == name
        assert suite.licence
        assert suite.expected_count
        assert suite.sources
        assert all(len(source.revision) == 40 and source.files for source in suite.sources)


def test_the_first_folder_with_the_data_counts(sources: DataSources, tmp_path: Path) -> None:
    write(tmp_path, "gsm8k.jsonl", [{"question": "?", "answer": "#### 7"}])
    both = replace(sources, folders=(tmp_path / "none", tmp_path, *sources.folders))
    assert [item.expected for item in loaded("gsm8k", both)] == ["7"]
