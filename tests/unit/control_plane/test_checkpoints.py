"""Which stages a run has finished, as far as another one can begin behind them."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from control_plane.model.checkpoints import candidates, finished
from events.files.checkpoints import emptied, file_artifact, manifest_artifact
from events.kinds import stages_before, stages_of

KIND = "experiment"


def artifact(name: str, attempt: int = 1, content: bytes = b"") -> dict[str, Any]:
    key, digest = f"runs/r/a{attempt}/0/{name}", hashlib.sha256(content).hexdigest()
    return {"runId": "r", "attempt": attempt, "name": name, "key": key, "sha256": digest}


def set_aside(name: str, attempt: int) -> dict[str, Any]:
    return artifact(manifest_artifact(name), attempt, emptied(name, "r", attempt))


def stage(name: str, status: str, attempt: int = 1) -> dict[str, Any]:
    return {"name": name, "status": status, "attempt": attempt}


def kept(*names: str) -> list[Any]:
    return candidates([artifact(manifest_artifact(name)) for name in names])


def test_a_checkpoint_is_a_manifest_with_the_files_of_its_attempt() -> None:
    found = candidates(
        [
            artifact(manifest_artifact("Stage_1"), 1),
            artifact(manifest_artifact("Stage_1"), 2),
            artifact(file_artifact("Stage_1", 1, "weights"), 2),
            artifact(file_artifact("Stage_2", 1, "weights"), 2),
        ]
    )
    assert [(each.run_id, each.name, each.attempt, len(each.files)) for each in found] == [
        ("r", "Stage_1", 2, 1),
        ("r", "Stage_1", 1, 0),
    ]


def test_what_was_stored_with_a_name_or_a_key_that_leads_away_belongs_to_no_checkpoint() -> None:
    good = artifact(manifest_artifact("Stage_1"))
    names = ("checkpoints/../manifest.json", "checkpoints//manifest.json", "checkpoints/a b/manifest.json")
    keys = ("runs/r/a1/../../victim/a1/x", "runs/other/a1/x", "")
    bad = [artifact(name) for name in (*names, "checkpoints/", "checkpoints/manifest.json")]
    bad += [{**artifact(manifest_artifact("Stage_2")), "key": key} for key in keys]
    bad += [{**artifact(file_artifact("Stage_1", 1, "f")), "key": keys[0]}]
    (found,) = candidates([*bad, good])
    assert (found.name, found.manifest, list(found.files)) == ("Stage_1", good, [])


@pytest.mark.parametrize(
    ("documents", "names", "expected"),
    [
        ([], ["Stage_1"], set()),
        ([stage("Stage_1", "RUNNING")], ["Stage_1"], set()),
        ([stage("Stage_1", "COMPLETED")], [], set()),
        ([stage("Stage_1", "COMPLETED")], ["Stage_1", "spending"], {"Stage_1"}),
        # Its end was not told before the pod was lost, but somebody went on behind it.
        ([stage("Stage_1", "RUNNING"), stage("Stage_2", "RUNNING")], ["Stage_1", "Stage_2"], {"Stage_1"}),
        ([stage("spending", "COMPLETED")], ["spending"], set()),
    ],
)
def test_a_stage_is_finished_where_it_is_over_and_left_a_checkpoint(
    documents: list[dict[str, Any]], names: list[str], expected: set[str]
) -> None:
    assert finished(KIND, documents, kept(*names)) == expected


def test_what_was_set_aside_is_finished_only_where_a_later_attempt_finished_it() -> None:
    left = [artifact(manifest_artifact(name)) for name in ("Stage_1", "Stage_2")]
    said = [stage("Stage_1", "COMPLETED"), stage("Stage_2", "RUNNING"), stage("Stage_3", "RUNNING")]
    assert finished(KIND, said, candidates(left)) == {"Stage_1", "Stage_2"}
    left += [set_aside("Stage_1", 2), set_aside("Stage_2", 2)]
    assert finished(KIND, said, candidates(left)) == set()
    left += [artifact(manifest_artifact(name), 3) for name in ("Stage_1", "Stage_2")]
    said += [stage("Stage_1", "COMPLETED", 3), stage("Stage_2", "RUNNING", 3)]
    assert finished(KIND, said, candidates(left)) == {"Stage_1"}


def test_only_the_manifest_without_state_and_files_of_that_very_attempt_sets_aside() -> None:
    (aside,) = candidates([set_aside("Stage_1", 2)])
    (other,) = candidates([artifact(manifest_artifact("Stage_1"), 3, emptied("Stage_1", "r", 2))])
    assert (aside.is_emptied, other.is_emptied) == (True, False)


def test_a_kind_without_stages_finishes_none() -> None:
    assert finished("probe", [stage("probe", "COMPLETED")], kept("probe")) == set()


def test_the_stages_before_the_first_are_none() -> None:
    first, second, *_ = stages_of(KIND)
    assert stages_before(KIND, first) == ()
    assert stages_before(KIND, second) == (first,)
