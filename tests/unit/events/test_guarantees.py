"""Which servers and which connection strings are refused, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from events.runtime.guarantees import deployment_of, weak_options, weak_token_index, weaknesses

HELLO = {"setName": "rs0", "maxWireVersion": 17, "hosts": ["a:1", "b:1", "c:1"]}
MAJORITY = {"defaultWriteConcern": {"w": "majority", "wtimeout": 0}}
TOKEN = {
    "key": [("lease.tokenHash", 1)],
    "unique": True,
    "partialFilterExpression": {"lease.tokenHash": {"$type": "string"}},
}


def config(*members: str, **options: Any) -> dict[str, Any]:
    """Return a configuration of data members (`d`), arbiters (`a`) and members without a vote (`n`)."""
    kinds = {"d": {}, "a": {"arbiterOnly": True}, "n": {"votes": 0}}
    return {"members": [{"_id": i, **kinds[kind]} for i, kind in enumerate(members)], **options}


@pytest.mark.parametrize(
    ("hello", "defaults", "configured"),
    [
        (HELLO, MAJORITY, config("d", "d", "d")),
        ({**HELLO, "hosts": ["a:1"]}, MAJORITY, config("d")),
        (HELLO, MAJORITY, config("d", "d", "d", "d", "a")),
        (HELLO, MAJORITY, config("d", "d", "d", "n")),
        (HELLO, {}, config("d", "d", "d")),
        (HELLO, None, None),
        ({"msg": "isdbgrid", "maxWireVersion": 21}, MAJORITY, None),
    ],
    ids=[
        "three",
        "one",
        "four and an arbiter",
        "a member without a vote",
        "no defaults",
        "not told",
        "router",
    ],
)
def test_a_sound_deployment_is_taken(
    hello: Mapping[str, Any], defaults: Mapping[str, Any] | None, configured: Mapping[str, Any] | None
) -> None:
    assert weaknesses(deployment_of(hello, defaults, configured)) == []


@pytest.mark.parametrize(
    ("hello", "defaults", "configured", "word"),
    [
        ({"maxWireVersion": 17}, None, None, "stand-alone"),
        ({**HELLO, "maxWireVersion": 13}, MAJORITY, config("d", "d", "d"), "older than 6.0"),
        (HELLO, {"defaultWriteConcern": {"w": 1}}, config("d", "d", "d"), "setDefaultRWConcern"),
        (HELLO, {"defaultWriteConcern": {"w": 2}}, config("d", "d", "d"), "w: 2"),
        (HELLO, MAJORITY, config("d", "d", "a"), "arbiter"),
        (HELLO, MAJORITY, config("d", "d", "d", "a", "a"), "arbiter"),
        ({**HELLO, "hosts": ["a:1", "b:1"], "arbiters": ["c:1"]}, None, None, "arbiter"),
        (
            HELLO,
            MAJORITY,
            config("d", "d", "d", writeConcernMajorityJournalDefault=False),
            "writeConcernMajorityJournalDefault",
        ),
    ],
)
def test_a_weak_deployment_is_named_with_what_to_do(
    hello: Mapping[str, Any],
    defaults: Mapping[str, Any] | None,
    configured: Mapping[str, Any] | None,
    word: str,
) -> None:
    (problem,) = weaknesses(deployment_of(hello, defaults, configured))
    assert word in problem


def test_every_weakness_is_listed_at_once() -> None:
    found = deployment_of(
        {**HELLO, "maxWireVersion": 9},
        {"defaultWriteConcern": {"w": 1}},
        config("d", "a", writeConcernMajorityJournalDefault=False),
    )
    assert len(weaknesses(found)) == 4


@pytest.mark.parametrize(
    "options",
    [
        {"w": 1},
        {"w": 0},
        {"w": "datacenter"},
        {"journal": False},
        {"wTimeoutMS": 500},
        {"retryWrites": False},
        {"readConcernLevel": "local"},
        {"readPreference": "secondaryPreferred"},
    ],
    ids=str,
)
def test_a_weak_option_of_the_url_is_named(options: Mapping[str, Any]) -> None:
    (problem,) = weak_options(options)
    assert next(iter(options)).lower() in problem


def test_the_options_of_a_sound_url_are_taken() -> None:
    assert weak_options({"w": "majority", "journal": True, "retryWrites": True, "replicaSet": "rs0"}) == []
    assert weak_options({"readConcernLevel": "majority", "readPreference": "primary", "wTimeoutMS": 0}) == []


@pytest.mark.parametrize(
    "change", [{"unique": False}, {"key": [("lease", 1)]}, {"partialFilterExpression": {}}], ids=str
)
def test_an_index_on_tokens_of_another_form_is_no_such_index(change: Mapping[str, Any]) -> None:
    assert weak_token_index({"token": TOKEN}) is None
    assert "not the unique one" in (weak_token_index({"token": {**TOKEN, **change}}) or "")
    assert "missing" in (weak_token_index({}) or "")
