"""The working folder of a job from a commit of a git repository, fetched in the isolation of the job.

Law: git has nothing of the pod: no configuration, credential, agent, proxy or hook, and of secrets the one
that is named, which no program of the run gets. It speaks https and ssh, follows no redirection, and fetches
no submodule. Bytes, files and time are bounded; what it checked out is the commit that was asked for.
"""

from __future__ import annotations

import os
import pwd
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from events.files.tree_removal import remove_tree
from events.kinds.declaring.stages import SOURCE
from events.kinds.job import Git
from events.runtime.errors import PipelineError
from stages.context import Context
from stages.engines.environment import mask_of
from stages.engines.following import Following
from stages.kinds.job.output import entries_below
from stages.kinds.job.program import Output, running
from stages.kinds.job.secrets import Secrets

LOG: Final = "source.txt"
NO_SOURCE: Final = "NO_SOURCE"
FETCH_S: Final = 900.0
BYTES_MAX: Final = 4 << 30  # of the folder, with git's own files
FILES_MAX: Final = 200_000
LOOK_S: Final = 0.5
BLOCK: Final = 512  # in which a shell counts the bytes of a file

SETTINGS: Final = {
    "core.hooksPath": "/dev/null",
    "core.attributesFile": "/dev/null",
    "core.fsmonitor": "false",
    "credential.helper": "",
    "http.followRedirects": "false",
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "60",
    "submodule.recurse": "false",
    "fetch.recurseSubmodules": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "advice.detachedHead": "false",
    "init.defaultBranch": "main",
}
STEPS: Final = (
    f"ulimit -f {BYTES_MAX // BLOCK}; "
    'git init -q --template= && git fetch --depth=1 --no-tags --no-write-fetch-head -- "$1" "$2" && '
    'git checkout -q --detach "$2" && git rev-parse --verify HEAD'
)
# What git is told of a token: whoever has one takes any name.
ASKED: Final = """#!/bin/sh
case "$1" in Username*) echo x-access-token;; *) printf '%s\\n' "$JOB_GIT_TOKEN";; esac
"""
# What git says last where a repository is not to be read: it hides the reason, which stands above.
HINTS: Final = ("Please make sure you have the correct access rights", "and the repository exists.")
LAST_LINES: Final = 2
# ssh runs for no user without a name in /etc/passwd, as those of processes have none: here it is root's.
NAMED: Final = "unshare --map-root-user "
BY_SSH: Final = (
    "ssh -F none -o BatchMode=yes -o IdentitiesOnly=yes -o IdentityAgent=none -o ForwardAgent=no "
    "-o ClearAllForwardings=yes -o StrictHostKeyChecking=accept-new -o ConnectTimeout=30 "
    "-o UserKnownHostsFile={beside}/known_hosts -i {beside}/key"
)


@dataclass(frozen=True, slots=True)
class GitSource:
    """Fetches a commit into the folder `work`; `beside` is an empty folder for what git needs meanwhile."""

    context: Context
    git: Git
    work: Path
    beside: Path

    def fetch(self) -> None:
        """Check the commit out, in a stage with its log. Raises `PipelineError`."""
        if shutil.which("git", path=self._path) is None:
            raise PipelineError("NO_PROGRAM", "the pod has no git: install it there, or send the folder")
        secret = self._secret()
        log = self.context.workspace / LOG
        with self.context.stage(SOURCE):
            printed = Output(log, self.context.show, self.context.clock, Secrets([secret]))
            try:
                self._steps(self._environment(secret), printed)
            finally:
                printed.finish()
                self.context.keep(log, LOG)
                remove_tree(self.beside)

    def _steps(self, environment: Mapping[str, str], printed: Output) -> None:
        clock, commit = self.context.clock, self.git.commit
        until_s = clock.monotonic_s() + FETCH_S
        following = Following(name="git", say=self.context.log, mask=mask_of(environment), clock=clock)
        words = ["/bin/sh", "-c", STEPS, "git", self.git.url, commit]
        with running(words, self.work, environment, printed, clock) as program:
            while program.code() is None:
                with suppress(subprocess.TimeoutExpired):
                    program.process.wait(LOOK_S)
                following.look(printed.file)
                if clock.monotonic_s() > until_s:
                    raise PipelineError(NO_SOURCE, f"git has not fetched the commit in {FETCH_S:.0f} s")
                self._require_small()
        following.look(printed.file, is_last=True)
        said = printed.last_line[:500]
        if code := program.code():
            lines = [each.strip() for each in printed.tail.splitlines() if each.strip()]
            why = " ".join([each for each in lines if each not in HINTS][-LAST_LINES:])[:500]
            raise PipelineError(NO_SOURCE, f"git ended with status {code}" + (f": {why}" if why else ""))
        if said != commit:
            raise PipelineError(NO_SOURCE, f"git has checked out {said[:100]}, not {commit}")
        self.context.log(f"{self.git.url} at {commit}")

    def _require_small(self) -> None:
        """Raise `PipelineError` where the folder has become too large."""
        size = 0
        for count, entry in enumerate(entries_below(self.work), 1):
            with suppress(OSError):  # git has renamed it
                size += entry.stat(follow_symlinks=False).st_size
            if size > BYTES_MAX or count > FILES_MAX:
                most = f"{BYTES_MAX >> 30} GiB and {FILES_MAX:,} files are the most"
                raise PipelineError(NO_SOURCE, f"the commit is too large: {most}")

    def _secret(self) -> str:
        name = self.git.secret
        if not name:
            return ""
        value = self.context.tools.variables.get(name, "") if name in self.context.tools.secrets else ""
        if not value:
            raise PipelineError(NO_SOURCE, f"the run has no secret {name}: name it in `secrets`, too")
        return value

    @property
    def _path(self) -> str:
        return self.context.tools.variables.get("PATH", os.defpath)

    def _by_ssh(self) -> str:
        """Return the command that git takes for ssh."""
        by_ssh = BY_SSH.format(beside=shlex.quote(str(self.beside)))
        try:
            pwd.getpwuid(os.getuid())
        except KeyError:
            return NAMED + by_ssh
        return by_ssh

    def _environment(self, secret: str) -> dict[str, str]:
        """Return all that git has."""
        environment = {
            "PATH": self._path,
            "HOME": str(self.beside),
            "TMPDIR": str(self.beside),
            "LC_ALL": "C.UTF-8",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ALLOW_PROTOCOL": "https:ssh",
            "GIT_LFS_SKIP_SMUDGE": "1",
            "GIT_ASKPASS": "/bin/true",
            "GIT_CONFIG_COUNT": str(len(SETTINGS)),
            "GIT_SSH_COMMAND": self._by_ssh(),
        }
        for number, (name, value) in enumerate(SETTINGS.items()):
            environment |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
        if authorities := self.context.tools.variables.get("SSL_CERT_FILE"):
            environment["GIT_SSL_CAINFO"] = authorities
        if secret and self.git.is_https:
            asked = self.beside / "asked"
            asked.write_text(ASKED)
            asked.chmod(0o700)
            environment |= {"GIT_ASKPASS": str(asked), "JOB_GIT_TOKEN": secret}
        elif secret:
            key = self.beside / "key"
            key.touch(0o600)
            key.write_text(secret.rstrip("\n") + "\n")
        return environment
