"""What of the starts of workers is shown: who lives, and of each place where nobody does the last start."""

from __future__ import annotations

from control_plane.model.views.ended_pods import Ended, Start, folded


def test_of_a_place_where_nobody_lives_the_last_start_is_shown_with_their_number() -> None:
    starts = [
        Start("a/9", is_live=False),
        Start("a/8", is_live=True),
        Start("b/7/0", is_live=False),
        Start("b/7/1", is_live=False),
        Start("b/6/0", is_live=False),
        Start("c", is_live=False),
        Start("a/1", is_live=False),
    ]
    assert folded(starts) == [Ended("b/7/0", 2), Ended("b/7/1", 1), Ended("c", 1)]
    assert folded([]) == []
