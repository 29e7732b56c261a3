"""Names and paths from elsewhere: what shipped pipelines use is legal, whatever leads away is refused."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.files.paths import BadPath, RunPath, SafeName, from_text

LEGAL = (
    "checkpoints/plots/state.json", "checkpoints/Stage_1/manifest.json", "checkpoints/plots/12/nodes.png",
    "tree.json", "plots/nodes/Stage_1-1.png", "paper/paper.pdf", "a b/ünïcode – x.csv", "..a/b..",
    "probe.bin", "x" * 255, "/".join(["é" * 100] * 5),
)  # fmt: skip
LEADING_AWAY = (
    "", "/", "/etc/passwd", "..", ".", "../x", "a/../x", "a/..", "a//b", "a/", "./a", "a/./b", "a\\b", "a\nb",
    "a\x00b", "a\x1b[31m", "a\u202eb", "a\x7f", "x" * 256, "é" * 128, "a/" * 600 + "a", "\ud800",
    "/".join(["é" * 100] * 6),
)  # fmt: skip


@pytest.mark.parametrize("text", LEGAL)
def test_a_relative_path_is_one(text: str) -> None:
    assert RunPath(text) == text
    assert "/".join(RunPath(text).parts) == text


@pytest.mark.parametrize("text", LEADING_AWAY)
def test_what_leads_away_or_cannot_be_a_file_is_refused_in_words(text: str) -> None:
    with pytest.raises(BadPath, match="is no"):
        RunPath(text)


@pytest.mark.parametrize("text", ["", ".", "..", ".a", "-a", "a/b", "a\n", "a b", "é", "x" * 65, "a\x00"])
def test_a_name_is_one_plain_part(text: str) -> None:
    with pytest.raises(BadPath, match="is no name"):
        SafeName(text)
    assert SafeName("Stage_1.v2-x") == "Stage_1.v2-x"


def test_a_path_lies_below_a_folder_or_beside_it() -> None:
    assert RunPath("runs/r/a1/x").is_below("runs/r/a1/")
    assert not RunPath("runs/r/a1").is_below("runs/r/a1/")
    assert not RunPath("runs/r/a10/x").is_below("runs/r/a1/")


@given(st.text(max_size=20))
def test_whatever_is_a_path_stays_below_the_folder_it_is_joined_to(text: str) -> None:
    try:
        path = RunPath(text)
    except BadPath:
        return
    folder = Path("folder")
    assert (folder / path).parts[:1] == ("folder",)
    assert ".." not in (folder / path).parts
    assert (folder / path).relative_to(folder).as_posix() == text


def test_decoders_read_both_and_say_where_a_bad_one_stood() -> None:
    class Form(msgspec.Struct):
        name: SafeName
        paths: list[RunPath]

    decoder = msgspec.json.Decoder(Form, dec_hook=from_text)
    found = decoder.decode(b'{"name": "a", "paths": ["x/y"]}')
    assert (type(found.name), type(found.paths[0])) == (SafeName, RunPath)
    bad = {
        '{"name": "..", "paths": []}': r"\$\.name",
        '{"name": "a", "paths": [3]}': r"\$\.paths\[0\]",
    }
    for text, place in bad.items():
        with pytest.raises(msgspec.ValidationError, match=place):
            decoder.decode(text)
    with pytest.raises(TypeError):
        from_text(Path, "x")


@pytest.mark.parametrize("kind", [SafeName, RunPath])
def test_a_refusal_shows_the_beginning_of_a_long_text(kind: type) -> None:
    with pytest.raises(BadPath) as refused:
        kind("x/../" * 1_000)
    assert len(refused.value.message) < 250
