"""The documents: width of lines, links, and what they repeat of the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from control_plane.access.keys import ALL
from events.lifecycle import Status

ROOT: Final = Path(__file__).parents[2]
WIDTH: Final = 120
UNBREAKABLE: Final = re.compile(r"\S+")  # one link or one address has no place to break at
LINK: Final = re.compile(r"\]\(([^)\s]+)\)")


def _documents() -> Iterator[Path]:
    yield from sorted(ROOT.glob("*.md"))
    yield from sorted((ROOT / "docs").rglob("*.md"))


def test_no_line_is_too_wide_for_a_diff() -> None:
    wide = [
        f"{path.relative_to(ROOT)}:{number}: {len(line)}"
        for path in _documents()
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if len(line) > WIDTH and not UNBREAKABLE.fullmatch(line.strip())
    ]
    assert wide == []


def test_every_link_between_the_documents_leads_somewhere() -> None:
    broken = [
        f"{path.relative_to(ROOT)}: {target}"
        for path in _documents()
        for target in LINK.findall(path.read_text())
        if not target.startswith(("http:", "https:")) and not _leads(path, target)
    ]
    assert broken == []


def _leads(page: Path, target: str) -> bool:
    """Return whether the file of a link exists, and has the heading that it names."""
    name, _, heading = target.partition("#")
    file = (page.parent / name).resolve() if name else page
    if not file.exists():
        return False
    headings = re.findall(r"^#+ (.+)$", file.read_text(), re.MULTILINE) if heading else []
    return not heading or heading in {_anchor(each) for each in headings}


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-")


def test_the_glossary_has_every_status_and_scope() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text()
    assert [status for status in Status if not re.search(rf"\b{status}\b", text)] == []
    assert [scope for scope in ALL if f"`{scope}`" not in text] == []
