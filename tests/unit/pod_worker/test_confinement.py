"""What a worker that is not root hides from its pipelines, and what it shows them."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from pod_worker.isolation.confinement import OUTBOX_LOCK, SOURCE, SYSTEM, Confinement
from pod_worker.isolation.process_space import ProcessSpace
from pod_worker.isolation.task_limit import tasks_max


def made(home: Path, environ: dict[str, str] | None = None) -> Confinement:
    return Confinement.of_same_user("namespace", home / "data", environ or {}, [home / ".env"])


def test_what_is_not_the_machines_own_is_hidden(tmp_path: Path) -> None:
    hidden = made(tmp_path).hidden
    here = os.path.realpath(tmp_path)
    assert {f"{here}/data", f"{here}/.env", "/tmp", "/dev/shm", "/run/user"} <= {*hidden}
    others = {each.path for each in os.scandir("/") if each.is_dir() and not each.is_symlink()}
    assert others - {*hidden} <= {f"/{name}" for name in SYSTEM}
    assert "/usr" not in hidden


@pytest.mark.parametrize(("home", "is_hidden"), [("/opt/me", True), ("/usr/sbin", False), ("/", False)])
def test_a_home_in_a_folder_of_the_system_hides_no_programs(
    home: str, is_hidden: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", home)
    assert (home in made(tmp_path).hidden) == is_hidden


def test_the_folder_that_python_was_started_in_is_shown_only_where_somebody_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert str(tmp_path) not in made(tmp_path).places
    assert str(tmp_path) in made(tmp_path, {"PYTHONPATH": str(tmp_path)}).places
    assert SOURCE in made(tmp_path).places


def test_it_is_the_same_on_a_command_line(tmp_path: Path) -> None:
    confinement = made(tmp_path)
    (word,) = confinement.words
    assert Confinement.read(word.removeprefix("--confinement=")) == confinement


def test_a_second_worker_in_a_folder_takes_nothing_from_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pod_worker.isolation.confinement.TRIAL", ("false",))
    confinement = made(tmp_path)
    confinement.work.mkdir(parents=True)
    left = confinement.make_space()
    with (confinement.work.parent / OUTBOX_LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert confinement.find_gap({})
        assert left.home.is_dir()
    assert confinement.find_gap({}) == "the trial was killed"
    assert not left.home.exists(), "whoever had it has ended"
    assert left.work is not None
    assert not left.work.exists()


@pytest.mark.parametrize(
    ("texts", "most"),
    [(["40000\n", "90000\n", "max\n"], 20_000), (["32768", "3000"], 1_500), (["512"], 1_024)],
)
def test_a_run_leaves_half_of_a_machines_tasks_to_others(tmp_path: Path, texts: list[str], most: int) -> None:
    for number, text in enumerate(texts):
        (tmp_path / str(number)).write_text(text)
    assert tasks_max(str(tmp_path / str(number)) for number in range(5)) == most


def test_a_folder_is_given_away_after_what_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who owns a folder that root still walks through may put a link to anything in it."""
    given: list[str] = []
    monkeypatch.setattr(os, "chown", lambda path, *_, **__: given.append(os.path.relpath(path, tmp_path)))
    (tmp_path / "restored" / "Stage_1").mkdir(parents=True)
    (tmp_path / "restored" / "Stage_1" / "manifest.json").touch()
    ProcessSpace(50_000, tmp_path / "home", tmp_path / "temporary").own(tmp_path)
    assert given == ["restored/Stage_1/manifest.json", "restored/Stage_1", "restored", "."]
