"""What is said of a specification that cannot be meant."""

from __future__ import annotations

import pytest

from events.kinds import read_spec
from events.queue.requirements import read_requirements
from events.runtime.errors import Rejected


def test_an_unknown_field_is_refused_with_the_fields_that_there_are() -> None:
    with pytest.raises(Rejected, match=r"unknown field `second`; known: .*\bseconds\b"):
        read_spec("probe", {"second": 1})
    with pytest.raises(Rejected, match=r"unknown field `gpu`; known: gpu_gib, region$"):
        read_requirements({"gpu": 1})
    with pytest.raises(Rejected, match=r"at `\$\.nodes`$"):
        read_spec("experiment", {"idea": "x", "nodes": {"Stage_9": 1}})
