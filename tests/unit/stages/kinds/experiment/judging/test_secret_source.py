"""Where the secret of a run comes from: its fleet, an earlier attempt, or chance; there is always one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from events.kinds import read_spec
from events.kinds.space.data_sets import SHIPPED
from stages.kinds.experiment.data.loading import prepare
from stages.kinds.experiment.judging.disguise import disguise_of
from stages.kinds.experiment.judging.secret import Secret
from stages.kinds.experiment.judging.secret_source import secret_of
from stages.ports.checkpoints import Restored
from stages.testing import MemoryCheckpoints, make_context, make_tools

SPEC = read_spec("experiment", {"idea": "Dropout improves accuracy on iris"})


def secret(folder: Path, checkpoints: MemoryCheckpoints, fleet: str = "", seed: int = 3) -> Secret:
    tools = make_tools(judge_secret=fleet)
    return secret_of(make_context(SPEC, folder, checkpoints=checkpoints, tools=tools), seed)


def test_the_next_attempt_goes_on_with_the_secret_of_the_first(tmp_path: Path) -> None:
    first = MemoryCheckpoints(1)
    one = secret(tmp_path, first)
    assert secret(tmp_path, MemoryCheckpoints(attempt=2, found=first.kept)) == one
    assert one != secret(tmp_path, MemoryCheckpoints(1)), "each run has its own"
    assert one.key not in repr(one)
    assert one.mark not in one.key


def test_a_fleet_that_has_a_secret_measures_the_same_by_equal_seeds(tmp_path: Path) -> None:
    one, same, other = (secret(tmp_path, MemoryCheckpoints(1), "ours", seed) for seed in (3, 3, 4))
    assert one == same
    assert one != other
    assert one != secret(tmp_path, MemoryCheckpoints(1), "theirs", 3)


def test_where_a_fleet_has_a_secret_no_checkpoint_decides_or_holds_it(tmp_path: Path) -> None:
    chosen = MemoryCheckpoints(attempt=2, found={"judge": Restored(1, {"secret": "a" * 64}, {})})
    assert secret(tmp_path, chosen, "ours") == Secret.of_fleet("ours", 3)
    assert chosen.kept == {}


LEFT = {
    "nothing": {},
    "a stage alone": {"Stage_1": Restored(1, {"is_complete": True}, {})},
    **{
        f"the secret {state}": {"judge": Restored(1, state, {}), "Stage_1": Restored(1, {}, {})}
        for state in ({}, {"secret": 7}, {"secret": "short"}, {"secret": ["a"] * 64})
    },
}


@pytest.mark.parametrize("left", LEFT)
def test_whatever_earlier_attempts_left_the_data_are_disguised_by_a_secret_that_is_kept(
    tmp_path: Path, left: str
) -> None:
    found = MemoryCheckpoints(attempt=2, found=LEFT[left])
    one = secret(tmp_path, found)
    assert found.kept["judge"].state == {"secret": one.key}
    assert one.key != secret(tmp_path, MemoryCheckpoints(attempt=2, found=LEFT[left])).key, "nobody knew it"
    data = prepare(SHIPPED["iris"], seed=0)
    hidden = disguise_of(data, one, is_public=True).worn(data).data
    assert not np.array_equal(hidden.sealed.features, data.sealed.features)
