"""Decides which failure of a request is retried, and after how long, pure.

Law: a server's retry time is kept, or the request is given up; it is never sent earlier. Every sum of tries
and waits is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from events.runtime.backoff import back_off_s
from stages.models.model import Trouble

TOTAL_MAX_S: Final = 900.0  # of one question, every try and every wait
REQUEST_MAX_S: Final = 300.0  # of one try
RETRY_AFTER_MAX_S: Final = 300.0  # whoever wants us to wait longer is not waited for
BACK_OFF_FIRST_S: Final = 1.0
BACK_OFF_MAX_S: Final = 30.0
CROWD_MAX_S: Final = 1.0  # added to a wait that the server named: others were told the same

# Trying what is missing here again gives the same answer, or costs the same money for nothing.
TRIES_MAX: Final[Mapping[Trouble, int]] = {
    "unreachable": 4,
    "timed_out": 2,
    "rate_limited": 8,
    "malformed": 2,
}
QUOTA_WORDS: Final = (
    "insufficient_quota",
    "billing_hard_limit",
    "credit balance",
    "exceeded your current quota",
)
EPOCH_S_MIN: Final = 1_000_000_000  # a greater number is a moment, not a duration
EPOCH_MS_MIN: Final = 1_000_000_000_000
DURATION: Final = re.compile(
    r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s)?(?:(\d+(?:\.\d+)?)ms)?"
)


@dataclass(frozen=True, slots=True)
class Wait:
    """Try again after so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Do not try again, and why."""

    reason: str


def decide(
    trouble: Trouble,
    tries: int,
    *,
    retry_after_s: float | None,
    elapsed_s: float,
    jitter: float,
    total_max_s: float = TOTAL_MAX_S,
) -> Wait | GiveUp:
    """Decide after the failure of try number `tries`; `jitter` is chance in [0, 1)."""
    allowed = TRIES_MAX.get(trouble, 1)
    if tries >= allowed:
        return GiveUp(f"{tries} tries" if tries > 1 else "trying again would not help")
    if retry_after_s is None:
        seconds = back_off_s(tries, first_s=BACK_OFF_FIRST_S, max_s=BACK_OFF_MAX_S, share=jitter)
    elif retry_after_s > RETRY_AFTER_MAX_S:
        return GiveUp(
            f"the server asks to wait {retry_after_s:.0f} s, and {RETRY_AFTER_MAX_S:.0f} s is the limit"
        )
    else:
        seconds = retry_after_s + jitter * CROWD_MAX_S
    if elapsed_s + seconds >= total_max_s:
        return GiveUp(f"{tries} tries in {elapsed_s:.0f} s, and {total_max_s:.0f} s is the limit")
    return Wait(seconds)


def trouble_of(status: int, words: str) -> Trouble:
    """Return what an HTTP status other than 2xx means; `words` are the server's own, for the quota."""
    lower = words.lower()
    if status == 402 or (status in (400, 403, 429) and any(each in lower for each in QUOTA_WORDS)):
        return "quota"
    match status:
        case 401 | 403:
            return "unauthorised"
        case 408:
            return "timed_out"
        case 429 | 503 | 529:
            return "rate_limited"
        case _:
            return "unreachable" if status >= 500 else "refused"


def retry_after_of(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the seconds after which the server accepts a retry; None where it does not name them.

    `headers` are found by their lower-case names. A limit that is not used up is ignored. A moment is by the
    server's clock, which the answer tells (`Date`); `now` is ours, where it does not.
    """
    if (told := _date_of(headers)) is not None:
        now = told
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    if (retry_at := _moment(headers.get("retry-after"), now)) is not None:
        return retry_at
    resets = [
        seconds
        for name, value in headers.items()
        if "ratelimit" in name.lower() and "reset" in name.lower() and _is_used_up(headers, name)
        if (seconds := _moment(value, now)) is not None
    ]
    # A window's end is a hint and no demand: one that is far away must not end the tries.
    return min(max(resets), BACK_OFF_MAX_S) if resets else None


def _is_used_up(headers: Mapping[str, str], reset: str) -> bool:
    left = headers.get(reset.lower().replace("reset", "remaining"))
    return left is None or _number(left) == 0


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def _moment(text: str | None, now: datetime) -> float | None:
    """Read seconds, a duration (`1m30s`, `20ms`), an epoch, an HTTP date or RFC 3339: seconds from now."""
    if not text:
        return None
    number = _number(text)
    if number is not None:
        if number >= EPOCH_MS_MIN:
            return max(0.0, number / 1000 - now.timestamp())
        return max(0.0, number - now.timestamp()) if number >= EPOCH_S_MIN else number
    if (found := DURATION.fullmatch(text.strip())) and found.group():
        hours, minutes, seconds, milliseconds = (float(each or 0) for each in found.groups())
        return hours * 3600 + minutes * 60 + seconds + milliseconds / 1000
    return _date(text.strip(), now)


def _date(text: str, now: datetime) -> float | None:
    moment = _read(text)
    return None if moment is None else max(0.0, (moment - now).total_seconds())


def _date_of(headers: Mapping[str, str]) -> datetime | None:
    return _read(headers.get("date") or "")


def _read(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text) if text[:1].isdigit() else parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
