"""The form of keys, and what they may do."""

from __future__ import annotations

import zlib
from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.access.keys import ALL, SCOPES, Key, Kind, granted, id_of
from events.runtime.clock import SystemIds
from events.runtime.errors import Rejected
from events.text.key_text import LETTERS, digest, letters, run_token, written

KINDS = get_args(Kind)
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_says_its_kind_and_has_an_id_that_is_not_its_secret(kind: Kind) -> None:
    keys = [written(kind, letters(SystemIds().token())) for _ in range(200)]
    assert len(set(keys)) == 200
    for key in keys:
        prefix, said, random, checksum = key.split("_")
        assert (prefix, said, len(random), len(checksum)) == ("pf", kind, 43, 6)
        assert set(random + checksum) <= set(LETTERS)
        assert id_of(key) == random[:10]
        assert random not in digest(key)


@given(st.integers(0, 60), st.sampled_from(LETTERS))
def test_a_key_with_one_other_letter_is_none(position: int, letter: str) -> None:
    key = written("admin", "A" * 43)
    other = key[:position] + letter + key[position + 1 :]
    assert (id_of(other) is None) == (other != key)


@given(st.text())
def test_no_other_text_is_a_key(text: str) -> None:
    assert id_of(text) is None
    assert id_of(f"pf_admin_{text}_{zlib.crc32(text.encode('utf-8', 'surrogatepass')):06d}") is None


def test_a_run_token_is_no_key() -> None:
    assert id_of(run_token("01K0000000000000000000000A", 1, "A" * 43)) is None


def test_a_key_may_do_what_its_kind_may_or_less() -> None:
    assert granted("admin", None) == ALL
    assert granted("operator", ["read"]) == {"read"}
    for kind in KINDS:
        assert granted(kind, None) == SCOPES[kind]
    with pytest.raises(Rejected, match="viewer may do read"):
        granted("viewer", ["read", "admin"])
    with pytest.raises(Rejected, match="needs a scope"):
        granted("admin", [])


@pytest.mark.parametrize(
    ("expires", "revoked", "is_open"),
    [
        (None, None, True),
        (timedelta(seconds=1), None, True),
        (timedelta(0), None, False),
        (None, timedelta(0), False),
        (timedelta(days=1), timedelta(days=-1), False),
    ],
)
def test_a_key_opens_until_it_ends_or_is_revoked(
    expires: timedelta | None, revoked: timedelta | None, is_open: bool
) -> None:
    key = Key(
        id="a",
        kind="pod",
        name="n",
        hash="",
        scopes=frozenset(),
        created_at=NOW,
        ends_at=None if expires is None else NOW + expires,
        revoked_at=None if revoked is None else NOW + revoked,
    )
    assert key.is_open(NOW) is is_open
