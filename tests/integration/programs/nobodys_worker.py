"""A worker that is not root, with a folder that holds what a worker has there, and its runs.

    nobodys_worker.py ROOT HOME WAY attacks|lies

ROOT is reached with the rights of who starts it, which are then given up. It prints as JSON what its trial
found, what a run said whose process was started, or forked, and what became of what does not confine.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path

from events.delivery.pipe import FactFrame, Made, Ready, Start
from events.runtime.clock import SystemClock
from events.runtime.hiding import hide
from pod_worker.child.fork_server import ForkServer
from pod_worker.child.process import ChildOptions
from pod_worker.isolation.confinement import Confinement, Method
from pod_worker.isolation.mounts import show

NOBODY = 65_533
LIMIT_S = 60.0
Told = dict[str, object]
Command = tuple[str, ...]


def be_nobody(root: str) -> None:
    """Start this program again as a user who may reach it."""
    python = (sys.prefix, sys.base_prefix, os.path.realpath(sys.executable))
    show([root, tempfile.gettempdir(), *python, *filter(os.path.exists, sys.path)])
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    os.execv(sys.executable, [sys.executable, *sys.argv])  # noqa: S606


def main(root: str, home: Path, way: Method, what: str) -> None:
    """Try the confinement, run the attacker in it, and try some that are broken."""
    hide()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"\0{home.name}")
    listener.listen()
    # The folder of all this is one of packages, too: what hides the rest of it is told in the confinement.
    environ = {"PATH": os.defpath, "PYTHONPATH": f"{root}:{home}"}
    confinement = Confinement.of_same_user(way, home / "data", environ, [home / ".env", home / ".podfleet"])
    attacker = (sys.executable, str(Path(root, "tests/integration/programs/attacker.py")))
    findings = (attacks if what == "attacks" else lies)(confinement, environ, home, attacker)
    listener.close()
    print(json.dumps(findings))


def attacks(confinement: Confinement, environ: dict[str, str], home: Path, command: Command) -> Told:
    """Return what the trial found, and what attackers said whose process was started, or forked."""
    findings: Told = {"gap": confinement.find_gap(environ)}
    other = home / "data" / "work" / "run-1" / "other-a1"
    other.mkdir(parents=True)
    (other / "secret").write_text("secret")
    # Once a way is enough: what holds programs is looked for, which takes a second.
    with_sandbox = environ | {"PYTHONSANDBOX": "1"}
    findings["started"] = ran(
        ChildOptions(environ=with_sandbox, command=command, confinement=confinement), "started"
    )
    findings["forked"] = ran(
        ChildOptions(environ=environ, command=command, confinement=confinement), "forked"
    )
    findings["left"] = sorted(each.name for each in (home / "data" / "work").iterdir())
    return findings


def lies(confinement: Confinement, environ: dict[str, str], home: Path, command: Command) -> Told:
    """Return what the trial says of confinements that hide nothing, show too little, break the sandbox."""
    fake = home / "bin" / "bwrap"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\ngrep -q secret {home}/.env\n")
    fake.chmod(0o700)
    wanted = home / "home" / "data set"
    wanted.mkdir()
    (wanted / "table").touch()
    # What hides nothing gives a process no folder of its own in its namespace.
    broken = ChildOptions(environ=environ, command=command, confinement=replace(confinement, hidden=()))
    is_refused = confinement.method == "namespace"
    return {
        **({f"broken, {how}": ran(broken, how) for how in ("started", "forked")} if is_refused else {}),
        "open": replace(confinement, hidden=()).find_gap(environ),
        "blind": confinement.find_gap(environ | {"PODFLEET_DATASETS": str(wanted)}),
        "without a sandbox": confinement.find_gap(environ | {"PATH": f"{fake.parent}:{os.defpath}"}),
    }


def ran(options: ChildOptions, how: str) -> dict[str, object] | None:
    """Return what a run said, None where its process did not come to be."""
    heard: list[object] = []
    with ForkServer(options, SystemClock(), options.command) as fork_server:
        never = threading.Event()
        if how == "forked":
            fork_server.start()
            while not fork_server.is_loaded():
                never.wait(0.01)
        with fork_server.spawn() as child:
            if not isinstance(child.wait_ready(LIMIT_S), Ready):
                return None
            assert child.work is not None
            workspace = child.work / "r-a1"
            (workspace / "restored").mkdir(parents=True)
            (workspace / "restored" / "old").write_text("state")
            child.start(Start("r", 1, "probe", {}, str(workspace), str(workspace / "restored")), heard.append)
            ended = child.join(LIMIT_S)
            assert ended is not None
            made = [Path(one.path).read_text() for one in heard if isinstance(one, Made)]
    facts = [one for one in heard if isinstance(one, FactFrame)]
    lines = [str(one.data["message"]) for one in facts if one.type == "ai.run.log"]
    return {"end": ended.final, "made": made} | dict(each.split(": ", 1) for each in lines if ": " in each)


if __name__ == "__main__":
    if os.getuid() == 0:
        be_nobody(sys.argv[1])
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4])  # type: ignore[arg-type]
