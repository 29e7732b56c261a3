"""Where a run's secret comes from, and how the next attempt finds it again."""

from __future__ import annotations

import secrets
from typing import Final

from events.runs import BESIDE_STAGES
from stages.context import Context
from stages.experiment.judging.secret import Secret

(JUDGE,) = BESIDE_STAGES  # the checkpoint
KEY: Final = "secret"
KEY_CHARS: Final = 64
FIRST_STAGE: Final = "Stage_1"


def secret_of(context: Context, run_seed: int) -> Secret:
    """Return the secret that an earlier attempt left, else that of the pod's fleet, else a new one.

    It is kept before anything is measured: what one secret has hidden another cannot go on with.
    """
    earlier = context.restored(JUDGE)
    key = None if earlier is None else earlier.state.get(KEY)
    if isinstance(key, str) and len(key) == KEY_CHARS:
        return Secret(key)
    if context.restored(FIRST_STAGE) is not None:
        context.log("this run began before data were disguised, and goes on with the rows that it began with")
        return Secret(secrets.token_hex(KEY_CHARS // 2), hides=False)
    fleet = context.tools.judge_secret
    secret = Secret.of_fleet(fleet, run_seed) if fleet else Secret(secrets.token_hex(KEY_CHARS // 2))
    context.checkpoint(JUDGE, {KEY: secret.key})
    return secret
