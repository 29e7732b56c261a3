"""Where the secret of a run comes from: one for all attempts, none for what began before there were any."""

from __future__ import annotations

from pathlib import Path

from events.runs import read_spec
from stages.checkpoints import Restored
from stages.experiment.data import prepare
from stages.experiment.judging.disguise import disguised
from stages.experiment.judging.keeping import secret_of
from stages.experiment.judging.secret import Secret
from stages.space.data_sets import SHIPPED
from stages.testing import MemoryCheckpoints, make_context, make_tools

SPEC = read_spec("experiment", {"idea": "Dropout improves accuracy on iris"})


def secret(folder: Path, checkpoints: MemoryCheckpoints, fleet: str = "", seed: int = 3) -> Secret:
    tools = make_tools(judge_secret=fleet)
    return secret_of(make_context(SPEC, folder, checkpoints=checkpoints, tools=tools), seed)


def test_the_next_attempt_goes_on_with_the_secret_of_the_first(tmp_path: Path) -> None:
    first = MemoryCheckpoints(1)
    one = secret(tmp_path, first)
    assert secret(tmp_path, MemoryCheckpoints(attempt=2, found=first.kept), fleet="another fleet's") == one
    assert one != secret(tmp_path, MemoryCheckpoints(1)), "each run has its own"
    assert one.key not in repr(one)
    assert one.mark not in one.key


def test_a_fleet_that_has_a_secret_measures_the_same_by_equal_seeds(tmp_path: Path) -> None:
    one, same, other = (secret(tmp_path, MemoryCheckpoints(1), "ours", seed) for seed in (3, 3, 4))
    assert one == same
    assert one != other
    assert one != secret(tmp_path, MemoryCheckpoints(1), "theirs", 3)


def test_a_run_that_began_before_there_were_secrets_goes_on_with_its_rows(tmp_path: Path) -> None:
    begun = MemoryCheckpoints(attempt=2, found={"Stage_1": Restored(1, {"is_complete": True}, {})})
    found = secret(tmp_path, begun)
    assert (found.hides, found.mark) == (False, "")
    data = prepare(SHIPPED["iris"], seed=0)
    assert disguised(data, found, is_public=True).data is data


def test_a_secret_that_a_checkpoint_does_not_hold_is_not_believed(tmp_path: Path) -> None:
    for state in ({}, {"secret": 7}, {"secret": "short"}, {"secret": ["a"] * 64}):
        lying = MemoryCheckpoints(attempt=2, found={"judge": Restored(1, state, {})})
        assert len(secret(tmp_path, lying).key) == 64
