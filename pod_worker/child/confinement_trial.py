"""The trial of a confinement: a process that is confined as a pipeline's would be, and tries to get out.

Law: the result states only what was tried here. The trial reads and writes only decoys and what it needs.
A starting worker runs it as `python -m pod_worker.child.confinement_trial`; it prints why it failed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from pod_worker.child.confine import enter
from pod_worker.isolation.confinement import Confinement, gpu_devices
from stages.adapters.sandbox import kernel

# The namespaces that the sandbox of generated programs makes.
SANDBOX: Final = ("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts")
PROGRAM_S: Final = 20.0


def main(argv: Sequence[str]) -> int:
    """Print what is wrong; return 0 if nothing is."""
    arguments = _parse(argv)
    confinement: Confinement = arguments.confinement
    space = confinement.space_of(arguments.space)
    has_sandbox = _works_in_bubblewrap()
    devices = [Path(each) for each in gpu_devices() if _works(_use, Path(each))]
    try:
        enter(confinement, space)
    except OSError as error:
        return _failed(f"it may not be confined: {error}")
    own = [each for each in (space.work, space.home, space.temporary) if each is not None]
    problem = (
        next((f"it can {what}" for what in _wins(arguments.decoys, arguments.worker)), None)
        or next((f"it cannot read {each}" for each in arguments.needed if not _works(_need, each)), None)
        or next((f"it cannot use {each}" for each in devices if not _works(_use, each)), None)
        or next((f"it cannot write to {each}" for each in own if not _works(_plant, each)), None)
    )
    if problem is None and confinement.method == "namespace" and has_sandbox and not _works_in_bubblewrap():
        problem = "bubblewrap, which holds programs of models, does not work inside"
    if problem is None and confinement.method == "landlock" and not _can_fence_again():
        problem = "Landlock, which holds programs of models, does not work inside"
    return _failed(problem) if problem else 0


def _wins(decoys: Iterable[Path], worker: int) -> Iterable[str]:
    """Yield each escape that succeeds."""
    for decoy in decoys:
        for what, attempt in ATTACKS.items():
            if _works(attempt, decoy):
                yield f"{what} {decoy.parent}"
    for what in ("environ", "mem", "root/etc", "cwd"):
        if _works(_read, Path(f"/proc/{worker}/{what}")):
            yield f"read the worker's {what}"


def _read(path: Path) -> None:
    if path.is_dir():
        os.listdir(path)
    else:
        path.open("rb").close()


def _need(path: Path) -> None:
    """Read a needed file or folder, to prove that it can be read and not only listed."""
    _read(path)
    files = [each for each in path.iterdir() if each.is_file()] if path.is_dir() else []
    if files and not any(_works(_read, each) for each in files):
        raise PermissionError(path)


def _use(device: Path) -> None:
    os.close(os.open(device, os.O_RDWR))


def _plant(folder: Path) -> None:
    planted = folder / f"planted-{os.getpid()}"
    planted.touch()
    planted.unlink()


ATTACKS: Final[dict[str, Callable[[Path], object]]] = {
    "read files in": _read,
    "change files in": lambda decoy: os.close(os.open(decoy, os.O_WRONLY)),
    "cut files in": lambda decoy: os.truncate(decoy, 0),
    "make files in": lambda decoy: _plant(decoy.parent),
    "remove files in": os.unlink,
}


def _works(attempt: Callable[[Path], object], path: Path) -> bool:
    with suppress(OSError):
        attempt(path)
        return True
    return False


def _works_in_bubblewrap() -> bool:
    bubblewrap = shutil.which("bwrap")
    if bubblewrap is None:
        return False
    command = [bubblewrap, *SANDBOX, "--ro-bind", "/", "/", "--dev", "/dev", "--", sys.executable, "-I", "-S"]
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run([*command, "-c", ""], capture_output=True, timeout=PROGRAM_S, check=False)
        return done.returncode == 0
    return False


def _can_fence_again() -> bool:
    """Say whether a program that this process starts can be confined by Landlock."""
    pid = os.fork()
    if not pid:
        with suppress(OSError):
            kernel.restrict_files((), (), (), kernel.landlock_abi())
            os._exit(1 if _works(_read, Path(sys.prefix)) else 0)
        os._exit(1)
    return os.waitpid(pid, 0)[1] == 0


def _failed(problem: str) -> int:
    sys.stdout.write(problem)
    return 1


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m pod_worker.child.confinement_trial", description=__doc__)
    parser.add_argument("--confinement", type=Confinement.read, required=True, help="what is tried")
    parser.add_argument("--space", type=int, required=True, help="the number of what it is confined to")
    parser.add_argument("--worker", type=int, required=True, help="its process id")
    parser.add_argument("--decoys", type=Path, nargs="*", default=[], help="files to get at")
    parser.add_argument("--needed", type=Path, nargs="*", default=[], help="what has to be readable")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
