"""What tests of figures share: the style in which every figure is drawn."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib as mpl
import pytest

from stages.kinds.experiment.plots.canvas import STYLE


@pytest.fixture(autouse=True, scope="session")
def style() -> Iterator[None]:
    """Draw as a run draws."""
    with mpl.rc_context(dict(STYLE)):
        yield
