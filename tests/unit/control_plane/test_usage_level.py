"""When a quota or a disk is told of: once for each time that it fills."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import pytest

from control_plane.upkeep.notifications.notification import of_level
from control_plane.upkeep.notifications.usage_level import (
    CROSSINGS_MAX,
    DISKS_MAX,
    Use,
    changes,
    fullest,
    level_after,
    of_pod,
    of_project,
)
from control_plane.upkeep.notifications.wording import subject_of

NOW = dt.datetime(2026, 11, 28, tzinfo=dt.UTC)


def test_a_level_is_told_again_only_after_the_use_fell() -> None:
    level, told = 0, []
    for share in (0.5, 0.79, 0.8, 0.81, 0.79, 0.82, 0.76, 1.0, 1.2, 0.8, 0.75, 1.0, 0.74, 0.8, 0.1, 3.0):
        before, level = level, level_after(level, share)
        if level > before:
            told.append((share, level))
    assert told == [(0.8, 80), (1.0, 100), (0.8, 80), (3.0, 100)]


def use(share: float) -> Use:
    return Use(subject="project/p", measure="usd", used=share * 50, most=50.0)


def test_crossings_are_kept_with_a_number_each_and_no_more_than_a_few() -> None:
    stored: dict[str, dict[str, Any]] = {}
    for index in range(3 * CROSSINGS_MAX):
        at = NOW + dt.timedelta(minutes=index)
        ((revision, document),) = changes(stored, [use(0.9 if index % 2 == 0 else 0.2)], at)
        assert revision == index
        assert changes({document["_id"]: document}, [use(0.9 if index % 2 == 0 else 0.2)], at) == []
        stored = {document["_id"]: document}
    kept = stored["project/p/usd"]["crossings"]
    assert [each["n"] for each in kept] == list(range(11, 31, 2))
    assert {each["level"] for each in kept} == {80}
    assert changes({}, [use(0.2)], NOW) == []


def test_a_project_without_a_quota_has_no_level_and_one_of_nothing_is_used_up_by_anything() -> None:
    told = {"gpuS": 7200.0, "usd": 3.0}
    assert [each.share for each in of_project({"_id": "p", "quotas": {}}, told)] == [0.0, 0.0]
    both = of_project({"_id": "p", "quotas": {"gpuHours": 4, "usd": 0}}, told)
    assert [(each.id, each.share) for each in both] == [
        ("project/p/gpuHours", 0.5),
        ("project/p/usd", math.inf),
    ]
    assert [each.share for each in of_project({"_id": "p", "quotas": {"usd": 0}}, {})] == [0.0, 0.0]


DISK = {"path": "/data", "totalMib": 100.0, "freeMib": 10.0}


@pytest.mark.parametrize(
    "disks",
    [
        None, "disk", 7, [7], [{}], [{**DISK, "path": 5}], [{**DISK, "totalMib": 0}],
        [{**DISK, "freeMib": -1}],
        [{**DISK, "freeMib": 101}], [{**DISK, "freeMib": math.nan}], [{**DISK, "totalMib": True}],
        [{**DISK, "totalMib": math.inf}], [{**DISK, "freeMib": "9"}],
    ],
)  # fmt: skip
def test_what_a_pod_says_that_is_no_disk_has_no_level(disks: Any) -> None:
    assert of_pod({"_id": "p/1", "capabilities": {"disks": disks}}) == []
    assert of_pod({"_id": "p/1", "capabilities": disks}) == []


def test_the_slots_of_a_pod_share_its_disk_and_many_disks_are_cut_off() -> None:
    emptier = {**DISK, "freeMib": 90.0}
    slots = [
        {"_id": f"p/1/{slot}", "capabilities": {"disks": [each]}} for slot, each in enumerate([DISK, emptier])
    ]
    assert [(each.id, each.share) for each in fullest(use for pod in slots for use in of_pod(pod))] == [
        ("pod/p/disk//data", 0.9)
    ]
    many = [{**DISK, "path": f"{number}" * 900} for number in range(50)]
    found = of_pod({"_id": "p", "capabilities": {"disks": many}})
    assert len(found) == DISKS_MAX
    assert all(len(each.id) < 300 for each in found)


def test_a_crossing_is_told_in_words() -> None:
    ((_, project),) = changes({}, [use(0.85)], NOW)
    disk = of_pod({"_id": "p/1", "capabilities": {"disks": [DISK]}})
    ((_, pod),) = changes({}, disk, NOW)
    told = [of_level(each, "https://f")[0] for each in (project, pod)]
    assert [each.type for each in told] == ["project.quota_neared", "pod.disk_filling"]
    assert [subject_of(each.body()) for each in told] == [
        "Project p has used 85% of its USD of this month",
        "Pod p: 90% of the disk /data is in use",
    ]
    assert (told[0].project, told[1].project) == ("p", None)
    late = {**project, "updatedAt": NOW + dt.timedelta(days=30)}
    assert of_level(late, "") == []
