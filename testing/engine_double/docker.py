"""`python -m testing.engine_double.docker STATE run|inspect|...`: Docker's client, without Docker.

It follows what Docker documents of these commands: a container lives on when its client is killed, has the
variables that are named and those of its image, and is there until it is removed. Its image is this Python.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from stages.engines.processes import memory_bytes

ROOT: Final = Path(__file__).parents[2]
PAUSE_S: Final = 0.02
END_S: Final = 20.0
WITH_VALUE: Final = frozenset(
    (
        *("--name", "--label", "--network", "--ipc", "--entrypoint", "--gpus", "--volume", "--env"),
        *("--memory", "--memory-swap", "--cpus", "--pull", "--user", "--cap-drop", "--security-opt"),
        *("--ulimit", "--log-driver", "--pids-limit", "--shm-size", "--mount", "--env-file", "--workdir"),
    )
)
NEVER: Final = threading.Event()


def main(argv: Sequence[str]) -> int:
    """Do one command."""
    state, command, *rest = argv
    folder = Path(state)
    folder.mkdir(parents=True, exist_ok=True)
    match command:
        case "run":
            return _run(folder, rest)
        case "inspect":
            return _inspect(folder, rest[-1])
        case "logs":
            return _logs(folder, rest[-1])
        case "stop":
            return _stop(folder, float(rest[1]), rest[-1])
        case "rm":
            return _remove(folder, [each for each in rest if not each.startswith("-")])
        case "ps":
            return _list(folder, rest[-1])
        case "image":
            return _image(folder, rest[-1])
        case "pull":
            return _pull(folder, rest[-1])
        case "pause" | "unpause":
            return _pause(folder, rest[-1], signal.SIGSTOP if command == "pause" else signal.SIGCONT)
    return _fail(f"docker: unknown command: docker {command}")


def _run(folder: Path, words: Sequence[str]) -> int:
    """Start a container, pass on what it writes and the signals for it, and end as it does."""
    options: dict[str, list[str]] = {}
    rest = list(words)
    while rest and rest[0].startswith("--"):
        name = rest.pop(0)
        options.setdefault(name, []).append(rest.pop(0) if name in WITH_VALUE else "")
    image, *command = rest
    name = options["--name"][0]
    if image.startswith("missing"):
        return _fail(f"docker: Error response from daemon: pull access denied for {image}", 125)
    asked = {each: os.environ[each] for each in options.get("--env", ()) if each in os.environ}
    environment = {"PATH": f"{Path(sys.executable).parent}:{os.defpath}", "PYTHONPATH": str(ROOT)} | asked
    for each in options.get("--env-file", ()):
        environment |= dict(line.split("=", 1) for line in Path(each).read_text().splitlines())
    log = folder / f"{name}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            _found(command, environment), stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            cwd=options.get("--workdir", ["/"])[0], env=environment, start_new_session=True,
        )  # fmt: skip
    row: dict[str, Any] = {
        "Id": name, "Name": f"/{name}",
        "State": {"Pid": process.pid, "OOMKilled": False},
        "Config": {
            "Image": image, "Cmd": command, "Env": [f"{key}={value}" for key, value in environment.items()],
            "Labels": dict(each.split("=", 1) for each in options.get("--label", ())),
        },
        "HostConfig": {
            "NetworkMode": options.get("--network", ["default"])[0], "IpcMode": options.get("--ipc", [""])[0],
            "Binds": options.get("--volume", []),
        },
    }  # fmt: skip
    (folder / f"{name}.json").write_text(json.dumps(row))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: os.kill(process.pid, number))
    most = int(options["--memory"][0]) if "--memory" in options else sys.maxsize
    if _pass_on(log, process, most):
        row["State"]["OOMKilled"] = True
        (folder / f"{name}.json").write_text(json.dumps(row))
    code = process.returncode if process.returncode >= 0 else 128 - process.returncode
    if (folder / f"{name}.json").exists():
        (folder / f"{name}.code").write_text(str(code))
    return code


def _pass_on(log: Path, process: subprocess.Popen[bytes], most: int) -> bool:
    """Return, when it has ended, whether it was killed for having more memory than it may."""
    is_too_large = False
    with log.open("rb") as source:
        while True:
            has_ended = process.poll() is not None
            while data := source.read(1 << 16):
                sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            if has_ended:
                return is_too_large
            if not is_too_large and memory_bytes(process.pid, most) > most:
                is_too_large = True
                process.kill()
            NEVER.wait(PAUSE_S)


def _row(folder: Path, name: str) -> dict[str, Any] | None:
    try:
        row: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    except FileNotFoundError:
        return None
    code = folder / f"{name}.code"
    row["State"]["Running"] = not code.exists() and _is_alive(row["State"]["Pid"])
    row["State"]["ExitCode"] = int(code.read_text()) if code.exists() else 0
    return row


def _inspect(folder: Path, name: str) -> int:
    row = _row(folder, name)
    print(json.dumps([row] if row else []))
    return 0 if row else _fail(f"Error response from daemon: No such container: {name}")


def _logs(folder: Path, name: str) -> int:
    if _row(folder, name) is None:
        return _fail(f"Error response from daemon: No such container: {name}")
    sys.stdout.buffer.write((folder / f"{name}.log").read_bytes())
    return 0


def _stop(folder: Path, limit_s: float, name: str) -> int:
    row = _row(folder, name)
    if row is None:
        return _fail(f"Error response from daemon: No such container: {name}")
    with suppress(ProcessLookupError):
        os.kill(row["State"]["Pid"], signal.SIGTERM)
    if not _has_ended(row["State"]["Pid"], limit_s):
        _kill(row["State"]["Pid"])
    return 0


def _remove(folder: Path, names: Sequence[str]) -> int:
    if (folder / "stuck").exists():
        return _fail("Error response from daemon: removal of container is already in progress")
    for name in names:
        if row := _row(folder, name):
            _kill(row["State"]["Pid"])
            for ending in ("json", "log", "code"):
                (folder / f"{name}.{ending}").unlink(missing_ok=True)
            print(name)
    return 0


def _list(folder: Path, narrowed: str) -> int:
    what, _, wanted = narrowed.partition("=")
    for file in sorted(folder.glob("*.json")):
        row = json.loads(file.read_text())
        labels = [f"{key}={value}" for key, value in row["Config"]["Labels"].items()]
        if (what == "label" and wanted in labels) or (what == "name" and wanted == f"^{file.stem}$"):
            print(file.stem)
    return 0


def _image(folder: Path, name: str) -> int:
    """Tell of an image: all are there but those whose names begin with `missing`, until they are pulled."""
    if name.startswith("missing") and not (folder / "pulled").exists():
        print("[]")
        return _fail(f"Error: No such image: {name}")
    digests = [f"{name.partition(':')[0]}@sha256:{'d' * 64}"]
    print(json.dumps([{"Id": f"sha256:{'1' * 64}", "RepoDigests": digests}]))
    return 0


def _pull(folder: Path, name: str) -> int:
    """Fetch an image, of a registry that is away or has none of the name."""
    if "away" in name:
        return _fail("Error response from daemon: dial tcp 10.0.0.1:443: connect: connection refused")
    if "denied" in name:
        return _fail(f"Error response from daemon: pull access denied for {name}, repository does not exist")
    (folder / "pulled").touch()
    print(name)
    return 0


def _pause(folder: Path, name: str, how: signal.Signals) -> int:
    row = _row(folder, name)
    if row is None:
        return _fail(f"Error response from daemon: No such container: {name}")
    os.killpg(row["State"]["Pid"], how)
    return 0


def _found(command: Sequence[str], environment: Mapping[str, str]) -> Sequence[str]:
    """Return a command that can be started: what is there no program of ends as Docker's init ends it."""
    if shutil.which(command[0], path=environment["PATH"]) is None:
        return [
            "/bin/sh",
            "-c",
            'echo "[FATAL] exec $1 failed: No such file or directory"; exit 127',
            "",
            command[0],
        ]
    return command


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    _has_ended(pid, END_S)


def _has_ended(pid: int, limit_s: float) -> bool:
    for _ in range(max(1, round(limit_s / PAUSE_S))):
        if not _is_alive(pid):
            return True
        NEVER.wait(PAUSE_S)
    return False


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def _fail(words: str, code: int = 1) -> int:
    print(words, file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
