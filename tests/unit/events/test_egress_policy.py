"""Which addresses a pod's tools may connect to."""

from __future__ import annotations

import pytest

from events.runtime.egress_policy import SETTING, read_egress_policy


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.8.8",
        "0.0.0.0",  # noqa: S104 - nothing is bound
        "10.1.2.3",
        "172.31.255.255",
        "192.168.0.1",
        "100.64.0.1",
        "169.254.169.254",
        "198.18.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "fe80::1%eth0",
        "fd00:ec2::254",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:a9fe:a9fe",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::169.254.169.254",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::1",
        "2001:0:7f00:1::",
        *("192.0.0.8", "192.0.0.9", "192.31.196.1", "192.52.193.1", "192.88.99.1", "192.175.48.1"),
        *("::8.8.8.8", "::ffff:0:10.0.0.1", "64:ff9b:1::808:808", "100::1", "100:0:0:1::1", "5f00::1"),
        *("2001:1::1", "2001:20::1", "2001:db8::1", "3fff::1", "2620:4f:8000::1", "fec0::1", "fc00::1"),
        *("168.63.129.16", "::ffff:168.63.129.16", "2002:a83f:8110::1"),  # a cloud's own, in public space
        *("2002:c058:6301::1", "64:ff9b::c058:6301", "4000::1", "e000::1"),  # 192.88.99.1; not allocated
    ],
)
def test_what_is_not_the_public_internet_is_refused_with_what_allows_it(address: str) -> None:
    objection = read_egress_policy("").objection("model.example", address)
    assert objection is not None
    assert f"model.example ({address}) is no public address" in objection
    assert objection.endswith(f"to {SETTING}")


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"]
)
def test_public_addresses_are_allowed(address: str) -> None:
    assert read_egress_policy("").objection("model.example", address) is None


@pytest.mark.parametrize(
    ("allowed", "host", "address", "is_allowed"),
    [
        ("10.0.0.0/8", "model.example", "10.1.2.3", True),
        ("10.0.0.0/8", "model.example", "11.1.2.3", True),  # public
        ("10.0.0.0/8", "model.example", "192.168.1.1", False),
        ("10.0.0.0/8", "model.example", "::ffff:10.1.2.3", True),
        ("10.0.0.5/8", "model.example", "10.1.2.3", True),
        ("127.0.0.1", "model.example", "127.0.0.2", False),
        (" vLLM.internal. , fd12::/16", "vllm.INTERNAL", "192.168.1.1", True),
        ("vllm.internal,fd12::/16", "other", "fd12::1", True),
        ("vllm.internal", "a.vllm.internal", "192.168.1.1", False),
        (
            "vllm.internal",
            "vllm.internal",
            "169.254.169.254",
            False,
        ),  # a name gets nobody the cloud's credentials
        ("vllm.internal", "vllm.internal", "fe80::1", False),
        *(
            ("vllm.internal", "vllm.internal", each, False)
            for each in ("fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16", "192.0.0.192")
        ),
        ("100.100.100.200", "vllm.internal", "100.100.100.200", True),
        ("169.254.0.0/16", "vllm.internal", "169.254.169.254", True),
    ],
)
def test_the_operator_names_what_else(allowed: str, host: str, address: str, is_allowed: bool) -> None:
    assert (read_egress_policy(allowed).objection(host, address) is None) == is_allowed


def test_what_is_known_without_a_look_up_is_judged_at_once() -> None:
    for host in ("127.0.0.1", "localhost", "LOCALHOST.", "a.localhost", "::1", "10.0.0.1"):
        assert read_egress_policy("").early_objection(host)
    for host in ("model.example", "8.8.8.8", ""):
        assert read_egress_policy("").early_objection(host) is None
    assert read_egress_policy("localhost").early_objection("localhost") is None


@pytest.mark.parametrize("wrong", ["10.0.0.0/33", "localhost:8000", "http://h", "a b", "::g"])
def test_an_entry_that_could_never_fit_is_named(wrong: str) -> None:
    with pytest.raises(ValueError, match="PODFLEET_PRIVATE_HOSTS has") as caught:
        read_egress_policy(f"localhost,{wrong}")
    assert repr(wrong) in str(caught.value)
