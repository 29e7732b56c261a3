"""Programs of one's own as jobs: the folder is sent, the command is made; results of runs become tables."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from events.answers.groups import GroupMember
from events.answers.kinds.results import ResultRow
from events.files.trees import TREE_BYTES_MAX
from events.runtime.clock import SystemClock
from podfleet.client.problems import Unsendable
from podfleet.client.trees.commit import DIFF, commit_of
from podfleet.client.trees.listing import Unpackable
from podfleet.client.trees.packing import WORKING_FOLDER_BYTES_MAX, pack
from podfleet.client.trees.pushing import Push, Trees, Unpushed

PYTHON: Final = "python"
PARAMS: Final = "params."
NO_SET: Final = "unknown_set"
OF_A_MEMBER: Final = ("run_id", "status", "key")
_MODULE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)

Params = Mapping[str, bool | int | float | str]
Table = list[dict[str, Any]]
Pushes = Callable[[Path, Sequence[str], int], str]  # a folder, of so many bytes at most: its tree


def specification(
    trees: Trees,
    program: str | Sequence[str],
    params: Params | None,
    *,
    folder: str | Path | None,
    include: Sequence[str],
    inputs: Mapping[str, str] | None,
    env: Mapping[str, str] | None,
) -> dict[str, Any]:
    """Return the specification of a job, once the fleet has its folder. Raises the errors of a client."""
    spec: dict[str, Any] = {"command": command(program, params or {})}
    if params:
        spec["params"] = dict(params)
    if env:
        spec["env"] = dict(env)
    if inputs:
        spec["inputs"] = dict(inputs)
    if folder is not None:

        def pushed(folder: Path, include: Sequence[str], bytes_max: int) -> str:
            packed = pack(folder, include=include, bytes_max=bytes_max)
            return Push(trees, SystemClock()).run(packed, is_glanced=True).id

        try:
            spec |= sent_folder(pushed, Path(folder), include)
        except (Unpackable, Unpushed) as error:
            raise Unsendable(str(error)) from error
    return spec


def sent_folder(push: Pushes, folder: Path, include: Sequence[str]) -> dict[str, Any]:
    """Push a working folder, and return what a specification says of it. Raises what `push` raises."""
    tree = push(folder, include, WORKING_FOLDER_BYTES_MAX)
    commit = commit_of(folder)
    if commit is None:
        return {"tree": tree}
    source = commit.told()
    if commit.diff:
        with TemporaryDirectory(prefix="podfleet-") as beside:
            Path(beside, DIFF).write_bytes(commit.diff)
            source["diff"] = push(Path(beside), (), TREE_BYTES_MAX)
    return {"tree": tree, "source": source}


def command(program: str | Sequence[str], params: Params) -> str:
    """Return the command of a script or a module with a place for each parameter; words are one as they are.

    Raises `Unsendable` for what is none.
    """
    if not isinstance(program, str):
        return shlex.join(program)
    if program.endswith(".py"):
        words = [PYTHON, program]
    elif _MODULE.fullmatch(program):
        words = [PYTHON, "-m", program]
    else:
        message = f"{program[:200]!r} is neither a script, such as train.py, nor a module, such as pkg.train"
        raise Unsendable(f"{message}; give the words of another command as a list")
    return shlex.join([*words, *(word for name in params for word in (f"--{name}", f"{{{name}}}"))])


def row_of(row: ResultRow) -> dict[str, Any]:
    """Return a row of a run as a row of a table."""
    detail = {} if row.detail is None else {"detail": row.detail}
    return {"key": row.key, "status": row.status, **row.values, **detail}


def member_row(member: GroupMember) -> dict[str, Any]:
    """Return a member of a group: its run, its status, what varies, and its headline numbers."""
    return {**_varied(member, member.summary), **member.summary}


def row_of_member(member: GroupMember, row: ResultRow) -> dict[str, Any]:
    """Return a row of a member's run, with what varies."""
    return {**_varied(member, row.values), **row_of(row)}


def _varied(member: GroupMember, others: Mapping[str, Any]) -> dict[str, Any]:
    """Return what tells a member apart; a parameter whose name something else has keeps its whole name."""
    named = {each: each.removeprefix(PARAMS) for each in member.values}
    taken = (*OF_A_MEMBER, *others)
    values = {name if short in taken else short: member.values[name] for name, short in named.items()}
    return {"run_id": member.run.id, "status": member.run.status, **values}
