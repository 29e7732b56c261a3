"""What the user says of a public address, and what follows from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from podfleet.embedded.public_address import EVERYWHERE, PublicAddress

FILES = {"certificate": Path("/c.pem"), "private_key": Path("/k.pem")}


@pytest.mark.parametrize(
    ("url", "listen", "has_certificate", "place"),
    [
        ("https://fleet.example:8443", None, True, (EVERYWHERE, 8443)),
        ("https://fleet.example", None, True, (EVERYWHERE, 443)),
        ("https://fleet.example", None, False, None),
        ("https://fleet.example", "10.0.0.7:8701", False, ("10.0.0.7", 8701)),
        ("http://10.0.0.7:8701/", "10.0.0.7", False, ("10.0.0.7", 8701)),
        ("http://10.0.0.7", None, False, (EVERYWHERE, 80)),
        ("https://[fd00::7]:8443", "[fd00::7]:9443", True, ("fd00::7", 9443)),
        ("https://[fd00::7]:8443", "fd00::7", True, ("fd00::7", 8443)),
        (None, None, False, None),
    ],
)
def test_it_listens_where_the_user_says_or_the_url_does(
    url: str | None, listen: str | None, has_certificate: bool, place: tuple[str, int] | None
) -> None:
    found = PublicAddress(url=url, listen=listen, **(FILES if has_certificate else {}))
    assert found.place == place
    assert [*found.problems(keyless=False)] == []


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (PublicAddress(url="fleet.example"), "--public"),
        (PublicAddress(url="https://fleet.example/path"), "--public"),
        (PublicAddress(url="https://me@fleet.example"), "--public"),
        (PublicAddress(url="https://fleet.example:0"), "--public"),
        (PublicAddress(url="https://fleet.example:x"), "--public"),
        (PublicAddress(url="ftp://fleet.example"), "--public"),
        (PublicAddress(listen="::1"), "--public"),
        (PublicAddress(**FILES), "--public"),
        (PublicAddress(url="https://fleet.example", certificate=Path("/c.pem")), "--private-key"),
        (PublicAddress(url="http://fleet.example", **FILES), "--certificate"),
        (PublicAddress(url="https://fleet.example", listen="10.0.0.7:99999"), "--listen"),
        (PublicAddress(url="https://fleet.example", listen="10.0.0.7:x"), "--listen"),
    ],
)
def test_what_cannot_work_is_said(found: PublicAddress, words: str) -> None:
    assert [words in each for each in found.problems(keyless=False)] == [True]


def test_a_public_address_and_no_key_do_not_go_together() -> None:
    found = PublicAddress(url="https://fleet.example")
    assert ["--keyless" in each for each in found.problems(keyless=True)] == [True]


def test_clear_text_is_warned_of_beyond_this_machine() -> None:
    assert ["clear text" in each for each in PublicAddress(url="http://10.0.0.7:8700").warnings()] == [True]
    for url in ("https://fleet.example", "http://127.0.0.1:8701"):
        assert [*PublicAddress(url=url).warnings()] == []


def test_the_control_plane_is_told_where_to_listen_and_by_which_certificate() -> None:
    found = PublicAddress(url="https://fleet.example:8443", **FILES)
    files = ("--certificate", "/c.pem", "--private-key", "/k.pem")
    assert found.arguments == ("--listen", f"{EVERYWHERE}:8443", *files)
    assert PublicAddress(url="https://fleet.example").arguments == ()
