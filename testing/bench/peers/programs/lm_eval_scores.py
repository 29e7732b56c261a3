"""lm-eval: asks a model the questions that it is given, and scores the answers with its own means.

A function is executed with its tests in a process of its own, as in the evaluation that was published with
HumanEval: lm-eval fetches that from a hub, which may not be reached from here.
"""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any, Final

from datasets import Dataset, DatasetDict
from lm_eval import simple_evaluate

from testing.bench.peers.programs.orders import obey

TEST_S: Final = 10.0
BLOCK: Final = re.compile(r"```(?:python|py)?[^\n]*\n(.*?)(?:```|\Z)", re.DOTALL)
# As in lm-eval's own tasks of GSM8K.
LAST_NUMBER: Final = {
    "name": "flexible-extract",
    "filter": [
        {"function": "regex", "group_select": -1, "regex_pattern": r"(-?[$0-9.,]{2,})|(-?[0-9]+)"},
        {"function": "take_first"},
    ],
}
IGNORED: Final = [",", r"\$", r"(?s).*#### ", r"\.$"]


def evaluate(order: dict[str, Any]) -> dict[str, float]:
    """Return the score of each item by its id."""
    rows = [{**row, "number": number} for number, row in enumerate(order["items"])]
    config: dict[str, Any] = {
        "task": order["task"],
        "custom_dataset": lambda **_: DatasetDict({"test": Dataset.from_list(rows)}),
        "test_split": "test",
        "output_type": "generate_until",
        "doc_to_text": "{{prompt}}",
        "doc_to_target": "{{answer}}",
        "generation_kwargs": {
            "until": [],
            "max_gen_toks": order["tokens_max"],
            "temperature": 0.0,
            "do_sample": False,
        },
    }
    if order["task"] == "functions":
        config |= {"process_results": passes, "metric_list": [{"metric": "score", "aggregation": "mean"}]}
    else:
        metric = {
            "metric": "exact_match",
            "aggregation": "mean",
            "ignore_case": True,
            "regexes_to_ignore": IGNORED,
        }
        config |= {"metric_list": [metric], "filter_list": [LAST_NUMBER]}
    found = simple_evaluate(
        model="local-chat-completions",
        model_args={
            "base_url": f"{order['url']}/chat/completions",
            "model": order["model"],
            "num_concurrent": 1,
            "tokenizer_backend": None,
        },
        tasks=[config],
        apply_chat_template=True,
        log_samples=True,
        bootstrap_iters=0,
        cache_requests=False,
    )
    name = "score" if order["task"] == "functions" else "exact_match"
    return {rows[each["doc"]["number"]]["id"]: float(each[name]) for each in found["samples"][order["task"]]}


def passes(doc: dict[str, Any], results: list[str]) -> dict[str, float]:
    """Return whether the first block of code of an answer, behind its question's own, passes its tests."""
    block = BLOCK.search(results[0])
    code = block.group(1) if block else results[0]
    program = f"{doc['opening']}\n\n{code}\n\n{doc['test']}\n\ncheck({doc['entry_point']})\n"
    try:
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, timeout=TEST_S, check=False
        )
    except subprocess.TimeoutExpired:
        return {"score": 0.0}
    return {"score": float(done.returncode == 0)}


if __name__ == "__main__":
    obey(evaluate)
