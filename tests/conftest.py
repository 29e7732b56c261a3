"""What every test can rely on: property tests that repeat, and no environment of the developer."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator

import hypothesis
import pytest

hypothesis.settings.register_profile("podfleet", deadline=None, derandomize=True, max_examples=100)
hypothesis.settings.register_profile("long", deadline=None, max_examples=2_000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "podfleet"))

OURS = ("PODFLEET_", "MINIO_", "MONGODB_", "CONTROL_PLANE_", "WORKER_", "RUNPOD_", "OPENAI_", "ANTHROPIC_")


@pytest.fixture(scope="session", autouse=True)
def no_settings_from_outside() -> Iterator[None]:
    """Keep the settings of the machine that runs the tests out of them."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(OURS):
                patch.delenv(name)
        yield


@pytest.fixture(scope="session")
def until() -> Callable[..., None]:
    """Wait for a condition, never for a duration: `until(lambda: run.is_over, seconds=10)`.

    What takes long is looked at more seldom, since looking costs what is waited for its time;
    `every_s` is for what lasts only a moment.
    """

    def wait(condition: Callable[[], object], seconds: float = 60.0, *, every_s: float | None = None) -> None:
        begun_s = time.monotonic()
        pause = threading.Event()
        while not condition():
            waited_s = time.monotonic() - begun_s
            if waited_s > seconds:
                pytest.fail(f"still not so after {seconds} s")
            pause.wait(every_s or min(max(waited_s / 50, 0.02), 0.2))

    return wait


@pytest.fixture(scope="session")
def chromium() -> str:
    """The program of the system's browser, for tests of the web pages."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        found = shutil.which(name)
        if found:
            return found
    pytest.fail("no Chromium on the PATH: scripts/setup.sh browser installs one")
