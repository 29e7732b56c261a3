"""What `podfleet doctor` says of the settings of a worker."""

from __future__ import annotations

import pytest

from podfleet.commands.maintenance.doctor import isolation


@pytest.mark.parametrize(
    ("value", "state", "says"),
    [
        (None, "ok", "strict"),
        ("strict", "ok", "strict"),
        ("filter", "note", "filter, a step down from strict"),
        ("best", "note", "best, a step down from strict"),
        ("Strict", "failed", "PODFLEET_ISOLATION is 'Strict'"),
    ],
)
def test_the_isolation_of_workers_is_told(value: str | None, state: str, says: str) -> None:
    (found,) = isolation({} if value is None else {"PODFLEET_ISOLATION": value})
    assert (found.state, found.says.partition(";")[0]) == (state, says)
