"""The engine that a run names, and what its pod has to allow for it."""

from __future__ import annotations

import pytest

from events.models.engines import ENGINES
from events.models.rows.vllm import VLLM
from events.runtime.errors import PipelineError
from stages.engines.choice import chosen

TEMPLATE = "my-server {model} {port}"


def test_a_row_needs_no_consent() -> None:
    for name, engine in ENGINES.items():
        if name != "command":
            assert chosen(name, {}) is engine


@pytest.mark.parametrize(
    ("name", "more", "allowed", "code", "why"),
    [
        ("nothing", {}, "command,image", "CONFIG", "there is no engine 'nothing'; there are xllamacpp, "),
        ("command", {"command": TEMPLATE}, "", "NOT_AVAILABLE", "lets no run bring the command of an engine"),
        ("command", {"command": TEMPLATE}, "image", "NOT_AVAILABLE", "PODFLEET_ENGINES=command would"),
        ("vllm", {"image": "x:1"}, "command", "NOT_AVAILABLE", "lets no run bring the image of an engine"),
        ("command", {"command": TEMPLATE, "image": "x"}, "", "NOT_AVAILABLE", "command and the image"),
        ("command", {"command": ""}, "command", "CONFIG", "a template of the command is needed"),
    ],
)
def test_what_a_run_brings_needs_the_consent_of_its_pod(
    name: str, more: dict[str, str], allowed: str, code: str, why: str
) -> None:
    with pytest.raises(PipelineError) as caught:
        chosen(name, {"PODFLEET_ENGINES": allowed}, **more)
    assert (caught.value.code, why in caught.value.message) == (code, True), caught.value.message


def test_with_consent_it_is_used() -> None:
    allowed = {"PODFLEET_ENGINES": " command , image"}
    assert chosen("command", allowed, command=TEMPLATE).command == ("my-server", "{model}", "{port}")
    assert chosen("vllm", allowed, image=VLLM.image) is VLLM
