"""What has to be true of the rows of results that runs recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from testing.chaos.checking.evidence import Evidence, Violation

ROWS: Final = "the rows of an attempt are those that its run declares, each once"
KEY: Final = "row-{:06d}"


def rows(evidence: Evidence) -> Iterator[Violation]:
    """No attempt has a row twice or one of nobody; one that completed has them all."""
    held: dict[tuple[str, int], Counter[str]] = {}
    for row in evidence.rows:
        held.setdefault((row["runId"], row["attempt"]), Counter())[row["key"]] += 1
    for run_id, run in evidence.runs.items():
        declared = {KEY.format(number) for number in range(evidence.specs.get(run_id, {}).get("results", 0))}
        for attempt in range(1, run["attempt"] + 1):
            found = held.pop((run_id, attempt), Counter[str]())
            if twice := sorted(key for key, count in found.items() if count > 1):
                yield Violation(ROWS, run_id, f"attempt {attempt} has {twice[:3]} several times")
            if strange := sorted(set(found) - declared):
                yield Violation(ROWS, run_id, f"attempt {attempt} has {strange[:3]}, which nobody declared")
            is_whole = run["status"] == "COMPLETED" and attempt == run["attempt"]
            is_cut_short = run["logIncomplete"] is not None or (run_id, attempt) in evidence.lost_terms
            if is_whole and not is_cut_short and (lost := sorted(declared - set(found))):
                yield Violation(
                    ROWS, run_id, f"attempt {attempt} completed without {lost[:3]} of {len(declared)}"
                )
    for (run_id, attempt), found in held.items():
        yield Violation(ROWS, run_id, f"{found.total()} rows are of attempt {attempt}, which there is not")
