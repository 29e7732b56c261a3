"""What a validation rests on, as tables that people can read."""

from __future__ import annotations

from typing import Any

import pytest

from control_plane.server.web.validation_tables import COLUMNS_MAX, ROWS_MAX, Row, verdict


def test_reviews_stand_beside_each_other_and_their_meta_review_behind_them() -> None:
    scores = {
        "decided_by": "review", "accuracy": 0.5, "more": [1],
        "reviews": [{"Overall": 5, "Summary": "x" * 100}, {"Overall": 6}],
        "meta_review": {"scores": {"Overall": 5.5}, "Decision": "accept"},
    }  # fmt: skip
    table = verdict(scores)
    assert (table.decided_by, table.measured, table.rest) == (
        "the reviews",
        [Row("accuracy", [0.5])],
        {"more": [1]},
    )
    assert table.reviewers == ["review 1", "review 2", "all together"]
    assert table.reviews[0] == Row("Overall", [5, 6, 5.5])
    assert table.texts[0] == {"Summary": "x" * 100}
    assert verdict({"meta_review": {"a": 1}}).rest == {"meta_review": {"a": 1}}


@pytest.mark.parametrize(
    "stated",
    [
        {"reviews": [{"a": 1}] * (COLUMNS_MAX + 1)},
        {"reviews": [{f"{n} {m}": 1 for m in range(10)} for n in range(20)]},
        {"reviews": [{}, 5]},
        {"reviews": {"items": []}, "meta_review": {"a": 1}},
    ],
)
def test_what_is_no_table_or_too_great_a_one_stays_as_it_was_said(stated: dict[str, Any]) -> None:
    table = verdict(stated)
    assert (table.rest, table.reviews) == (stated, [])


def test_of_many_measurements_the_first_are_a_table_and_the_others_stay() -> None:
    table = verdict({f"m{n}": n for n in range(ROWS_MAX + 50)})
    assert (len(table.measured), len(table.rest)) == (ROWS_MAX, 50)


def test_several_claims_stand_beside_each_other() -> None:
    claims = [
        {"metric": "accuracy", "conclusion": "supported"},
        {"metric": "ece", "conclusion": "contradicted"},
    ]
    table = verdict({"claims": claims})
    assert table.claimed == ["claim 1", "claim 2"]
    assert table.claims == [
        Row("metric", ["accuracy", "ece"]),
        Row("conclusion", ["supported", "contradicted"]),
    ]
    assert table.rest == {}
