"""The register of verdicts on data sets as the HTTP interface shows it."""

from __future__ import annotations

from events.answers.answer import Answer, Moment


class DataUse(Answer, frozen=True, kw_only=True):
    """A verdict for which rows of a data set were used, by the word of one attempt.

    `data` is the name of a shipped data set or the digest of a table, `part` which of its rows judged.
    `earlier` verdicts on them were known when the attempt began, null where that is not known. `p_beside` is
    what `p_value` is worth beside those. Entries with equal `measurement` are one measurement.
    """

    id: str
    run_id: str
    attempt: int
    data: str
    name: str
    part: str
    rows: int
    conclusion: str
    earlier: int | None
    p_value: float | None
    p_beside: float | None
    measurement: str
    says: str
    judged_at: Moment | None
