"""Which Pythons are told to be old."""

from __future__ import annotations

import pytest

from events.runtime.interpreter import objection


@pytest.mark.parametrize("version", [(3, 11, 10), (3, 11, 14), (3, 12, 6), (3, 13, 0), (3, 14, 1)])
def test_a_mended_python_is_fine(version: tuple[int, int, int]) -> None:
    assert objection(version) is None


@pytest.mark.parametrize(("version", "mended"), [((3, 11, 9), "3.11.10"), ((3, 12, 5), "3.12.6")])
def test_an_old_patch_level_is_told_with_what_to_do(version: tuple[int, int, int], mended: str) -> None:
    words = objection(version)
    assert words is not None
    assert f"install {mended} or newer" in words
