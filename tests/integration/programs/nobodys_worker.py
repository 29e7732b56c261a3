"""A worker that is not root, with a folder that holds what a worker has there, and its one run.

    nobodys_worker.py ROOT HOME WAY started|forked

ROOT is reached with the rights of who starts it, which are then given up. It prints as JSON what its trial
found, and what the run said.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
from pathlib import Path

from events.clock import SystemClock
from events.pipe import Made, Ready, Said, Start
from pod_worker.child import ChildOptions
from pod_worker.confinement import Confinement
from pod_worker.mounts import show
from pod_worker.nursery import Nursery
from pod_worker.privileges import hide

NOBODY = 65_533
LIMIT_S = 60.0


def be_nobody(root: str) -> None:
    """Start this program again as a user who may reach it."""
    python = (sys.prefix, sys.base_prefix, os.path.realpath(sys.executable))
    show([root, tempfile.gettempdir(), *python, *filter(os.path.exists, sys.path)])
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    os.execv(sys.executable, [sys.executable, *sys.argv])  # noqa: S606


def main(root: str, home: Path, way: str, how: str) -> None:
    """Try the confinement, and run the attacker in it."""
    hide()
    environ = {"PATH": os.defpath, "PYTHONPATH": root}
    if how == "started":  # once a way is enough: what holds programs is looked for, which takes a second
        environ["PYTHONSANDBOX"] = "1"
    confinement = Confinement.of_same_user(way, home / "data", environ, [home / ".env", home / ".podfleet"])
    gap = confinement.find_gap(environ)
    if gap is not None:
        print(json.dumps({"gap": gap}))
        return
    (home / "data" / "work" / "run-1" / "other-a1").mkdir(parents=True)
    (home / "data" / "work" / "run-1" / "other-a1" / "secret").write_text("secret")
    command = (sys.executable, str(Path(root, "tests/integration/programs/attacker.py")))
    options = ChildOptions(environ=environ, command=command, confinement=confinement)
    heard: list[object] = []
    with Nursery(options, SystemClock(), command) as nursery:
        if how == "forked":
            nursery.warm_up()
            never = threading.Event()
            while not nursery.is_warm():
                never.wait(0.01)
        with nursery.spawn() as child:
            ready = child.wait_ready(LIMIT_S)
            assert isinstance(ready, Ready), ready
            assert child.work is not None
            workspace = child.work / "r-a1"
            (workspace / "restored").mkdir(parents=True)
            (workspace / "restored" / "old").write_text("state")
            child.start(Start("r", 1, "probe", {}, str(workspace), str(workspace / "restored")), heard.append)
            ended = child.join(LIMIT_S)
            assert ended is not None
            made = [Path(one.path).read_text() for one in heard if isinstance(one, Made)]
    said = [one for one in heard if isinstance(one, Said)]
    lines = [str(one.data["message"]) for one in said if one.type == "ai.run.log"]
    told = dict(each.split(": ", 1) for each in lines if ": " in each)
    left = sorted(each.name for each in (home / "data" / "work").iterdir())
    end = {"gap": None, "end": ended.final, "made": made, "left": left, "lines": lines}
    print(json.dumps({**end, **told}))


if __name__ == "__main__":
    if os.getuid() == 0:
        be_nobody(sys.argv[1])
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4])
