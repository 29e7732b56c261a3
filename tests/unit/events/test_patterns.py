"""Patterns of the files of a run."""

from __future__ import annotations

import pytest

from events.files.patterns import matches


@pytest.mark.parametrize(
    ("pattern", "taken", "left"),
    [
        ("*.pt", ["a.pt"], ["a/b.pt", "a.ptx", "a.PT"]),
        ("**/*", ["a", "a/b", "a/b/c"], []),
        ("**", ["a", "a/b/c"], []),
        ("**/*.pt", ["b.pt", "a/b.pt", "a/a/b.pt"], ["a.pt/b"]),
        ("logs/*", ["logs/a"], ["logs/a/b", "a/logs/b", "logs"]),
        ("logs/**", ["logs/a", "logs/a/b"], ["logs", "a/logs/b"]),
        ("a/**/z", ["a/z", "a/b/z", "a/b/c/z"], ["z", "b/z", "a/z/b"]),
        ("**/a/**/z", ["a/z", "b/a/c/z", "a/a/z"], ["z", "b/z"]),
        ("model-?.[bp]*", ["model-1.pt", "model-2.bin"], ["model-1.zip", "model-10.pt"]),
        ("", [], ["a"]),
    ],
)
def test_a_star_stays_in_its_folder_and_two_stand_for_any_folders(
    pattern: str, taken: list[str], left: list[str]
) -> None:
    assert [each for each in (*taken, *left) if matches(each, pattern)] == taken


def test_a_pattern_of_many_folders_takes_no_time() -> None:
    assert not matches("a/" * 500 + "b", "**/a/" * 100 + "c")
