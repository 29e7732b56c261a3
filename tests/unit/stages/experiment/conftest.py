"""What a pod offers to the experiments of these tests: programs run in forks, quickly."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stages.ports import Tools
from stages.testing import ForkingSandbox, make_tools


@pytest.fixture(scope="session")
def tools() -> Iterator[Tools]:
    """Tools whose sandbox really runs programs; what it does not hold in is a matter of its own tests."""
    with ForkingSandbox() as sandbox:
        yield make_tools(sandbox)
