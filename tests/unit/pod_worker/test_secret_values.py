"""The values of secrets that the control plane hands to an attempt."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from events.delivery.control_plane_client import ControlPlane
from events.runtime.clock import SystemClock
from events.runtime.errors import LeaseLost, Transient
from events.text.secret_names import USER_TOKEN
from pod_worker.attempt.secret_values import HttpSecrets, Values
from tests.unit.events.test_claims import make_claim

CLAIM = make_claim(secrets=("A", "B"))


def fetched(body: Any, code: int = 200, way: str = "fetch") -> tuple[Values, httpx.Request]:
    """Return the values that an answer holds, and what was asked."""
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(code, json=body)

    with httpx.Client(base_url="http://control", transport=httpx.MockTransport(answer)) as client:
        secrets = HttpSecrets(ControlPlane(client, SystemClock()))
        return getattr(secrets, way)(CLAIM), asked[0]


def test_an_attempt_asks_by_its_token_alone_and_gets_what_its_run_names() -> None:
    values, asked = fetched({"values": {"A": "x"}, "missing": ["B"]})
    assert values == Values({"A": "x"}, ("B",))
    assert asked.url.path == f"/api/runs/{CLAIM.run_id}/secrets"
    assert asked.headers["authorization"] == f"Bearer {CLAIM.run_token}"
    assert "x" not in repr(values).replace("missing", "")


def test_a_renewal_is_of_the_token_of_the_user_alone() -> None:
    token = {"values": {USER_TOKEN: "t"}, "missing": [], "renewInS": 240.5}
    values, asked = fetched(token, way="renewed")
    assert values == Values({USER_TOKEN: "t"}, (), 240.5)
    assert asked.url.query == b"renewal=true"
    for lie in ({**token, "values": {"A": "x"}}, {**token, "renewInS": -1}, {**token, "renewInS": "soon"}):
        with pytest.raises(Transient):
            fetched(lie, way="renewed")


@pytest.mark.parametrize(
    "body",
    [
        {"values": {"A": "x"}, "missing": []},
        {"values": {"A": "x", "B": "y", "PATH": "/tmp/evil"}, "missing": []},
        {"values": {"A": "x", "B": 5}, "missing": []},
        {"values": {}},
        [],
    ],
)
def test_values_of_other_names_than_the_run_has_are_no_answer(body: Any) -> None:
    with pytest.raises(Transient) as refused:
        fetched(body)
    assert refused.value.code == "control_plane_odd"


def test_an_attempt_that_lost_its_lease_hears_so() -> None:
    with pytest.raises(LeaseLost):
        fetched({"code": "lease_lost", "detail": "gone", "status": 409}, 409)
