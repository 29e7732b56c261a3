"""The name of a group that nobody named."""

from __future__ import annotations

import re

from podfleet.commands.groups.group_name import group_name


def test_a_name_is_new_each_time_and_the_same_for_one_key() -> None:
    names = [
        group_name("A kind_2"),
        group_name("A kind_2"),
        group_name("A kind_2", "a"),
        group_name("A kind_2", "b"),
    ]
    assert len(set(names)) == 4
    assert all(re.fullmatch("a-kind-2-[0-9a-z]{8}", each) for each in names)
    assert group_name("A kind_2", "a") == names[2]
