"""The secret of a run: its source, and how the next attempt finds it again.

Law: there always is a secret, whatever earlier attempts left. Their measurements count only with the mark
of this secret.
"""

from __future__ import annotations

import secrets
from typing import Final

from events.kinds.experiment import JUDGE
from stages.context import Context
from stages.kinds.experiment.judging.secret import Secret

KEY: Final = "secret"
KEY_CHARS: Final = 64


def secret_of(context: Context, run_seed: int) -> Secret:
    """Return the secret that the pod's fleet has for the run, else that of an earlier attempt, else a new one.

    A new one is kept before anything is measured: what one secret has hidden another cannot go on with.
    Where there is a fleet's, no checkpoint decides, and none has it.
    """
    if fleet := context.tools.judge_secret:
        return Secret.of_fleet(fleet, run_seed)
    earlier = context.restored(JUDGE)
    if earlier is not None:
        key = earlier.state.get(KEY)
        if isinstance(key, str) and len(key) == KEY_CHARS:
            run = f" of run {earlier.from_run}" if earlier.from_run else ""
            context.log(f"the data are disguised by the secret that attempt {earlier.attempt}{run} left")
            return Secret(key)
        left = f"the judge's secret that attempt {earlier.attempt} left"
        context.log(f"{left} cannot be read: there is a new one, and every stage begins anew", "warning")
    secret = Secret(secrets.token_hex(KEY_CHARS // 2))
    context.checkpoint(JUDGE, {KEY: secret.key})
    return secret
