"""When a schedule fires: cron text and a time zone into slots, pure.

A slot is the moment, in UTC, at which a schedule fires. As in Debian's cron, an entry for a
fixed time of day fires once on a day on which that time comes twice, and at the next moment
that exists where the time is left out; an entry whose minute or hour begins with a star
follows elapsed time.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError
from ulid import ULID

from events.runtime.errors import Rejected

Missed = Literal["skip", "one", "all"]
Overlap = Literal["allow", "skip"]
Outcome = Literal["fired", "late", "overlapping", "refused"]

CRON_CHARS_MAX: Final = 200
FIELDS: Final = 5
MISSED_MAX: Final = 100  # of the policy `all`: how many slots of one outage are fired, the latest
LATE_AFTER: Final = timedelta(seconds=60)  # of the policy `skip`: how late a slot still fires
LOOK_FIRST: Final = timedelta(hours=2)
ENTROPY_BYTES: Final = 10
NAME_CHARS_MAX: Final = 63
NAME_DIGEST_CHARS: Final = 8
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

NICKNAMES: Final[Mapping[str, str]] = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


@dataclass(frozen=True, slots=True)
class Timetable:
    """A checked cron entry of five fields, and the zone whose clocks it means."""

    entry: str
    zone: ZoneInfo

    def slots(self, after: datetime) -> Iterator[datetime]:
        """Yield every slot after `after`, each later than the one before it."""
        # From the whole minute, where every slot stands, so that a slot hangs on no second.
        start = after.astimezone(self.zone).replace(second=0, microsecond=0)
        last = after
        for local in CronSim(self.entry, start):
            slot = local.astimezone(UTC)
            # A fixed time of the hour that comes twice is found from its second pass, too.
            if slot > last:
                last = slot
                yield slot

    def next(self, after: datetime) -> datetime | None:
        """Return the first slot after `after`; None where none comes in the next fifty years."""
        return next(self.slots(after), None)

    def latest(self, after: datetime, until: datetime, limit: int) -> list[datetime]:
        """Return the last `limit` slots that lie after `after` and not after `until`, oldest first.

        Looks back in stretches that double, so that a long outage costs no walk through all of it.
        """
        stretch = LOOK_FIRST
        while True:
            start = max(after, until - stretch)
            found = self._between(start, until)
            if len(found) >= limit or start == after:
                return found[-limit:]
            stretch *= 2

    def _between(self, after: datetime, until: datetime) -> list[datetime]:
        found = []
        for slot in self.slots(after):
            if slot > until:
                break
            found.append(slot)
        return found


@dataclass(frozen=True, slots=True)
class Plan:
    """The decision about a due schedule: the slots to fire, oldest first, and the next due slot."""

    fire: tuple[datetime, ...]
    last: datetime
    next_at: datetime | None


def read_timetable(cron: str, zone: str) -> Timetable:
    """Return the timetable that the texts describe. Raises `Rejected` that says what is wrong."""
    entry = NICKNAMES.get(cron.strip().lower(), cron.strip())
    if entry.startswith("@"):
        known = ", ".join(NICKNAMES)
        raise Rejected("bad_cron", f"cron: {cron!r} is not known; known short forms: {known}")
    if len(entry) > CRON_CHARS_MAX or len(entry.split()) != FIELDS:
        wanted = "minute, hour, day of month, month, day of week"
        raise Rejected("bad_cron", f"cron: {cron[:CRON_CHARS_MAX]!r} must have five fields: {wanted}")
    try:
        table = Timetable(entry, ZoneInfo(zone))
        CronSim(entry, EPOCH)
    except CronSimError as error:
        raise Rejected("bad_cron", f"cron: {cron!r} is invalid: {error}") from error
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        message = f"time_zone: {zone!r} is no time zone; write it as in Europe/Berlin, or UTC"
        raise Rejected("unknown_zone", message) from error
    return table


def first_slot(table: Timetable, now: datetime) -> datetime:
    """Return when a schedule that begins now fires first. Raises `Rejected` where it never would."""
    slot = table.next(now)
    if slot is None:
        raise Rejected("never_fires", f"cron: {table.entry!r} names no day of the next fifty years")
    return slot


def plan(table: Timetable, missed: Missed, *, due: datetime, now: datetime) -> Plan:
    """Decide about the slot `due` and every later one up to `now`."""
    assert due <= now
    wanted_max = MISSED_MAX if missed == "all" else 1
    wanted = [due, *table.latest(due, now, wanted_max)][-wanted_max:]
    fire = [slot for slot in wanted if missed != "skip" or now - slot <= LATE_AFTER]
    return Plan(tuple(fire), wanted[-1], table.next(now))


def name_of(kind: str, subject: str) -> str:
    """Return the name of the one schedule of a subject: readable, and another one for each subject."""
    digest = hashlib.sha256(f"{kind}\n{subject}".encode()).hexdigest()[:NAME_DIGEST_CHARS]
    words = re.sub("[^a-z0-9]+", "-", f"{kind}-{subject}".lower()).strip("-")
    return f"{words[: NAME_CHARS_MAX - NAME_DIGEST_CHARS - 1].strip('-')}-{digest}"


def run_id(schedule_id: str, slot: datetime) -> str:
    """Return the id of the run of a slot. It depends on schedule and slot only, so that there is one run."""
    moment_ms = round(slot.timestamp() * 1000)
    identity = f"{schedule_id}\n{moment_ms}".encode()
    entropy = hashlib.sha256(identity).digest()[:ENTROPY_BYTES]
    return str(ULID.from_bytes(moment_ms.to_bytes(6, "big") + entropy))
