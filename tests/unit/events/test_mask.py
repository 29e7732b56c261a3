"""What is hidden in a text, and what is shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.text.mask import MASK, Mask

SECRET = "s3cr3t/p+ss"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("mongodb://fleet:hunt@er2@db:27017/p refused", f"mongodb://{MASK}@db:27017/p refused"),
        ("see http://h/a?b=1, write to me@h", "see http://h/a?b=1, write to me@h"),
        ("PUT https://s3/k?a=1&X-Amz-Signature=abc&x=1", f"PUT https://s3/k?a=1&X-Amz-Signature={MASK}&x=1"),
        ("https://h/v1?api_key=abc 'x'", f"https://h/v1?api_key={MASK} 'x'"),
        (f"wrong key pf_pod_{'a1B' * 14}X_0Zz9aB!", f"wrong key {MASK}!"),
        ("the token= and key=s of a text", "the token= and key=s of a text"),
    ],
)  # fmt: skip
def test_what_looks_like_a_secret_is_masked_though_nobody_named_it(text: str, shown: str) -> None:
    assert Mask(()).text(text) == shown


def test_of_an_address_that_is_secret_the_password_is_too() -> None:
    mask = Mask(
        ["mongodb://fleet:hunter2%40home@db/fleet", "http://only-a-token@h/", "x://fleet12:fleet12@h"]
    )
    said = mask.text("tried hunter2@home, hunter2%40home, only-a-token; fleet12 knows nothing of this")
    assert said == f"tried {MASK}, {MASK}, {MASK}; fleet12 knows nothing of this"


def test_empty_and_tiny_values_are_no_secrets() -> None:
    assert Mask(["", "a"]).text("banana") == "banana"


def test_of_two_secrets_the_longer_one_is_masked_whole() -> None:
    assert Mask(["abcd", "abcdefgh"]).text("<abcdefgh>") == f"<{MASK}>"


@given(before=st.text(), after=st.text())
def test_no_text_around_a_secret_lets_it_through(before: str, after: str) -> None:
    assert SECRET not in Mask([SECRET]).text(before + SECRET + after)
