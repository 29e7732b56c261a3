"""The result sets of an experiment, and its headline numbers, pure."""

from __future__ import annotations

from typing import Final

from events.kinds.results import Column, ResultSet

NODES: Final = ResultSet(
    "nodes",
    "Nodes of the search",
    (
        Column("metric", format=".4g"),
        Column("seconds", unit="s", direction="lower", format=".1f"),
        Column("stage", type="text"),
        Column("arm", type="text"),
        Column("buggy", type="bool"),
        Column("metric_name", type="text"),
        Column("parent", type="text"),
        Column("error", type="text"),
        Column("plan", type="text"),
    ),
)
FINALISTS: Final = ResultSet(
    "finalists",
    "Finalists, run again",
    (
        Column("mean", format=".4g"),
        Column("standard_error", direction="lower", format=".2g"),
        Column("seeds", format="d"),
        Column("stage", type="text"),
        Column("node", type="text"),
    ),
)
SEEDS: Final = ResultSet(
    "seeds",
    "Fresh seeds that judge",
    (
        Column("difference", format="+.4g"),
        Column("baseline", format=".4g"),
        Column("intervention", format=".4g"),
        Column("measure", type="text"),
        Column("seed", format="d"),
        Column("baseline_failed", type="bool"),
        Column("intervention_failed", type="bool"),
    ),
)
VERDICTS: Final = ResultSet(
    "verdicts",
    "Verdict on each effect",
    (
        Column("effect", format="+.4g"),
        Column("low", format="+.4g"),
        Column("high", format="+.4g"),
        Column("p_value", direction="lower", format=".2g"),
        Column("units", format="d"),
        Column("measure", type="text"),
        Column("claimed", type="text"),
        Column("direction", type="text"),
        Column("reason", type="text"),
    ),
)
HEADLINE: Final = (
    Column("effect", format="+.4g"),
    Column("effect_low", format="+.4g"),
    Column("effect_high", format="+.4g"),
    Column("p_value", direction="lower", format=".2g"),
    Column("units", format="d"),
    Column("nodes", format="d"),
    Column("conclusion", type="text"),
)

RESULT_SETS: Final = (NODES, FINALISTS, SEEDS, VERDICTS)
