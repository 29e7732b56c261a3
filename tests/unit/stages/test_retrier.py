"""How often a question is sent: each request that may have been billed counts against what is afforded."""

from __future__ import annotations

import pytest

from events.testing import ManualClock, SeededIds
from stages.adapters.models.retrier import Retrier, TryFailed
from stages.models.model import Answer, ModelError, Usage

BILL = Usage(prompt_tokens=1, completion_tokens=1, seconds=0.0)


class Server:
    """Fails each request until the last one; `is_billed` says whether those cost."""

    def __init__(self, failures: int, *, is_billed: bool) -> None:
        self.failures, self.is_billed, self.sent = failures, is_billed, 0

    def send(self, _: float) -> Answer:
        self.sent += 1
        if self.sent <= self.failures:
            raise TryFailed("unreachable", "it answers 500", usage=BILL if self.is_billed else None)
        return Answer(text="x", usage=BILL)


def retrier() -> Retrier:
    return Retrier(clock=ManualClock(), ids=SeededIds())


@pytest.mark.parametrize("most", [1, 2, 3])
def test_no_more_billed_requests_are_sent_than_are_afforded(most: int) -> None:
    server = Server(9, is_billed=True)
    with pytest.raises(ModelError, match="no further request is paid for") as failed:
        retrier().ask(server.send, requests_max=most)
    assert (server.sent, failed.value.usages) == (most, (BILL,) * most)


def test_a_request_that_costs_nothing_does_not_count() -> None:
    server = Server(2, is_billed=False)
    assert retrier().ask(server.send, requests_max=1).text == "x"
    assert server.sent == 3
