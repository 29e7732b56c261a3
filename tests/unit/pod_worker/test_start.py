"""A worker's parent is small and soon there: what it does not need, it does not load."""

from __future__ import annotations

import json
import subprocess
import sys

HEAVY = {
    "torch", "numpy", "scipy", "sklearn", "matplotlib", "pyarrow", "stages", "control_plane", "fastapi",
    "starlette", "uvicorn", "pydantic", "jinja2", "minio", "urllib3", "typer", "yaml", "anthropic", "openai",
}  # fmt: skip
PROGRAM = "import json, sys, pod_worker.__main__; print(json.dumps(sorted(sys.modules)))"


def test_the_parent_loads_no_pipeline_and_nothing_that_only_others_need() -> None:
    answer = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in json.loads(answer.stdout)}
    assert "pymongo" in loaded, "this is the whole worker"
    assert loaded & HEAVY == set()
