"""The fleet's real decisions and loops under a virtual clock: many seeds, and the bugs they must find."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from testing.simulation.bugs import BUGS
from testing.simulation.history import play

ROOT: Final = Path(__file__).parents[2]
SEEDS: Final = 20
SEEDS_LONG: Final = 500
CHUNK: Final = 20
LONG: Final = pytest.mark.long("500 histories; `make test` plays the first 20, `make chaos` 10,000")
CHUNKS: Final = (
    *range(0, SEEDS, CHUNK),
    *(pytest.param(first, marks=LONG) for first in range(SEEDS, SEEDS_LONG, CHUNK)),
)

# two workers share them
PLANTED: Final = [
    pytest.param(name, marks=pytest.mark.xdist_group(f"planted bugs {number % 2}"))
    for number, name in enumerate(sorted(BUGS))
]
FOUND_WITHIN: Final = 60  # seeds; each planted bug is found in one of them, most in one of the first ten
# The seed that is looked at first, where the first ones take long; where it shows nothing any more, all are.
FOUND_FIRST: Final = {
    "apply-over-a-gap": 5,
    "class-stays-behind": 5,
    "no-claim-token": 3,
    "no-fence": 4,
    "numbers-from-anybody": 4,
    "pruned-is-failed": 1,
    "pruned-runs-again": 16,
    "quarantines-everybody": 1,
    "slots-without-compare": 6,
    "start-without-compare": 17,
}


@pytest.mark.slow("20 histories")
@pytest.mark.parametrize("first", CHUNKS)
def test_no_history_breaks_a_law(first: int) -> None:
    broken = {
        seed: found for seed in range(first, first + CHUNK) if (found := play(seed, trace_max=0).violations)
    }
    assert broken == {}, f"replay with: python -m testing.simulation --seed {next(iter(broken))}"


@pytest.mark.slow("tens of histories, until one shows the bug")
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name: str) -> None:
    bug = BUGS[name]
    seeds = sorted(range(FOUND_WITHIN), key=lambda seed: seed != FOUND_FIRST.get(name))
    assert any(
        play(seed, bug.product, strikes=bug.strikes, themes=bug.themes, trace_max=0).violations
        for seed in seeds
    )


def test_the_same_seed_is_the_same_history_in_any_process() -> None:
    command = [sys.executable, "-m", "testing.simulation", "--seed", "2", "--steps", "1000000"]
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(
                    command, env={"PYTHONHASHSEED": hashing}, cwd=ROOT, stdout=subprocess.PIPE, text=True
                )
            )
            for hashing in ("1", "2")
        ]
        histories = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert histories[0] == histories[1]
    assert len(histories[0].splitlines()) > 500
