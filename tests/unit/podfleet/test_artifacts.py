"""Which files are meant, and where they may go."""

from __future__ import annotations

from pathlib import Path

import pytest

from control_plane.model.views.document_mapping import from_document
from events.answers.artifacts import Artifact
from podfleet.commands.artifacts import Unkept, inside, wanted


@pytest.mark.parametrize(
    "name", ["../x", "/etc/passwd", "a/../../x", "", ".", "a\nb", "\x1b[2J", "a\\b", "..", "a/./.."]
)
def test_a_name_that_leads_out_of_the_folder_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(Unkept):
        inside(tmp_path / "folder", name)


def test_a_link_in_the_folder_leads_nobody_out(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (tmp_path / "outside").mkdir()
    folder.mkdir()
    (folder / "plots").symlink_to(tmp_path / "outside")
    with pytest.raises(Unkept, match="leads out of"):
        inside(folder, "plots/loss.png")
    assert inside(folder, "paper/paper.pdf") == folder / "paper" / "paper.pdf"


def test_names_and_patterns_choose_and_what_means_nothing_is_refused() -> None:
    known = [
        from_document(Artifact, {"name": name}) for name in ("a.png", "b.png", "plots/c.png", "d[1].txt")
    ]
    assert [each.name for each in wanted(known, ["*.png", "a.png"])] == ["a.png", "b.png", "plots/c.png"]
    assert [each.name for each in wanted(known, ["d[1].txt"])] == ["d[1].txt"]
    assert wanted(known, []) == known
    with pytest.raises(Unkept, match="'e'"):
        wanted(known, ["a.png", "e"])
    with pytest.raises(Unkept, match="no files"):
        wanted([], [])
