"""The text of keys and of run tokens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.runtime.clock import SystemIds
from events.text.key_text import LETTERS, _checksum, letters, read, read_run_token, run_token, written

ULIDS = st.text("0123456789ABCDEFGHJKMNPQRSTVWXYZ", min_size=26, max_size=26)
SECRETS = st.text(LETTERS, min_size=43, max_size=43)


@given(ULIDS, st.integers(1, 62**4 - 1), SECRETS)
def test_a_run_token_says_whose_it_is(run_id: str, attempt: int, token: str) -> None:
    text = run_token(run_id, attempt, token)
    assert text.startswith("pf_run_")
    assert read_run_token(text) == (run_id, attempt, token)


@given(ULIDS, SECRETS, st.integers(0, 200), st.sampled_from([*LETTERS, "_", "-", " ", "é"]))
def test_a_run_token_with_one_other_letter_is_none(run_id: str, token: str, at: int, letter: str) -> None:
    text = run_token(run_id, 7, token)
    other = text[:at] + letter + text[at + 1 :]
    assert (read_run_token(other) is None) == (other != text)


@given(st.text())
def test_no_other_text_is_a_token(text: str) -> None:
    assert read_run_token(text) is None
    assert read(text) is None
    assert read_run_token(f"pf_run_{text}_000000") is None


@pytest.mark.parametrize("random", ["", "A", "A" * 47])
def test_a_text_with_a_right_checksum_is_still_no_run_token(random: str) -> None:
    assert read_run_token(written("run", random)) is None
    assert read_run_token(written("pod", "A" * 80)) is None


@pytest.mark.parametrize("random", ["", "-" * 43, "A" * 42 + "é"])
def test_a_text_with_a_right_checksum_is_no_key_of_other_letters(random: str) -> None:
    assert read(written("pod", random)) is None


def test_a_text_with_a_right_checksum_is_no_key_of_another_system() -> None:
    assert read(written("pod", "A")) == ("pod", "A")
    assert read(f"pod_A_{_checksum('pod_A')}") is None
    assert read("pf_\ud800_A_000000") is None


def test_letters_keep_all_bits() -> None:
    made = {letters(SystemIds().token()) for _ in range(500)}
    assert len(made) == 500
    assert {len(each) for each in made} == {43}
    assert set("".join(made)) <= set(LETTERS)
