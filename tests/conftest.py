"""What every test can rely on: property tests that repeat, and no environment of the developer."""

from __future__ import annotations

import os

import hypothesis
import pytest

hypothesis.settings.register_profile("podfleet", deadline=None, derandomize=True, max_examples=100)
hypothesis.settings.register_profile("long", deadline=None, max_examples=2_000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "podfleet"))

OURS = ("PODFLEET_", "MINIO_", "MONGODB_", "CONTROL_PLANE_", "WORKER_", "RUNPOD_", "OPENAI_", "ANTHROPIC_")


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the settings of the machine that runs the tests out of them."""
    for name in list(os.environ):
        if name.startswith(OURS):
            monkeypatch.delenv(name)
