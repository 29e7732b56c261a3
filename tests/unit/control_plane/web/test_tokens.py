"""The constants of the design: one file, and colours that can be read in both themes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from control_plane.server.web.page_renderer import HERE

STATIC = HERE / "static"
TOKENS = (STATIC / "tokens.css").read_text()
LEGIBLE = ("ink", "dim", "accent", "good", "bad", "busy", "wait", *(f"c{number}" for number in range(6)))
CONTRAST_MIN = 4.5
SHEETS = sorted(each for each in STATIC.glob("*.css") if each.name != "tokens.css")


def themes() -> dict[str, dict[str, str]]:
    """Return the colours of each theme, by the selector that sets them."""
    blocks = re.findall(r"(:root[^{]*)\{([^}]*)\}", TOKENS)
    found = [(selector.strip(), dict(re.findall(r"--([\w-]+): (#\w+)", body))) for selector, body in blocks]
    return {selector: colours for selector, colours in found if colours}


def luminance(colour: str) -> float:
    digits = colour.lstrip("#")
    digits = "".join(2 * each for each in digits) if len(digits) == 3 else digits
    parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    linear = [each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    light, dark = sorted((luminance(first), luminance(second)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_there_are_two_themes_and_both_ways_to_the_dark_one_agree() -> None:
    light, dark, chosen = themes().values()
    assert dark == chosen
    assert set(dark) == set(light)
    assert dark["ground"] != light["ground"]


@pytest.mark.parametrize("selector", themes())
def test_every_colour_of_text_can_be_read(selector: str) -> None:
    colours = themes()[selector]
    faint = {
        (name, ground): round(contrast(colours[name], colours[ground]), 2)
        for name in LEGIBLE
        for ground in ("ground", "panel")
        if contrast(colours[name], colours[ground]) < CONTRAST_MIN
    }
    assert faint == {}
    assert contrast(colours["ink"], colours["warn-ground"]) >= CONTRAST_MIN
    assert contrast(colours["accent"], colours["warn-ground"]) >= CONTRAST_MIN


def test_the_measure_of_contrast_is_that_of_the_guidelines() -> None:
    assert contrast("#000", "#fff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("sheet", SHEETS, ids=lambda each: each.name)
def test_a_style_sheet_sets_no_colour_of_its_own_and_uses_known_constants(sheet: Path) -> None:
    text = sheet.read_text()
    known = set(re.findall(r"--([\w-]+):", TOKENS)) | {"c"}  # the colour of one line of a chart
    assert set(re.findall(r"var\(--([\w-]+)\)", text)) <= known
    assert set(re.findall(r"#[0-9a-f]{3,8}\b(?=[; ])", text)) <= {"#fff"}  # behind pictures and papers
