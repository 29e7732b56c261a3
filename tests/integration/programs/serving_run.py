"""The process of a run that serves a small model and asks it, confined in one way.

    serving_run.py ROOT HOME user|namespace|landlock

It prints as JSON who it is, what the model answered, and what is left of the engine.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
from contextlib import closing
from pathlib import Path

from events.models.engines import XLLAMACPP
from events.runtime.clock import SystemClock, SystemIds
from pod_worker.child.confine import enter
from pod_worker.isolation.confinement import Confinement
from stages.engines.processes import is_free, living
from stages.engines.serving import serve
from stages.engines.weights import located
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
    clock, ids = SystemClock(), SystemIds()
    with serve(
        XLLAMACPP, located("smollm2"), {}, name="smollm2", folder=folder, clock=clock, ids=ids
    ) as served:
        tokens = answered(served.port)
    left = [*living(served.pid), *([] if is_free(served.port) else [served.port])]
    print(json.dumps({"user": os.getuid(), "tokens": tokens, "left": left}))


def answered(port: int) -> int:
    """Return how many tokens the model answers; the SDK takes a second to import."""
    body = {"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 8, "temperature": 0}
    with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        headers = {"content-type": "application/json"}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        tokens: int = json.loads(connection.getresponse().read())["usage"]["completion_tokens"]
        return tokens


if __name__ == "__main__":
    if os.getuid() == 0 and sys.argv[3] != "user":
        be_nobody(sys.argv[1])
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
