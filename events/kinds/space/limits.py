"""The content of the declared space, and the refusal of a claim outside of it: with what there is; pure."""

from __future__ import annotations

from typing import Final

from events.runtime.errors import PipelineError
from events.kinds.space.data_sets import SHIPPED
from events.kinds.space.interventions import INTERVENTIONS
from events.kinds.space.metrics import METRICS

BEYOND: Final = (
    "Ideas outside this space need a researcher that writes its own code with a language model: "
    "a pod has one where OPENAI_API_KEY, OPENAI_BASE_URL or ANTHROPIC_API_KEY is set."
)


def known_space() -> str:
    """Return the interventions, metrics and data sets that can be tried, as text."""
    return (
        f"Known interventions: {', '.join(each.title for each in INTERVENTIONS.values())}. "
        f"Known metrics: {', '.join(each.title for each in METRICS.values())}. "
        f"Known data sets: {', '.join(sorted(SHIPPED))}, and files that `dataset` names (CSV, NPZ, Parquet)."
    )


def beyond(reason: str) -> PipelineError:
    """Return the refusal of what is not known here; it lists what is, and what lifts the limit."""
    return PipelineError("CONFIG", f"{reason} {known_space()} {BEYOND}")
