"""What a child makes of its order."""

from __future__ import annotations

import io
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from events.delivery.pipe import Shown, Start
from events.files.checkpoints import MANIFEST, Manifest, encode_manifest
from events.files.paths import SafeName
from events.runtime.clock import SystemClock
from pod_worker.child.live_view import ChildLiveView
from pod_worker.child.main import _run, serve
from pod_worker.child.notes import ChildNotes
from stages.context import Context
from stages.ports import NoBarrier
from stages.ports.containers import NoContainers
from stages.ports.environments import NoEnvironments
from stages.testing import MemoryCheckpoints, RecordingReporter


def test_a_pipeline_learns_its_run_and_its_pod(tmp_path: Path) -> None:
    seen: list[Context] = []

    def pipeline(context: Context) -> str:
        seen.append(context)
        return "done"

    order = Start("r", 3, "probe", {}, str(tmp_path), str(tmp_path / "restored"), pod="alpha")
    _run(
        order,
        {"probe": pipeline},
        *cast(
            Any,
            (
                RecordingReporter(),
                MemoryCheckpoints(),
                ChildNotes(),
                NoBarrier(),
                ChildLiveView(_dropped, SystemClock()),
                NoEnvironments(),
                NoContainers(),
            ),
        ),
    )
    (context,) = seen
    assert (context.run_id, context.attempt, context.pod) == ("r", 3, "alpha")


def test_a_pipeline_learns_pods_a_wanted_replication_and_what_it_is_told_by_its_order_alone(
    tmp_path: Path,
) -> None:
    (tmp_path / "restored" / "one").mkdir(parents=True)
    manifest = Manifest(
        version=1, name=SafeName("one"), run_id="r", attempt=2, state={"pods": ["a liar"]}, files=[]
    )
    (tmp_path / "restored" / "one" / MANIFEST).write_bytes(encode_manifest(manifest))
    seen: list[tuple[tuple[str, ...], bool, Any]] = []

    def pipeline(context: Context) -> str:
        found = context.restored("one")
        assert found is not None
        seen.append((found.pods, context.replication_asked, context.told))
        return "done"

    restored, pods = str(tmp_path / "restored"), {"one": ["alpha", ""]}
    order = Start(
        "r", 3, "probe", {}, str(tmp_path), restored, pods_before=pods, replication_asked=True, told={"x": 1}
    )
    reporter: Any = RecordingReporter()
    parts: Any = (
        SimpleNamespace(say=reporter.say, send=reporter.say, offer=reporter.say, ended=False),
        Deaf(),
        io.BytesIO(),
    )
    serve(order, {"probe": pipeline}, *parts)
    assert seen == [(("alpha", ""), True, {"x": 1})]


def _dropped(_: Shown) -> None:
    """Show it to nobody."""


class Deaf:
    """Hears no signal."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass

    def listen(self) -> None:
        pass


def test_secrets_reach_the_environment_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"OPENAI_API_KEY": "the pod's"})
    seen: list[str] = []

    def pipeline(context: Context) -> str:
        seen.append(os.environ["OPENAI_API_KEY"])  # noqa: TID251 - as a pipeline does
        return "done"

    order = Start("r", 1, "probe", {}, str(tmp_path), str(tmp_path), secrets={"OPENAI_API_KEY": "the run's"})
    reporter: Any = RecordingReporter()
    parts: Any = (
        SimpleNamespace(say=reporter.say, send=reporter.say, offer=reporter.say, ended=False),
        Deaf(),
        io.BytesIO(),
    )
    serve(order, {"probe": pipeline}, *parts)
    assert seen == ["the run's"]
