"""The process of a run that serves a small model and asks it, confined in one way.

    serving_run.py ROOT HOME user|namespace|landlock

It prints as JSON who it is, what the model answered, and what is left of the engine.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from events.runtime.clock import SystemClock, SystemIds
from pod_worker.child.confine import enter
from pod_worker.isolation.confinement import Confinement
from stages.adapters.models.opening import open_endpoint, served_endpoint
from stages.engines.processes import is_free, living
from stages.engines.rows import XLLAMACPP
from stages.engines.serving import serve
from stages.engines.weights import located
from stages.models.model import Question
from tests.integration.programs.nobodys_worker import be_nobody


def main(root: str, home: Path, way: str) -> None:
    """Confine this process as a worker does, and serve."""
    environ = {"PATH": os.defpath, "PYTHONPATH": root}
    if way == "user":
        confinement = Confinement.by_user(home / "data", environ)
    else:
        confinement = Confinement.of_same_user(
            "namespace" if way == "namespace" else "landlock", home / "data", environ, []
        )
    confinement.work.mkdir(parents=True, exist_ok=True)
    space = confinement.make_space()
    folder = space.work or space.home
    enter(confinement, space)
    question = Question(purpose="answer", system="", text="Say hello.", temperature=0.0, tokens_max=8)
    clock, ids = SystemClock(), SystemIds()
    with serve(
        XLLAMACPP, located("smollm2"), {}, name="smollm2", folder=folder, clock=clock, ids=ids
    ) as served:
        answer = open_endpoint(served_endpoint(served.name, served.url), clock=clock, ids=ids).ask(question)
    left = [*living(served.pid), *([] if is_free(served.port) else [served.port])]
    tokens = answer.usage.completion_tokens
    print(json.dumps({"user": os.getuid(), "tokens": tokens, "text": answer.text, "left": left}))


if __name__ == "__main__":
    if os.getuid() == 0 and sys.argv[3] != "user":
        be_nobody(sys.argv[1])
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
