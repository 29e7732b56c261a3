"""A double of genai-bench: it asks nobody, and writes files in the form that genai-bench 0.0.5 writes.

That the form holds was seen in trials with the program itself.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

TOKEN: Final = "hf_of-a-test-abcdef"  # noqa: S105 - of a test
NAME: Final = "D20_4_text-to-text_num_concurrency_2_time_1s.json"
ANSWERED: Final[dict[str, Any]] = {
    "ttft": 0.25, "tpot": 0.25, "e2e_latency": 1.0, "output_latency": 0.75, "output_inference_speed": 4.0,
    "num_input_tokens": 18, "num_output_tokens": 4, "num_reasoning_tokens": 0, "total_tokens": 22,
    "input_throughput": 72.0, "output_throughput": 4.0, "audio_throughput": None, "error_code": None,
    "error_message": None,
}  # fmt: skip
REFUSED: Final[dict[str, Any]] = {
    **dict.fromkeys(ANSWERED),
    "error_code": 429,
    "error_message": f"slow down, {TOKEN}",
}
_PROGRAM: Final = """#!{python}
import json, os, sys, time
from pathlib import Path
options = dict(each.lstrip("-").split("=", 1) for each in sys.argv[2:])
folder = Path(options["experiment-base-dir"], options["experiment-folder-name"])
folder.mkdir()
Path(os.environ["HOME"], "seen").write_text(json.dumps([sys.argv[1:], dict(os.environ)]))
print("token", os.environ.get("HF_TOKEN"), flush=True)
def tell(name, requests, seconds=0.001, unit="s"):
    told = {{"aggregated_metrics": {{"run_duration": seconds, "scenario": "D(20,4)", "stats": {{}}}},
            "individual_request_metrics": requests, "_time_unit": unit}}
    (folder / name).write_text(json.dumps(told, indent=4))
NAME, ANSWERED, REFUSED = {name!r}, {answered!r}, {refused!r}
{does}
"""


def write(folder: Path, does: str) -> None:
    """Put the double into a folder; `does` is Python that has NAME, ANSWERED, REFUSED and `tell`."""
    folder.mkdir()
    program = folder / "genai-bench"
    double = {"name": NAME, "answered": ANSWERED, "refused": REFUSED, "does": does}
    program.write_text(_PROGRAM.format(python=sys.executable, **double))
    program.chmod(0o755)
