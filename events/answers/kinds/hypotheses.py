"""Hypotheses as the HTTP interface shows them: what was proposed, its ideas, its runs."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from events.answers.answer import Answer, Moment
from events.answers.attempts import CurrentStage, Failure
from events.answers.runs import RunRow, Usage


class Ideation(Answer, frozen=True, kw_only=True):
    """The search for ideas: the request that stands in the queue, its limits, and how it stands."""

    request_id: str
    reflections: int
    max_num_generations: int
    status: str
    error: Failure | None
    current_stage: CurrentStage | None
    not_before: Moment | None
    is_over: bool


class HypothesisHead(Answer, frozen=True, kw_only=True):
    """What was proposed; `idea_json` holds the fields of an idea that is more than text."""

    id: str
    title: str
    idea: str
    idea_json: dict[str, Any] | None
    ideation: Ideation | None
    additional_context: str
    created_by: str
    created_at: Moment


class HypothesisRow(HypothesisHead, frozen=True, kw_only=True):
    """A hypothesis as lists show it; `idea_index` is the number of the idea that a person took."""

    idea_index: int | UnsetType | None = UNSET
    idea_count: int


class Hypothesis(HypothesisHead, frozen=True, kw_only=True):
    """A hypothesis with its ideas and newest runs; `idea_index` is the number of the chosen idea.

    `idea_json` is then that idea. `usage` is what its newest runs and its ideation spent; `more_runs` is the
    `after` of its other runs, null where there are none.
    """

    ideas: list[dict[str, Any]]
    unfinished_ideas: list[dict[str, Any]]
    idea_index: int | None
    usage: Usage
    runs: list[RunRow]
    more_runs: str | None


class ProposedHypothesis(Hypothesis, frozen=True, kw_only=True):
    """A hypothesis that was just proposed, with what was queued for it: a search for ideas, or a run."""

    ideation_request_id: str | UnsetType = msgspec.field(name="ideation_request_id", default=UNSET)
    run_id: str | UnsetType = msgspec.field(name="run_id", default=UNSET)
