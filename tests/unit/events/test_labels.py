"""The labels of pods: their form, what a pod says of itself, and when it has what is asked."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from events.queue.labels import (
    ASKED,
    OPERATORS_MAX,
    OWN,
    RESERVED,
    SAID_MAX,
    VALUE,
    has,
    missing,
    operators_labels,
    own_labels,
    read_labels,
    short_name,
    words_of,
)

POD: dict[str, Any] = {
    "gpus": [], "cpus": 8, "memory_mib": 64_000, "disk_mib": 512_000, "driver": None, "region": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("product", "short"),
    [
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H100 PCIe", "h100"),
        ("NVIDIA H100 NVL", "h100"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA GH200 480GB", "gh200"),
        ("NVIDIA B200", "b200"),
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA A100-PCIE-40GB", "a100"),
        ("NVIDIA A100 80GB PCIe", "a100"),
        ("A100-SXM4-40GB", "a100"),
        ("NVIDIA A10G", "a10g"),
        ("NVIDIA A40", "a40"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA L40S", "l40s"),
        ("Tesla T4", "t4"),
        ("Tesla V100-SXM2-16GB", "v100"),
        ("Tesla P100-PCIE-16GB", "p100"),
        ("Tesla K80", "k80"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("NVIDIA GeForce RTX 4090 D", "rtx-4090-d"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "rtx-4090-laptop"),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", "rtx-4070-ti-super"),
        ("GeForce GTX 1080 Ti", "gtx-1080-ti"),
        ("NVIDIA RTX A6000", "rtx-a6000"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"),
        ("NVIDIA RTX 4000 SFF Ada Generation", "rtx-4000-ada"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000-blackwell"),
        ("Quadro RTX 6000", "rtx-6000"),
        ("NVIDIA TITAN V", "titan-v"),
        ("AMD Instinct MI300X", "mi300x"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "h100-mig-1g.10gb"),
        ("NVIDIA A100-SXM4-40GB MIG 3g.20gb", "a100-mig-3g.20gb"),
        ("NVIDIA Graphics Device", None),
        ("", None),
        ("Ω™ H100®", "h100"),
    ],
)
def test_a_device_has_a_short_name(product: str, short: str | None) -> None:
    assert short_name(product) == short


@given(st.text(max_size=300))
def test_any_short_name_can_be_a_label(product: str) -> None:
    labels = own_labels(**{**POD, "gpus": [(product, 1.0)]})
    assert all(re.fullmatch(VALUE.removesuffix("$"), each) for each in labels.values())


def test_a_pod_says_what_it_is() -> None:
    h100, a100 = ("NVIDIA H100 80GB HBM3", 81_559.0), ("NVIDIA A100-SXM4-40GB", 40_536.0)
    more = {"gpus": [a100, h100, h100], "driver": "550.54.15", "region": "eu-de", "has_containers": True}
    said = own_labels(**{**POD, **more})
    assert said == {
        "gpu": "h100", "gpus": "2", "gpu_gib": "80", "cpu": "8", "memory": "62", "disk": "500",
        "driver": "550.54.15", "region": "eu-de", "containers": "yes",
    }  # fmt: skip
    assert tuple(said) == OWN
    assert own_labels(**POD) == {"gpus": "0", "cpu": "8", "memory": "62", "disk": "500"}
    assert "region" not in own_labels(**{**POD, "region": "a region of odd letters"})


def test_each_engine_is_a_label_and_no_operator_sets_one() -> None:
    assert {"engine-vllm": "yes", "engine-docker": "yes"}.items() <= own_labels(
        **POD, engines=["vllm", "docker"]
    ).items()
    assert own_labels(**POD, endpoints=["ollama"])["endpoint-ollama"] == "yes"
    most = [f"e{number}" for number in range(100)]
    assert len(own_labels(**POD, engines=most, endpoints=most)) <= SAID_MAX
    for name in ("engine-vllm", "endpoint-ollama"):
        assert read_labels([f"{name}=yes"], "--label")[1]


@pytest.mark.parametrize(
    ("asked", "said", "is_met"),
    [
        ("h100", "h100", True),
        ("h100", "H100", False),
        ("h100", None, False),
        ("4", "4", True),
        ("4", "8", False),
        (">=4", "8", True),
        (">=4", "4", True),
        (">=4", "4.0", True),
        (">=4.0", "4", True),
        (">=4", "3", False),
        (">=4", None, False),
        (">=4", "many", False),
        (">=4", "4a", False),
        (">=10", "9", False),
        (">=550.54", "550.127.05", True),
        (">=550.127", "550.54", False),
        (">=550", "550.54.15", True),
    ],
)
def test_a_label_is_met_by_the_same_text_or_by_at_least_the_number(
    asked: str, said: str | None, is_met: bool
) -> None:
    assert has(asked, said) is is_met
    assert missing([("x", asked)], {} if said is None else {"x": said}) == ([] if is_met else [("x", asked)])


@given(st.from_regex(ASKED, fullmatch=True), st.from_regex(VALUE, fullmatch=True))
def test_whatever_may_be_asked_can_be_compared(asked: str, said: str) -> None:
    assert has(asked, said) in (True, False)


@pytest.mark.parametrize(
    ("asked", "said", "is_met"),
    [(">=141", "140", True), (">=192", "180", False), (">=81", "80", True), (">=141", "80", False)],
)
def test_memory_of_a_gpu_is_meant_as_its_maker_counts(asked: str, said: str, is_met: bool) -> None:
    assert (missing([("gpu_gib", asked)], {"gpu_gib": said}) == []) is is_met
    assert missing([("memory", ">=141")], {"memory": "140"})


def test_a_label_is_shown_as_it_is_asked_for() -> None:
    assert (words_of("gpu", "h100"), words_of("gpus", ">=4")) == ("gpu=h100", "gpus>=4")


def test_an_operator_sets_labels_and_the_command_line_wins() -> None:
    found, problems = operators_labels(" rack=a4, tenant=vision ,", ["rack=b1"])
    assert (found, problems) == ({"rack": "b1", "tenant": "vision"}, [])
    assert operators_labels(None, ()) == ({}, [])


@pytest.mark.parametrize(
    ("pair", "says"),
    [
        ("rack", "is not name=value"),
        ("=a", "is no name of a label"),
        ("Rack=a", "is no name of a label"),
        ("a.b=c", "is no name of a label"),
        (f"{'a' * 33}=c", "is no name of a label"),
        ("rack=", "a value has 1 to 64"),
        ("rack=a b", "a value has 1 to 64"),
        ("rack=a\n", ""),
        ("rack=>=4", "a value has 1 to 64"),
        (f"rack={'a' * 65}", "a value has 1 to 64"),
        *((f"{name}=1", "is said by the pod itself") for name in sorted(RESERVED)),
    ],
)
def test_what_cannot_be_a_label_is_told(pair: str, says: str) -> None:
    found, problems = operators_labels(None, [pair])
    if not says:
        assert (found, problems) == ({"rack": "a"}, [])  # the space around a pair is nobody's
        return
    assert not found
    assert [says in each and each.startswith("--label: ") for each in problems] == [True]
    assert [each.startswith("PODFLEET_LABELS: ") for each in operators_labels(pair, ())[1]] == [True]


def test_labels_are_bounded_and_said_once() -> None:
    many = [f"l{number}=x" for number in range(OPERATORS_MAX + 1)]
    assert "17 labels; a pod has at most 16" in operators_labels(None, many)[1][0]
    assert not operators_labels(None, many[1:])[1]
    assert "given twice, as a and as b" in operators_labels("x=a,x=b", ())[1][0]
