"""What a pod reports of its outbox, its disk and its uploads."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from events.testing import FIRST, ManualClock, make_attempt, make_logs, make_outbox
from pod_worker.delivery import CODES_MAX, delivery_report


def test_a_pod_tells_how_long_its_oldest_event_waits_and_what_failed(tmp_path: Path) -> None:
    clock, failures = ManualClock(), Counter[str]()
    with make_outbox(tmp_path, clock=clock) as outbox:
        make_attempt(outbox)
        read = delivery_report(outbox, tmp_path, failures, clock)
        assert (read().waiting, read().oldest_s, read().upload_failures) == (0, 0.0, {})
        outbox.append(FIRST, make_logs(2))
        clock.advance(90)
        outbox.append(FIRST, make_logs(1))
        failures["storage_unavailable"] += 3
        told = read()
    assert (told.waiting, told.oldest_s) == (3, 90.0)
    assert told.upload_failures == {"storage_unavailable": 3}
    assert told.disk_free_bytes is not None
    assert told.disk_free_bytes > 0


def test_a_disk_that_is_gone_has_no_number_and_codes_are_bounded(tmp_path: Path) -> None:
    failures = Counter({f"code-{number}": 1 for number in range(2 * CODES_MAX)})
    with make_outbox(tmp_path) as outbox:
        told = delivery_report(outbox, tmp_path / "gone", failures, ManualClock())()
    assert told.disk_free_bytes is None
    assert len(told.upload_failures) == CODES_MAX
