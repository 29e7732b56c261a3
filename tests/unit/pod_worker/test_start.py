"""A worker's parent is small and soon there: what it does not need, it does not load."""

from __future__ import annotations

import json
import subprocess
import sys

HEAVY = {
    "torch", "numpy", "scipy", "sklearn", "matplotlib", "pyarrow", "stages", "control_plane", "fastapi",
    "starlette", "uvicorn", "pydantic", "jinja2", "minio", "urllib3", "typer", "yaml", "anthropic", "openai",
}  # fmt: skip
EARLY = "import json, sys, pod_worker.__main__; print(json.dumps(sorted(sys.modules)))"
PROGRAM = "import json, sys, pod_worker.__main__, pod_worker.program; print(json.dumps(sorted(sys.modules)))"


def loaded_by(program: str) -> set[str]:
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in json.loads(answer.stdout)}


def test_before_the_first_child_is_started_nothing_is_loaded_that_takes_long() -> None:
    assert loaded_by(EARLY) & (HEAVY | {"pymongo", "httpx", "sqlite3"}) == set()


def test_the_parent_loads_no_pipeline_and_nothing_that_only_others_need() -> None:
    loaded = loaded_by(PROGRAM)
    assert "pymongo" in loaded, "this is the whole worker"
    assert loaded & HEAVY == set()
