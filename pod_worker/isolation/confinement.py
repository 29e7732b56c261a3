"""Confines the process of a run, so that it cannot access its worker.

Law: a confinement counts only for what a trial has shown on this machine. Where every trial fails, runs
have the worker's user and all its rights, and the worker logs why. A worker that is root gives each process
a user of its own. Another worker shows a process its own folder and what it needs, in namespaces of its own
or by Landlock.
"""

from __future__ import annotations

import fcntl
import glob
import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal, Self

from events.files.tree_removal import remove_tree
from pod_worker.isolation.mounts import OTHERS_PASS, show
from pod_worker.isolation.privileges import become
from pod_worker.isolation.process_space import (
    FIRST_USER,
    TRIES_MAX,
    USERS,
    ProcessSpace,
    choose_user,
    held_users,
    processes,
)

Method = Literal["user", "namespace", "landlock"]
# As whom a pipeline runs, as a pod tells it.
WORDS: Final[Mapping[Method, str]] = {
    "user": "a user of its own",
    "namespace": "the worker's user, in namespaces that show it its own folder",
    "landlock": "the worker's user, held to its own folder by Landlock",
}
THE_WORKERS: Final = "the worker's user"

SOURCE: Final = str(Path(__file__).parents[2])
WORKSPACE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*-a[0-9]{1,9}")  # of an attempt, by its run
PASS_ONLY: Final = 0o711
RANGE: Final = range(FIRST_USER, FIRST_USER + USERS)
OTHERS: Final = 0o007
PROBLEM_BYTES_MAX: Final = 4_096
GAP_CHARS_MAX: Final = 400  # a pod tells two of them, in a text of 1,000
OUTBOX_LOCK: Final = "outbox.db.lock"
TRIAL: Final = (sys.executable, "-m", "pod_worker.child.confinement_trial")
TRIAL_S: Final = 60.0
GPU_DEVICES: Final = ("/dev/nvidia[0-9]*", "/dev/nvidiactl", "/dev/nvidia-uvm")
# Variables whose value names files that a pipeline cannot do without, and those whose files it may want.
NEEDED: Final = (
    "PODFLEET_DATASETS",
    "PODFLEET_PRICES",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
)
PACKAGES: Final = "UV_FIND_LINKS"  # as folders alone, beside one another
WANTED: Final = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "CUDA_HOME", "HF_HOME", PACKAGES)
# What is the machine's own; whatever else lies at the root of its file system is somebody's.
SYSTEM: Final = (
    *("bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "nix", "gnu", "snap", "opt", "var"),
    *("run", "proc", "sys", "dev", "boot"),
)  # fmt: skip
HOMES_IN_SYSTEM: Final = ("opt", "var")
TREES: Final = "trees"  # in the folder of the worker: file trees, which runs read
ENVIRONMENTS: Final = "environments"  # the same of Python environments
SCRATCH: Final = ("/dev/shm", "/var/tmp", "/tmp")  # noqa: S108 - each process gets an empty one
SERVICES: Final = (
    "/run/user",
    "/run/secrets",
    "/run/credentials",
    "/run/docker.sock",
    "/run/containerd",
    "/run/podman",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """The method by which processes are confined, and the folders that this needs.

    `places` are the paths that a process needs besides its own. In `hidden` folders it sees only these.
    """

    method: Method
    work: Path  # the folder of all runs
    temporary: Path
    places: tuple[str, ...]
    hidden: tuple[str, ...] = ()

    @classmethod
    def by_user(cls, data: Path, environ: Mapping[str, str], pod: Path | None = None) -> Self:
        """Return the confinement of a worker that is root, for its folder and its pipelines' environment.

        `pod` is the folder of the pod, where the worker is one of its slots.
        """
        work, temporary = data / "work", Path(tempfile.gettempdir())
        kept = (str((pod or data) / each) for each in (TREES, ENVIRONMENTS))
        places = (str(work), *kept, str(temporary), *_places(environ))
        return cls(method="user", work=work, temporary=temporary, places=places)

    @classmethod
    def of_same_user(
        cls,
        method: Method,
        data: Path,
        environ: Mapping[str, str],
        keys: Iterable[Path],
        pod: Path | None = None,
    ) -> Self:
        """Return that of a worker that is not root; `keys` are files and folders to hide from runs."""
        pod = (pod or data).resolve()  # all of it is hidden, with the other slots
        data, temporary = data.resolve(), Path(tempfile.gettempdir()).resolve()
        home = os.path.realpath(Path.home())
        hidden = {*_at_root(), *SCRATCH, *SERVICES, *map(str, (pod, temporary, *keys))}
        if Path(home).parts[1:2] not in [(name,) for name in SYSTEM if name not in HOMES_IN_SYSTEM]:
            hidden.add(home)
        real = {os.path.realpath(each) for each in hidden} - {"/"}
        # Python adds the folder that it was started in, which may hold anything.
        search_path = map(os.path.abspath, filter(None, environ.get("PYTHONPATH", "").split(os.pathsep)))
        unasked = {os.getcwd()} - {SOURCE, *search_path}
        return cls(
            method=method,
            work=data / "work",
            temporary=temporary,
            places=(
                *(str(pod / each) for each in (TREES, ENVIRONMENTS)),
                *(each for each in _places(environ) if each not in unasked),
            ),
            hidden=tuple(sorted(real)),
        )

    @property
    def scratch(self) -> tuple[str, ...]:
        """Return the private folders of a process in namespaces: each begins empty, and is in memory."""
        return tuple({os.path.realpath(each) for each in (*SCRATCH, self.temporary)})

    @property
    def words(self) -> list[str]:
        """Return it as an argument of a command line."""
        return [f"--confinement={json.dumps(asdict(self), default=str)}"]

    @classmethod
    def read(cls, word: str) -> Self:
        """Return the confinement that such an argument describes."""
        fields = json.loads(word)
        paths = {name: Path(fields[name]) for name in ("work", "temporary")}
        return cls(
            method=fields["method"], places=tuple(fields["places"]), hidden=tuple(fields["hidden"]), **paths
        )

    def find_gap(self, environ: Mapping[str, str]) -> str | None:
        """Return why no process can be confined by this method here; None if one can.

        It forks, so no thread may have been started. First it makes the worker's files unreadable to others.
        """
        try:
            gap = (
                self._find_gap_of_user(environ) if self.method == "user" else self._find_gap_of_ours(environ)
            )
        except OSError as error:
            gap = f"{error}"
        return None if gap is None else gap[:GAP_CHARS_MAX]

    def make_space(self) -> ProcessSpace:
        """Create the folders of one process, and choose an unused user if it needs one. Raises `OSError`."""
        space = self.space_of(choose_user() if self.method == "user" else self._choose_number())
        for folder in (space.home, space.temporary):
            remove_tree(folder)
            folder.mkdir(mode=0o700, parents=True)
        if space.work is None:
            for folder in (space.home, space.temporary):
                os.chown(folder, space.number, space.number)
        else:
            space.work.mkdir(mode=0o700)
        return space

    def space_of(self, number: int) -> ProcessSpace:
        """Return the folders and user that belong to this number, whether they exist or not."""
        work = None if self.method == "user" else self.work / f"run-{number}"
        return ProcessSpace(number, self.work / f"home-{number}", self.temporary / f"podfleet-{number}", work)

    def _choose_number(self) -> int:
        numbers = (FIRST_USER + secrets.randbelow(USERS) for _ in range(TRIES_MAX))
        spaces = map(self.space_of, numbers)
        found = next(
            (each for each in spaces if not each.home.exists() and not each.temporary.exists()), None
        )
        if found is None:
            raise OSError(f"there is no room for another process in {self.work}")
        return found.number

    def _find_gap_of_user(self, environ: Mapping[str, str]) -> str | None:
        if os.getuid() != 0:
            return "the worker is not root"
        self._close_what_is_ours()
        is_shared = _is_in_use(self.work.parent)
        self._remove_leftovers({user for _, user in processes()} if is_shared else held_users())
        if not is_shared:
            self._remove_workspaces()
        user = choose_user()
        heard, report = os.pipe()
        pid = os.fork()
        if not pid:
            self._try(report, user, environ)
        os.close(report)
        with os.fdopen(heard, "rb") as trial:
            problem = trial.read(PROBLEM_BYTES_MAX).decode(errors="replace")
        if os.waitpid(pid, 0)[1] == 0:
            return None
        return problem or "the trial of a user of its own was killed"

    def _find_gap_of_ours(self, environ: Mapping[str, str]) -> str | None:
        """Let a process try to access the files of the worker and of another process."""
        self.work.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.work.mkdir(exist_ok=True)
        if not _is_in_use(self.work.parent):
            self._remove_leftovers(set())  # who had them ended with the worker before us
        with (
            self._temporary_space() as space,
            self._temporary_space() as other,
            tempfile.NamedTemporaryFile(dir=self.work.parent) as ours,
        ):
            assert space.work is not None
            assert other.work is not None
            decoys = [
                Path(ours.name),
                *(each / "decoy" for each in (other.work, other.home, other.temporary)),
            ]
            for each in decoys:
                each.write_text("decoy")
            words = [f"--space={space.number}", f"--worker={os.getpid()}", "--decoys", *map(str, decoys)]
            words += ["--needed", *needed(environ)]
            try:
                trial = subprocess.run(
                    [*TRIAL, *self.words, *words],
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    env={**environ, **space.variables},
                    timeout=TRIAL_S,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                return f"the trial took more than {TRIAL_S:.0f} s"
        if trial.returncode == 0:
            return None
        report = (trial.stdout or trial.stderr).decode(errors="replace").strip().splitlines()
        return (
            report[-1] if report else "the trial was killed"
        )  # of a traceback the last line says what it was

    @contextmanager
    def _temporary_space(self) -> Iterator[ProcessSpace]:
        space = self.make_space()
        try:
            yield space
        finally:
            space.clear()
            space.close()

    def _close_what_is_ours(self) -> None:
        """Let other users enter the work folder, and make the worker's settings unreadable to them."""
        self.work.mkdir(parents=True, exist_ok=True)
        self.work.chmod(PASS_ONLY)
        data = self.work.parent
        data.chmod(data.stat().st_mode & 0o7777 | OTHERS_PASS)
        settings = Path(".env")
        with suppress(FileNotFoundError):
            settings.chmod(settings.stat().st_mode & 0o7777 & ~OTHERS)

    def _remove_leftovers(self, living: set[int]) -> None:
        """Remove what a killed worker left: folders, and who is left of their users, except `living` ones."""
        for home in self.work.glob("home-*"):
            number = home.name.removeprefix("home-")
            if number.isdecimal() and int(number) in RANGE and int(number) not in living:
                space = self.space_of(int(number))
                space.clear()
                space.close()

    def _remove_workspaces(self) -> None:
        """Remove the folders of attempts that a killed worker left; nobody else has this work folder."""
        for each in self.work.iterdir():
            if WORKSPACE.fullmatch(each.name):
                remove_tree(each)

    def _try(self, report: int, user: int, environ: Mapping[str, str]) -> None:
        """Act as such a process, in a fork that does not return."""
        status = 1
        try:
            worker = os.getppid()
            show(self.places)
            try:
                become(user)
            except OSError as error:  # without CAP_SETUID, or with one user in all
                why = f"the worker may not change users: {error.strerror}; give its container the usual users"
                raise OSError(why) from error
            if problem := _problem(self.work, environ, worker):
                os.write(report, problem.encode())
            else:
                status = 0
        except OSError as error:
            os.write(report, f"{error}".encode()[:PROBLEM_BYTES_MAX])
        finally:
            os._exit(status)


def needed(environ: Mapping[str, str]) -> list[str]:
    """Return the files and folders that every pipeline needs."""
    interpreter = str(Path(sys.executable).resolve())
    return [interpreter, SOURCE, sys.prefix, sys.base_prefix, *_named(environ, NEEDED)]


def gpu_devices() -> list[str]:
    """Return the device files that the use of a GPU needs."""
    return [each for pattern in GPU_DEVICES for each in glob.glob(pattern)]


def _problem(work: Path, environ: Mapping[str, str], worker: int) -> str | None:
    """Return what is wrong with this process after the change of its user."""
    for place in needed(environ):
        if not os.access(place, os.R_OK | (os.X_OK if os.path.isdir(place) else 0)):
            return f"others cannot read {place}: run chmod -R o+rX on it"
    for device in gpu_devices():
        if not os.access(device, os.R_OK | os.W_OK):
            return f"others cannot use {device}"
    for folder in (work, tempfile.gettempdir()):
        if not os.access(folder, os.X_OK):
            return f"others cannot enter {folder}: run chmod o+x on it"
    try:
        os.kill(worker, 0)
    except PermissionError:
        return None
    return "another user can send signals to the worker"


def _places(environ: Mapping[str, str]) -> list[str]:
    """Return the paths that Python and the settings of pipelines name, as written and as resolved."""
    own = (sys.prefix, sys.base_prefix, SOURCE, *sys.path)
    named = [*own, *_named(environ, (*NEEDED, *WANTED))]
    paths = [os.path.abspath(each) for each in named if each]
    return [each for each in dict.fromkeys((*paths, *map(os.path.realpath, paths))) if os.path.exists(each)]


def _at_root() -> list[str]:
    """Return the folders at the root of the file system that do not belong to the operating system."""
    return [
        each.path
        for each in os.scandir("/")
        if each.name not in SYSTEM and each.is_dir(follow_symlinks=False)
    ]


def _named(environ: Mapping[str, str], names: Iterable[str]) -> list[str]:
    values = (environ.get(name, "").split(os.pathsep) for name in names)
    return [each for value in values for each in value if os.path.exists(each)]


def _is_in_use(data: Path) -> bool:
    """Say whether a worker uses this folder: a second worker must not remove the folders of its runs."""
    try:
        handle = os.open(data / OUTBOX_LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False
