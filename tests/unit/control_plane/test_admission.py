"""Places for requests with events, and how often a sender may ask."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

import pytest

from control_plane.concurrency.rate_limit import NAMES_MAX, RateLimit, RateLimited
from control_plane.log import admission as module
from control_plane.log.admission import BURST, EVERY_S, LARGE_MAX, OPEN_MAX, OPEN_OF_ONE_MAX, Admission
from events.runtime.errors import Transient
from events.testing import ManualClock


def test_a_sender_has_a_few_places_all_have_a_bound_and_each_is_given_back() -> None:
    admission = Admission(RateLimit(ManualClock(), BURST, EVERY_S))
    with ExitStack() as stack:
        for _ in range(OPEN_OF_ONE_MAX):
            stack.enter_context(admission.slot("greedy"))
        with pytest.raises(Transient) as caught, admission.slot("greedy"):
            pass
        assert (caught.value.code, caught.value.retry_after_s) == ("too_many_open", 1.0)
        for number in range(OPEN_MAX - OPEN_OF_ONE_MAX):
            stack.enter_context(admission.slot(f"pod-{number}"))
        for sender in ("late", None):
            with pytest.raises(Transient), admission.slot(sender):
                pass
    with admission.slot("late"), admission.slot("greedy"):
        assert admission._open == {"late": 1, "greedy": 1}
    assert not admission._open


def test_a_bucket_empties_fills_again_and_is_kept_for_as_many_names_as_fit() -> None:
    clock = ManualClock()
    throttle = RateLimit(clock, burst=3, every_s=2.0)
    assert [throttle.wait_s("a") for _ in range(4)] == [0, 0, 0, 2.0]
    assert throttle.wait_s("b") == 0
    clock.advance(1.5)
    assert throttle.wait_s("a") == pytest.approx(0.5)
    clock.advance(0.5)
    assert [throttle.wait_s("a"), throttle.wait_s("a")] == [0, 2.0]
    clock.advance(98.0)
    assert [throttle.wait_s("a") for _ in range(4)] == [0, 0, 0, 2.0]
    for number in range(NAMES_MAX):
        throttle.wait_s(str(number))
    assert len(throttle._full_at) == NAMES_MAX


def test_whoever_needs_no_key_is_not_counted_by_name() -> None:
    admission = Admission(RateLimit(ManualClock(), 1, 60.0))
    with ExitStack() as stack:
        for _ in range(OPEN_MAX):
            stack.enter_context(admission.slot(None))


def test_too_many_requests_are_told_how_long_to_wait() -> None:
    admission = Admission(RateLimit(ManualClock(), 1, 4.0))
    with admission.slot("a"):
        pass
    with pytest.raises(RateLimited) as caught, admission.slot("a"):
        pass
    assert caught.value.retry_after_s == 4.0


async def test_a_sender_waits_for_its_own_large_request_though_there_is_room() -> None:
    admission = Admission(RateLimit(ManualClock(), BURST, EVERY_S))
    with admission.slot("pod") as first, admission.slot("pod") as second:
        await first.acquire_large()
        waiting = asyncio.ensure_future(second.acquire_large())
        await asyncio.sleep(0)
        assert not waiting.done()
        first.release()
        await asyncio.wait_for(waiting, 60)


async def test_large_requests_are_one_of_a_sender_and_few_of_all_and_make_room_when_they_leave() -> None:
    admission = Admission(RateLimit(ManualClock(), BURST, EVERY_S))
    with ExitStack() as stack:
        first = stack.enter_context(admission.slot("pod-0"))
        for slot in (
            first,
            *(stack.enter_context(admission.slot(f"pod-{n}")) for n in range(1, LARGE_MAX)),
        ):
            await slot.acquire_large()
        late = stack.enter_context(admission.slot("late"))
        again = stack.enter_context(admission.slot("pod-0"))
        waiting = [asyncio.ensure_future(each.acquire_large()) for each in (again, late)]
        await asyncio.sleep(0)
        assert not any(each.done() for each in waiting)
        first.release()
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        assert sum(each.done() for each in waiting) == 1
        again.release()
        late.release()
        await asyncio.wait_for(asyncio.gather(*waiting), 60)
    assert not admission._large_of
    assert admission._large._value == LARGE_MAX


async def test_senders_at_the_same_moment_are_served_one_after_the_other() -> None:
    admission = Admission(RateLimit(ManualClock(), BURST, EVERY_S))
    served = 0

    async def send() -> None:
        nonlocal served
        await admission.wait_for_room("key@address")
        with admission.slot("key@address"):
            await asyncio.sleep(0.01)
            served += 1

    async with asyncio.timeout(60):
        await asyncio.gather(*(send() for _ in range(OPEN_OF_ONE_MAX + 18)))
    assert served == OPEN_OF_ONE_MAX + 18
    assert not admission._line


async def test_who_waits_in_vain_or_where_too_many_wait_is_refused_by_the_slot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "WAIT_S", 0.02)
    monkeypatch.setattr(module, "LINE_MAX", 1)
    admission = Admission(RateLimit(ManualClock(), BURST, EVERY_S))
    with ExitStack() as stack:
        for _ in range(OPEN_OF_ONE_MAX):
            stack.enter_context(admission.slot("pod"))
        waiting = asyncio.ensure_future(admission.wait_for_room("pod"))
        await asyncio.sleep(0)
        await admission.wait_for_room("pod")
        assert not waiting.done(), "the second found no place in the line"
        await waiting
        with pytest.raises(Transient), admission.slot("pod"):
            pass
    assert not admission._line
