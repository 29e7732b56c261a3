"""Which workers a name on the command line means."""

from __future__ import annotations

import pytest

from control_plane.model.views.document_mapping import from_document
from events.answers.pods import Pod
from podfleet.commands.pods.pods import Unknown, folded, meant


def pod(identity: str, state: str = "idle") -> Pod:
    return from_document(Pod, {"_id": identity, "pod": identity.rpartition("/")[0], "state": state})


FLEET = [
    pod("gpu-1/3f2a", "busy"),
    pod("gpu-1/9c11"),
    pod("gpu-1/0old", "stopped"),
    pod("gpu-10/77aa"),
    pod("cpu-1/5d5d", "stopped"),
    pod("cpu-2/1111", "gone"),
]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gpu-1/3f2a", ["gpu-1/3f2a"]),
        ("gpu-1/0old", ["gpu-1/0old"]),
        ("gpu-1", ["gpu-1/3f2a", "gpu-1/9c11"]),  # the pod, not the beginning of others
        ("gpu-1/9", ["gpu-1/9c11"]),
        ("gpu-10", ["gpu-10/77aa"]),
        ("gpu-10/", ["gpu-10/77aa"]),
        ("cpu-1", []),
        ("cpu-1/", ["cpu-1/5d5d"]),
        ("cpu-2", []),
    ],
)
def test_a_name_means_a_worker_or_every_live_one_of_a_pod(name: str, expected: list[str]) -> None:
    assert [each.id for each in meant(FLEET, name)] == expected


@pytest.mark.parametrize("name", ["gpu", "gpu-1/", ""])
def test_a_name_that_means_several_lists_them(name: str) -> None:
    with pytest.raises(Unknown, match="gpu-1/3f2a"):
        meant(FLEET, name)


def test_a_name_that_nobody_has_lists_who_is_there() -> None:
    with pytest.raises(Unknown, match=r"no pod 'tpu'; live workers: gpu-1/3f2a, gpu-1/9c11, gpu-10/77aa$"):
        meant(FLEET, "tpu")
    with pytest.raises(Unknown, match=r"live workers: none$"):
        meant([], "tpu")
    with pytest.raises(Unknown, match=r"and 5 more$"):
        meant([pod(f"p/{number:03}") for number in range(25)], "x")


def test_the_living_come_first_and_of_the_dead_the_newest_of_each_place() -> None:
    started = [
        pod("a/3", "gone"), pod("b/9/0", "stopped"), pod("b/9/1"), pod("a/2", "stopped"), pod("c/1"),
        pod("c/0", "gone"), pod("b/8/0", "gone"), pod("b/8/1", "gone"), pod("alone", "gone"),
    ]  # fmt: skip
    assert [each.id for each in folded(started)] == ["b/9/1", "c/1", "a/3", "b/9/0", "alone"]
