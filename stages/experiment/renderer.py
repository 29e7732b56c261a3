"""Turns Typst source into PDF; checked before the experiments, so that no run finds out at its end."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import typst

from events.errors import PipelineError

FONT: Final = "Libertinus Serif"  # carried by the wheel, like the mono font of the source


def check_renderer(folder: Path) -> None:
    """Raise `PipelineError` with the code CONFIG where no PDF can be written."""
    source = folder / "renderer-check.typ"
    source.write_text(f'#set text(font: "{FONT}")\nA page.\n', encoding="utf-8")
    try:
        pdf = typst.compile(source)
        families = typst.Fonts().families()
    except (RuntimeError, OSError) as error:
        raise PipelineError("CONFIG", f"the paper's renderer (typst) does not work here: {error}") from error
    finally:
        source.unlink(missing_ok=True)
    if not isinstance(pdf, bytes) or not pdf.startswith(b"%PDF") or FONT not in families:
        raise PipelineError("CONFIG", f"the paper's renderer (typst) lacks its font {FONT}; reinstall typst")


def render(source: Path, target: Path) -> None:
    """Compile `source`, which may read files of its own folder only, to the PDF `target`."""
    typst.compile(source, output=target, root=source.parent)
