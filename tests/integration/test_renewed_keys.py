"""A model's key is read at each request: that of a user is another after a while."""

from __future__ import annotations

import pytest

from events.models.providers import ANTHROPIC, OPENAI, Provider
from events.runtime.clock import SystemClock, SystemIds
from events.runtime.egress_policy import read_egress_policy
from stages.adapters.models.opening import Endpoint, open_endpoint
from stages.models.model import Question
from tests.integration.programs.model_server import ModelServer, Reply


@pytest.mark.parametrize("provider", [OPENAI, ANTHROPIC], ids=lambda each: each.name)
def test_each_request_has_the_key_of_its_moment(provider: Provider) -> None:
    keys = ["first"]
    with ModelServer(lambda _: Reply(text="yes")) as server:
        endpoint = Endpoint(
            provider=provider,
            model="m-1",
            base_url=server.openai_url if provider is OPENAI else server.url,
            api_key=lambda: keys[-1],
            egress=read_egress_policy("127.0.0.1"),
        )
        model = open_endpoint(endpoint, clock=SystemClock(), ids=SystemIds())
        for key in ("first", "second"):
            keys.append(key)
            model.ask(Question(purpose="test", system="", text="?", temperature=0.0, tokens_max=5))
        model.close()
        assert [each.headers["authorization"] for each in server.asked] == ["Bearer first", "Bearer second"]
