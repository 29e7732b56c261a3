"""Bounds the bytes of events that an attempt and a key may leave in the log.

Law: only stored bytes are charged, so a repeated line costs nothing. An attempt is charged for the events
of its holder. Events of other senders about it, such as an admin, have as much room of their own. Each
process adds its bytes to the counts every few seconds, and reads them as often: replicas together may store
some seconds more than the budget. The notices of refused lines and the end of an attempt have room beyond
it, so that a log over its budget stays whole. Rows of results are charged to an account of their own
besides, each as a fixed size at least, which bounds their number too. A key, which many pods may share, loses
nothing: its pods wait for the next hour.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from control_plane.concurrency.rate_limit import RateLimited
from control_plane.model.byte_limits import EVENT_BYTES_DEFAULT, KEY_EVENT_BYTES_DEFAULT
from control_plane.model.projection import attempt_id
from events.catalog import ENDS, EventRefused, ResultRecorded, type_of
from events.envelope import Event
from events.kinds.results import RESULT_BYTES_MAX, ROW_BYTES_MIN, ROWS_MAX
from events.runtime.clock import Clock
from events.text.attempt_id import AttemptId

TICK_S: Final = 5.0
KNOWN_S: Final = 5.0
KNOWN_MAX: Final = 20_000
WINDOW_S: Final = 3600
RESERVE_BYTES: Final = 64 << 20
OTHERS: Final = "/others"
ROWS: Final = "/results"
RESERVED: Final = ENDS | {type_of(EventRefused)}
RECORDED: Final = type_of(ResultRecorded)


def row_account(account: str) -> str:
    """Return the account to which rows of results are charged besides."""
    return account + ROWS


def account(holder: AttemptId, *, by_holder: bool) -> str:
    """Return the account that events about an attempt are charged to."""
    return attempt_id(*holder) + ("" if by_holder else OTHERS)


class ByteCounts(Protocol):
    """Where bytes are counted, by account."""

    async def event_bytes(self, accounts: Collection[str]) -> Mapping[str, int]: ...

    async def add_event_bytes(self, added: Mapping[str, int]) -> None: ...


@dataclass(slots=True, eq=False)
class Budgets:
    """The counts of stored bytes that this process knows, for all of its requests."""

    counts: ByteCounts
    clock: Clock
    event_bytes_max: int = EVENT_BYTES_DEFAULT
    key_bytes_max: int = KEY_EVENT_BYTES_DEFAULT
    _known: dict[str, tuple[int, float]] = field(default_factory=dict)  # bytes, and when they were read
    _owed: dict[str, int] = field(default_factory=dict)

    async def look(self, accounts: Collection[str], keys: Collection[str]) -> None:
        """Read how many bytes these accounts of attempts, and these keys, have stored.

        Raises `Transient`, or `RateLimited` where one of the keys has to wait for the next hour.
        """
        await self._learn({*accounts, *map(self._of_key, keys)})
        for key in keys:
            if self._stored(self._of_key(key)) >= self.key_bytes_max:
                wait_s = WINDOW_S - self.clock.now().timestamp() % WINDOW_S
                what = f"its key has left {self.key_bytes_max:,} bytes of events in this hour"
                raise RateLimited(what, wait_s)

    async def _learn(self, accounts: Collection[str]) -> None:
        now_s = self.clock.monotonic_s()
        stale = {each for each in accounts if self._known.get(each, (0, -KNOWN_S))[1] <= now_s - KNOWN_S}
        if not stale:
            return
        stored = await self.counts.event_bytes(stale)
        for each in stale:
            self._known.pop(each, None)  # the last that were read are the last that are forgotten
            self._known[each] = (stored.get(each, 0) + self._owed.get(each, 0), now_s)
        for oldest in list(self._known)[: max(0, len(self._known) - KNOWN_MAX)]:
            del self._known[oldest]

    def refusal(self, event: Event, account: str, *, rows_before: int = 0) -> str | None:
        """Return why an event exceeds its budget, or None. Call `look` for its account before.

        `rows_before` counts the rows of results that stand before it in the same request.
        """
        rows = self._stored(row_account(account)) + rows_before * ROW_BYTES_MIN
        if event.type == RECORDED and rows >= RESULT_BYTES_MAX:
            return (
                f"attempt {event.attempt} has recorded all the results that it may: {ROWS_MAX:,} rows, those "
                f"that it said again included, and {RESULT_BYTES_MAX:,} bytes of them"
            )
        stored = self._stored(account)
        most = self.event_bytes_max + (RESERVE_BYTES if event.type in RESERVED else 0)
        if stored < most:
            return None
        by_others = " by others than its holder" if account.endswith(OTHERS) else ""
        return (
            f"attempt {event.attempt} has {stored:,} bytes of events{by_others}, and may have "
            f"{self.event_bytes_max:,}: say less, or set PODFLEET_EVENT_BYTES_MAX higher"
        )

    def charge(self, account: str, key: str | None, size: int) -> None:
        """Charge the `size` bytes of new stored events to an account and to a key."""
        accounts = [account]
        if key is not None:
            accounts.append(self._of_key(key))
        for each in accounts:
            self._owed[each] = self._owed.get(each, 0) + size
            stored, read_s = self._known.get(each, (0, -KNOWN_S))
            self._known[each] = (stored + size, read_s)

    def charge_rows(self, account: str, sizes: Sequence[int]) -> None:
        """Charge new rows of results, each by its size, to the account of rows."""
        if sizes:
            self.charge(row_account(account), None, sum(max(size, ROW_BYTES_MIN) for size in sizes))

    async def run_once(self) -> int:
        """Write the charges to the store; return the number of accounts. A failed one is tried again."""
        owed, self._owed = self._owed, {}
        if not owed:
            return 0
        try:
            await self.counts.add_event_bytes(owed)
        except BaseException:
            for account, size in owed.items():
                self._owed[account] = self._owed.get(account, 0) + size
            raise
        return len(owed)

    def _stored(self, account: str) -> int:
        return self._known.get(account, (0, 0.0))[0]

    def _of_key(self, key: str) -> str:
        """Return the account of a key in this hour."""
        return f"key/{key}/{self.clock.now():%Y-%m-%dT%H}"
