"""Which engines a pod says that it has."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from events.models.engines import ENGINES
from pod_worker.machine.engines import engines_here

MODULE = replace(ENGINES["xllamacpp"], name="module", needs="json")
PROGRAM = replace(ENGINES["ollama"], name="program", needs="serves-a-model")


def test_an_engine_is_here_with_its_module_or_its_program(tmp_path: Path) -> None:
    lacking = replace(MODULE, name="lacking", needs="no_such_module")
    engines = [MODULE, PROGRAM, lacking, ENGINES["command"]]

    environ = {"PATH": str(tmp_path)}

    assert engines_here(environ, engines) == ["module"]

    for name in ("serves-a-model", "docker"):
        (tmp_path / name).symlink_to(sys.executable)

    assert engines_here(environ, engines) == ["module", "program"]
    assert engines_here({**environ, "PODFLEET_ENGINES": "command"}, engines)[2:] == ["command"]
    assert engines_here({**environ, "PODFLEET_ENGINES": "image,proxy,command"}, engines)[2:] == [
        "command",
        "proxy",
        "docker",
    ]
    beside = replace(PROGRAM, needs=Path(sys.executable).name)
    assert engines_here({"PATH": "/nowhere"}, [beside]) == ["program"], "beside this Python"
