"""What keeps a pod from claiming: by its name, and for a quarantine also by its key."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from events.queue.rules import FLEET, Rules, cordon_at, pod_name, quarantine_of
from events.testing import EPOCH

SOON = EPOCH + timedelta(seconds=1)
CORDON = {"reason": "it burns", "by": "vera", "since": EPOCH, "until": None}


def quarantined(pod: str, key_id: str | None = "k", trial_at: datetime | None = None) -> dict[str, Any]:
    told = {"reason": "3 failures of its own", "since": EPOCH, "tryAt": SOON, "evidence": []}
    return {"pod": pod, "keyId": key_id, "trialAt": trial_at, "spellS": 60.0, **told}


def stored(*pods: dict[str, Any]) -> dict[str, Any]:
    return {"_id": FLEET, "revision": 1, "pods": list(pods)}


@pytest.mark.parametrize(("until", "holds"), [(None, True), (SOON, True), (EPOCH, False)])
def test_a_cordon_holds_until_its_end(until: datetime | None, holds: bool) -> None:
    found = cordon_at({"_id": "p", **CORDON, "until": until}, EPOCH)
    assert found == ({**CORDON, "until": until} if holds else None)
    assert cordon_at(None, EPOCH) is None


def test_a_quarantine_holds_the_pod_with_its_own_key_while_it_is_not_on_trial() -> None:
    known = stored(quarantined("a"), quarantined("b", trial_at=EPOCH), quarantined("c", None))
    assert [quarantine_of(known, *pod) is not None for pod in (("a", "k"), ("a", "other"), ("a", None))] == [
        *(True, False, False)
    ]
    assert quarantine_of(known, "b", "k") is None
    assert quarantine_of(known, "c", None) is not None
    assert quarantine_of(None, "a", "k") is None


def test_a_pod_that_is_started_again_is_barred_as_before_and_others_are_not() -> None:
    rules = Rules({"burns": CORDON}, stored(quarantined("fails"), quarantined("tried", trial_at=EPOCH)))
    barred = [
        each for each in ("burns/1", "burns/2", "fails/9", "tried/1", "sound/1") if rules.bar(each, "k")
    ]
    assert barred == ["burns/1", "burns/2", "fails/9"]
    assert not rules.bar("fails/9", "stolen"), "with another key it is another pod"
    assert rules.held_back() == {"cordon": ["burns"], "quarantine": ["fails"]}
    assert rules.orders("burns/1", "k", {"orders": {"drain": True}}) == {
        "drain": True, "restart": False, "cordon": CORDON, "quarantine": None,
    }  # fmt: skip


def test_a_name_is_what_stands_before_the_mark_of_a_start() -> None:
    assert [pod_name(each) for each in ("p", "p/1", "p/1/2")] == ["p", "p", "p"]
