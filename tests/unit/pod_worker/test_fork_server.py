"""Where a worker's children come from: what it does to those that nobody waits for."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from pod_worker.child.fork_server import reap_orphans


def test_a_thread_that_ends_while_its_children_are_looked_for_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    forgotten = os.fork()
    if not forgotten:
        os._exit(0)
    listed = Path.glob

    def with_one_that_ended(self: Path, pattern: str) -> list[Path]:
        ended = threading.Thread(target=lambda: None)
        ended.start()
        ended.join()
        return [self / str(ended.native_id) / "children", *listed(self, pattern)]

    monkeypatch.setattr(Path, "glob", with_one_that_ended)
    os.waitid(os.P_PID, forgotten, os.WEXITED | os.WNOWAIT)
    reap_orphans(fork_server=0)
    with pytest.raises(ChildProcessError):
        os.waitid(os.P_PID, forgotten, os.WEXITED | os.WNOHANG)
