"""Which unit tests `make check` runs."""

from __future__ import annotations

from pathlib import Path

from scripts.changed import units


def tree(root: Path, **files: str) -> Path:
    for name, text in files.items():
        path = root / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_a_changed_module_brings_the_unit_tests_that_import_it_and_no_others(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        events__one="X = 1\n",
        events__two="from events.one import X\n",
        tests__unit__test_one="from events.one import X\n",
        tests__unit__test_two="import events.two\n",
        tests__unit__test_other="import json\n",
        tests__integration__test_one="from events.one import X\n",
    )
    assert units(root, ["events/one.py"]) == ["tests/unit/test_one.py"]
    assert units(root, ["events/one.py", "events/two.py"]) == [
        "tests/unit/test_one.py",
        "tests/unit/test_two.py",
    ]


def test_a_changed_test_is_run_and_what_is_gone_or_no_module_is_not(tmp_path: Path) -> None:
    root = tree(tmp_path, tests__unit__test_one="", tests__integration__test_two="")
    changed = ["tests/unit/test_one.py", "tests/integration/test_two.py", "events/gone.py", "README.md"]
    assert units(root, changed) == ["tests/unit/test_one.py"]
