"""Which of the files of installed packages are data sets, and what is left beside them."""

from __future__ import annotations

from pathlib import Path

import pytest
import sklearn.datasets

from events.runtime.errors import PipelineError
from stages.adapters.sandbox import known_data as module
from stages.adapters.sandbox.known_data import around, known_data

FILES = (
    "sk/datasets/data/__init__.py", "sk/datasets/data/wine.csv", "sk/datasets/data/digits.csv.gz",
    "sk/datasets/descr/iris.rst", "sk/datasets/_base.py", "sk/tests/data/iris.json.gz", "sk/tests/test_it.py",
    "mpl/mpl-data/sample_data/a.txt", "mpl/mpl-data/fonts/b.ttf", "mpl/mpl-data/rc",
    "models/anes/anes.csv", "models/anes/data.py", "models/anes/table.npz", "vega/_data/cars.json",
    "vega/_data/iris.csv", "frames/io.py", "frames/iris.csv.zip", "frames/iris.arrow", "frames/iris.sas7bdat",
    "zone/zoneinfo.tar.gz", "zone/__init__.py", "dist/RECORD",
)  # fmt: skip
MASKED = (
    "frames/iris.arrow", "frames/iris.csv.zip", "frames/iris.sas7bdat",
    "models/anes/anes.csv", "mpl/mpl-data/sample_data", "sk/datasets/data", "sk/datasets/descr",
    "sk/tests/data", "vega/_data",
)  # fmt: skip


def packages(root: Path) -> Path:
    """Lay out packages below a place of programs; return their folder."""
    home = root / "lib" / "python3.11" / "site-packages"
    for name in FILES:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("x")
    return home


def test_data_are_found_and_code_is_left(tmp_path: Path) -> None:
    home = packages(tmp_path)
    assert known_data((str(tmp_path),)) == tuple(str(home / name) for name in MASKED)
    assert known_data((str(tmp_path / "lib" / "python3.11"),)) == tuple(str(home / name) for name in MASKED)


def test_data_behind_links_and_places_with_two_names_are_found_under_all_of_them(tmp_path: Path) -> None:
    real = tmp_path / "real"
    home = packages(real)
    elsewhere = real / "share" / "tables"
    elsewhere.mkdir(parents=True)
    (elsewhere / "blob").write_text("x")
    (home / "sk" / "houses.csv").symlink_to(elsewhere / "blob")
    (home / "sk" / "boston").symlink_to(elsewhere, target_is_directory=True)
    (elsewhere / "boston.csv").write_text("x")
    (tmp_path / "other").symlink_to(real, target_is_directory=True)
    found = known_data((str(tmp_path / "other"), str(real)))
    for root in ("other", "real"):
        assert str(tmp_path / root / "lib/python3.11/site-packages/sk/datasets/data") in found
        assert str(tmp_path / root / "share/tables") in found


HOMES = (
    "lib/python3.11/site-packages", "pkgs/sk-1.7-py311/lib/python3.11/site-packages", "src/old/site-packages",
    "envs/other/lib/python3.11/site-packages", "share/venv/lib/python3.11/site-packages",
    "local/lib/python3.11/dist-packages", "envs/other/lib/R/library", "envs/other/share/R",
)  # fmt: skip


def test_packages_are_found_wherever_a_program_sees_them(tmp_path: Path) -> None:
    for home in HOMES:
        (tmp_path / home / "sk/data").mkdir(parents=True)
        (tmp_path / home / "sk/data/iris.csv").write_text("x")
    for name in ("pkgs/sk-1.7-py311.conda", "pkgs/sk.tar.bz2", "wheels/sk-1.7-py3-none-any.whl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "pkgs/urls.txt").write_text("x")
    masked = known_data((str(tmp_path),))
    left = [path for path in tmp_path.rglob("*") if path.is_file() and not _is_masked(path, masked)]
    assert left == [tmp_path / "pkgs/urls.txt"]


def _is_masked(path: Path, masked: tuple[str, ...]) -> bool:
    return any(path.is_relative_to(each) for each in masked)


def test_where_folders_are_too_many_to_be_looked_at_no_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FOLDERS_MAX", 2)
    (tmp_path / "a/b").mkdir(parents=True)
    with pytest.raises(PipelineError, match="too many to look for data sets in"):
        known_data((str(tmp_path),))


def test_what_is_allowed_around_the_data_holds_none_of_them(tmp_path: Path) -> None:
    home = packages(tmp_path)
    (tmp_path / "alias").symlink_to(home, target_is_directory=True)  # which would lead around
    masked = known_data((str(tmp_path),))
    allowed, listed = around(str(tmp_path), masked)
    for path in map(Path, masked):
        assert not any(path.is_relative_to(each) or Path(each).is_relative_to(path) for each in allowed)
        assert all(str(above) in listed for above in path.parents if above.is_relative_to(tmp_path))
    for name in FILES:
        reached = any((home / name).is_relative_to(each) for each in allowed)
        assert reached == (not any((home / name).is_relative_to(each) for each in masked)), name
    assert not any(Path(each).is_symlink() for each in allowed)
    assert around(str(tmp_path / "untouched"), masked) == ([str(tmp_path / "untouched")], [])


def test_the_data_sets_that_runs_are_judged_by_are_among_them() -> None:
    folder = Path(sklearn.datasets.__file__).parent
    home = str(folder.parents[4])
    found = known_data((home,))
    assert {str(folder / name) for name in ("data", "descr", "images")} <= {*found}
    assert str(folder) not in found
