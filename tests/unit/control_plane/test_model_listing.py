"""Listings of models: what is read of one, however it lies, and what a sync writes of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from control_plane.runs.models.listing import (
    Listed,
    Planned,
    base_of,
    fault_of_address,
    planned,
    read_listing,
    slug_of,
)
from events.runtime.errors import Rejected

BASE = "https://a.example/v1"


def body(*rows: Any) -> bytes:
    return json.dumps({"data": rows}).encode()


def listed(slug: str) -> Listed:
    return Listed(
        slug=slug, model=slug, title="", input_usd_per_mtok=None, output_usd_per_mtok=None,
        context_tokens=None, answer_tokens_max=None,
    )  # fmt: skip


def test_a_row_is_read_with_prices_for_a_million_tokens_and_limits() -> None:
    row = {
        "id": "openai/GPT-4o mini",
        "name": "GPT-4o mini",
        "context_length": 128_000,
        "pricing": {"prompt": "0.00000015", "completion": 6e-7, "image": "0"},
        "top_provider": {"max_completion_tokens": 16_384, "is_moderated": True},
    }
    (found,) = read_listing(body(row)).models
    assert found == Listed(
        slug="openai-gpt-4o-mini",
        model="openai/GPT-4o mini",
        title="GPT-4o mini",
        input_usd_per_mtok=0.15,
        output_usd_per_mtok=0.6,
        context_tokens=128_000,
        answer_tokens_max=16_384,
    )


@pytest.mark.parametrize("price", ["-1", "nan", "inf", "free", "", -0.1, 1e300, None])
def test_a_price_that_is_none_is_not_known(price: Any) -> None:
    (found,) = read_listing(body({"id": "a", "pricing": {"prompt": price, "completion": "0"}})).models
    assert (found.input_usd_per_mtok, found.output_usd_per_mtok) == (None, 0.0)


@pytest.mark.parametrize(
    "row",
    [
        {}, {"id": ""}, {"id": 7}, {"id": "a" * 201}, {"id": "///"}, {"id": "a\nb"}, "a", None, [],
        {"id": "a", "context_length": -1}, {"id": "a", "context_length": 10**10},
        {"id": "a", "context_length": "8192"}, {"id": "a", "pricing": "free"},
        {"id": "a", "pricing": {"prompt": {}}}, {"id": "a", "name": "n" * 1_001},
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_read_costs_no_other(row: Any) -> None:
    found = read_listing(body(row, {"id": "good"}))
    assert ([each.slug for each in found.models], found.unreadable) == (["good"], 1)


def test_the_first_of_two_with_one_name_counts() -> None:
    found = read_listing(body({"id": "A/b", "name": "first"}, {"id": "a-b", "name": "second"}))
    assert ([each.title for each in found.models], found.unreadable) == (["first"], 1)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"null", b'{"data": {}}', b'{"models": []}', b"<html>", b"\xff\xfe",
        b'{"data": ' + b"[" * 100_000, body(*[1] * 2_001),
    ],
)  # fmt: skip
def test_what_is_no_listing_is_refused(content: bytes) -> None:
    with pytest.raises(Rejected) as caught:
        read_listing(content)
    assert caught.value.code == "bad_listing"
    assert len(caught.value.message) < 300


def test_an_entry_with_another_address_stays_and_what_has_no_room_is_counted() -> None:
    bases = {"mine": BASE, "elsewhere": "https://b.example/v1", "served": None}
    models = [listed(name) for name in ("new", "mine", "elsewhere", "served", "newer")]
    assert planned(models, BASE, bases, 1) == Planned([listed("mine"), listed("new")], 2, 1)
    assert planned(models, BASE, bases, 0) == Planned([listed("mine")], 2, 2)


@pytest.mark.parametrize(
    ("model", "slug"),
    [
        ("gpt-4o", "gpt-4o"), ("Org/Name:free", "org-name-free"), ("../etc", "etc"), ("…", None),
        ("a" * 200, "a" * 100), ("-x", "x"),
    ],
)  # fmt: skip
def test_a_name_is_safe_in_an_address(model: str, slug: str | None) -> None:
    assert slug_of(model) == slug


@pytest.mark.parametrize(
    "address",
    [
        "ftp://a.example", "a.example/v1", "https://", "https://a.example:x/", "https://a.example:0",
        "https://u:p@a.example", "https://a.example/?key=1", "https://a.example/#a", "https://a example",
        "https://a.example/ü", "https://[::1", "",
    ],
)  # fmt: skip
def test_what_is_no_address_of_an_api_is_refused_in_words(address: str) -> None:
    assert fault_of_address(address)


@pytest.mark.parametrize("address", [BASE, f"{BASE}/", f"{BASE}/models", f"{BASE}/models/"])
def test_a_listing_and_its_api_are_one_address(address: str) -> None:
    assert (fault_of_address(address), base_of(address)) == (None, BASE)
