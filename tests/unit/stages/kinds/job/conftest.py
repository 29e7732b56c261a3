"""Jobs in the process of a test, which other tests share."""

from __future__ import annotations

import pytest

from stages.kinds.job import pipeline


@pytest.fixture(autouse=True)
def visible(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the process of the tests as it is: a pipeline hides its own, for good."""
    monkeypatch.setattr(pipeline, "hide", lambda: None)
