"""Load generators of others, where they are on the PATH: genai-bench and guidellm.

Each takes gigabytes (PyTorch, tokenizers, plots): none is installed for this alone. genai-bench tells no
times of single requests that could be matched: hundredths of all times are compared with the engine's.
guidellm tells the id of each answer, as the own client does, and has processes of its own, which count.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx
import psutil

from events.runtime.clock import SystemIds
from events.text.traffic import Uniform, read_scenarios
from stages.engines.load import genai_bench
from stages.engines.load.plan import Load, Target
from testing.bench.comparison import Absent, Figures, Setting, Way, percentile
from testing.bench.machine import CLOCK
from testing.bench.peers.environments import NOT_WANTED
from testing.bench.servers import scripted_engine

GUIDELLM: Final = "guidellm"
PEERS: Final = (genai_bench.PROGRAM, GUIDELLM)
SEED: Final = 1
LOOK_S: Final = 0.25
LIMIT_S: Final = 300.0


def way(peer: str, setting: Setting, model: str, streams: int, traffic: str, requests: int) -> Way | Absent:
    """Return how to measure a peer with so many requests, or why it cannot be."""
    if not setting.peers:
        return NOT_WANTED
    program = shutil.which(peer)
    if program is None:
        return Absent(f"{peer} is not installed: pip install {peer} into an environment on the PATH")
    measured = _guidellm if peer == GUIDELLM else _genai_bench
    return partial(measured, program, setting.scratch, model, streams, traffic, requests)


def _genai_bench(
    program: str, scratch: Path, model: str, streams: int, traffic: str, requests: int
) -> Figures:
    folder = scratch / SystemIds().ulid()
    folder.mkdir()
    tokenizer = genai_bench.write_tokenizer(folder / "words")
    with scripted_engine() as url:
        load = Load(scenario=read_scenarios(traffic)[0], concurrency=streams, requests=requests, limit_s=60.0)
        target = Target(base_url=f"{url}/v1", model=model, takes_ignore_eos=True)
        command = genai_bench.command(program, target, load, tokenizer=tokenizer, folder=folder)
        looks = _run(command, folder)
        log = httpx.get(f"{url}/log", trust_env=False, timeout=LIMIT_S).json()
    (report,) = (folder / genai_bench.RESULTS).glob(genai_bench.REPORTS[0])
    told = json.loads(report.read_text())["individual_request_metrics"]
    return {
        "processor": _processor(looks, log),
        **_errors([each["ttft"] for each in told], [each["first_s"] - each["received_s"] for each in log]),
    }


def _guidellm(program: str, scratch: Path, model: str, streams: int, traffic: str, requests: int) -> Figures:
    folder = scratch / SystemIds().ulid()
    folder.mkdir()
    (lengths,) = read_scenarios(traffic)
    assert isinstance(lengths, Uniform)
    chance, asked = random.Random(SEED), folder / "asked.jsonl"
    with asked.open("w") as file:
        for _ in range(requests):
            words = "the " * chance.randint(lengths.least_in, lengths.most_in)
            tokens = chance.randint(lengths.least_out, lengths.most_out)
            file.write(json.dumps({"prompt": words, "output_tokens_count": tokens}) + "\n")
    tokenizer, report = genai_bench.write_tokenizer(folder / "words"), folder / "report.json"
    with scripted_engine() as url:
        options: dict[str, dict[str, object]] = {
            "backend": {"kind": "openai_http", "target": url, "model": model, "validate_backend": False},
            "profile": {"kind": "concurrent", "streams": [streams]},
            "constraint": {"kind": "max_requests", "count": requests},
            "tokenizer": {"kind": "huggingface_auto", "model": tokenizer},
            "data": {"kind": "json_file", "path": str(asked)},
            "output": {"kind": "json", "path": str(report)},
        }
        said = [word for name, each in options.items() for word in (f"--{name}", json.dumps(each))]
        looks = _run([program, "run", "--disable-console", *said], folder)
        log = httpx.get(f"{url}/log", trust_env=False, timeout=LIMIT_S).json()
    (found,) = json.loads(report.read_text())["benchmarks"]
    told = found["requests"]["successful"]
    assert len(told) == len(log) == requests, f"{len(told)} answers of {len(log)} requests"
    truth_s = {f"r{each['number']}": each["first_s"] - each["received_s"] for each in log}
    errors_ms = [abs(each["time_to_first_token_ms"] - 1_000 * truth_s[each["response_id"]]) for each in told]
    return {"processor": _processor(looks, log), **_percentiles(errors_ms)}


def _run(command: Sequence[str], folder: Path) -> list[tuple[float, float]]:
    """Return what the processor had done for a program, from time to time until it ends."""
    looks: list[tuple[float, float]] = []
    ended = threading.Event()
    environ = {**os.environ, "HF_HUB_OFFLINE": "1"}
    with (folder / "log").open("wb") as log, subprocess.Popen(
        command, cwd=folder, env=environ, stdout=log, stderr=log
    ) as process:  # fmt: skip
        watched, until_s = psutil.Process(process.pid), CLOCK.monotonic_s() + LIMIT_S
        while process.poll() is None:
            looks.append((CLOCK.monotonic_s(), _used_s(watched)))
            if CLOCK.monotonic_s() > until_s:
                process.kill()
            CLOCK.wait(ended, LOOK_S)
    assert process.returncode == 0, (folder / "log").read_text()[-2_000:]
    return looks


def _used_s(watched: psutil.Process) -> float:
    """Return what a process and those below it, as far as they live, had of processors."""
    found = 0.0
    with suppress(psutil.NoSuchProcess):
        for each in (watched, *watched.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                times = each.cpu_times()
                found += times.user + times.system
    return found


def _processor(looks: Sequence[tuple[float, float]], log: Sequence[dict[str, Any]]) -> float:
    """Return percents of a core between the first request and the last; starts and plots are left out."""
    begun_s, ended_s = log[0]["received_s"], log[-1]["received_s"]
    within = [look for look in looks if begun_s <= look[0] <= ended_s]
    (first_s, first_cpu_s), (last_s, last_cpu_s) = within[0], within[-1]
    return 100 * (last_cpu_s - first_cpu_s) / (last_s - first_s)


def _errors(theirs_s: Sequence[float], told_s: Sequence[float]) -> Figures:
    pairs = zip(*(statistics.quantiles(each, n=100) for each in (theirs_s, told_s)), strict=True)
    return _percentiles([1_000 * abs(ours - told) for ours, told in pairs])


def _percentiles(errors_ms: Sequence[float]) -> Figures:
    return {
        "first token, median error": percentile(errors_ms, 0.5),
        "first token, p99 error": percentile(errors_ms, 0.99),
    }
