"""What a child makes of its order."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from events.pipe import Start
from pod_worker.child_main import _run
from pod_worker.child_notes import ChildNotes
from stages.context import Context
from stages.testing import MemoryCheckpoints, RecordingReporter


def test_a_pipeline_learns_its_run_and_its_pod(tmp_path: Path) -> None:
    seen: list[Context] = []

    def pipeline(context: Context) -> str:
        seen.append(context)
        return "done"

    order = Start("r", 3, "probe", {}, str(tmp_path), str(tmp_path / "restored"), pod="alpha")
    _run(order, {"probe": pipeline}, *cast(Any, (RecordingReporter(), MemoryCheckpoints(), ChildNotes())))
    (context,) = seen
    assert (context.run_id, context.attempt, context.pod) == ("r", 3, "alpha")
