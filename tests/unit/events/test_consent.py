"""The engine that a run names, and what its pod has to allow for it."""

from __future__ import annotations

import pytest

from events.models.engines import ENGINES, chosen
from events.models.rows.vllm import VLLM
from events.runtime.errors import PipelineError

TEMPLATE = "my-server {model} {port}"


def test_a_row_needs_no_consent() -> None:
    for name, engine in ENGINES.items():
        if name != "command":
            assert chosen(name, {}) is engine


@pytest.mark.parametrize(
    ("name", "more", "allowed", "elsewhere", "why"),
    [
        ("nothing", {}, "command,image", False, "there is no engine 'nothing'; there are xllamacpp, "),
        ("command", {"command": TEMPLATE}, "", True, "lets no run bring the command of an engine"),
        ("command", {"command": TEMPLATE}, "image", True, "PODFLEET_ENGINES=command would"),
        ("vllm", {"image": "x:1"}, "command", True, "lets no run bring the image of an engine"),
        ("command", {"command": TEMPLATE, "image": "x"}, "", True, "command and the image"),
        ("command", {"command": ""}, "command", False, "a template of the command is needed"),
    ],
)
def test_what_a_run_brings_needs_the_consent_of_its_pod(
    name: str, more: dict[str, str], allowed: str, elsewhere: bool, why: str
) -> None:
    with pytest.raises(PipelineError) as caught:
        chosen(name, {"PODFLEET_ENGINES": allowed}, **more)
    assert (caught.value.code, caught.value.retryable) == ("CONFIG", elsewhere), "its pod is not at fault"
    assert why in caught.value.message


def test_with_consent_it_is_used() -> None:
    allowed = {"PODFLEET_ENGINES": " command , image"}
    assert chosen("command", allowed, command=TEMPLATE).command == ("my-server", "{model}", "{port}")
    assert chosen("vllm", allowed, image=VLLM.image) is VLLM
