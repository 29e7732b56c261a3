"""What `podfleet rebuild` ends with, and how an interrupted one goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from typer.testing import CliRunner

from events.runtime.errors import Transient
from podfleet.commands.maintenance import rebuild
from podfleet.connection import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_UNREACHABLE, EXIT_WRONG_USE


def ended(
    monkeypatch: pytest.MonkeyPatch,
    *arguments: str,
    counts: Mapping[str, int] = {},
    error: BaseException | None = None,
) -> tuple[int, str]:
    """Return the exit status and the words of a rebuild that counted this, and that raised at last."""

    async def made(wish: Any, progress: rebuild.Progress) -> None:
        progress.counts.update(counts)
        progress.latest = "R7"
        if error is not None:
            raise error

    monkeypatch.setattr(rebuild, "_rebuild", made)
    found = CliRunner().invoke(rebuild.app, [*arguments])
    return found.exit_code, " ".join(found.output.split())


@pytest.mark.parametrize(
    ("arguments", "counts", "status"),
    [
        ([], {}, 0),
        ([], {"rebuilt": 2}, 0),
        ([], {"left": 1}, EXIT_FAILED),
        (["--dry-run"], {}, 0),
        (["--dry-run"], {"rebuilt": 1}, EXIT_FAILED),
        (["--dry-run"], {"left": 1}, EXIT_FAILED),
    ],
)
def test_the_exit_status_says_whether_all_is_as_the_logs_tell(
    arguments: list[str], counts: dict[str, int], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ended(monkeypatch, *arguments, counts=counts)[0] == status


@pytest.mark.parametrize("more", [["--kind", "probe"], ["--after", "R1"]])
def test_one_run_is_named_or_several_are_chosen(more: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    status, words = ended(monkeypatch, "R", *more)
    assert (status, "not both" in words) == (EXIT_WRONG_USE, True)


@pytest.mark.parametrize(
    ("error", "status"),
    [(Transient("store", "it is away"), EXIT_UNREACHABLE), (KeyboardInterrupt(), EXIT_INTERRUPTED)],
)
@pytest.mark.parametrize(
    ("arguments", "again"),
    [
        ([], "podfleet rebuild --after R7"),
        (["R"], "podfleet rebuild R"),
        (["--kind", "probe", "--dry-run"], "podfleet rebuild --kind probe --after R7 --dry-run"),
        (["--json"], "podfleet rebuild --after R7 --json"),
    ],
)
def test_what_was_cut_off_says_how_it_goes_on(
    error: BaseException, status: int, arguments: list[str], again: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, words = ended(monkeypatch, *arguments, error=error)
    assert found == status
    assert words.endswith(f"to go on: {again}")
