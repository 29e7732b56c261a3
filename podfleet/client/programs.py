"""Programs of one's own as jobs: the folder is sent, the command is made; results of runs become tables."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from events.answers.groups import GroupMember
from events.answers.kinds.results import ResultRow
from events.answers.kinds.trees import DataSet
from events.runtime.clock import SystemClock
from podfleet.client.problems import Unsendable
from podfleet.client.trees.listing import Unpackable
from podfleet.client.trees.packing import WORKING_FOLDER_BYTES_MAX, pack
from podfleet.client.trees.pushing import Push, Trees, Unpushed

KIND: Final = "job"
PYTHON: Final = "python"
PARAMS: Final = "params."
NO_SET: Final = "unknown_set"
OF_A_MEMBER: Final = ("run_id", "status", "key")
_MODULE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_INPUT: Final = re.compile(r"([^/]+)(?:/([0-9]{1,9}))?", re.ASCII)

Params = Mapping[str, bool | int | float | str]
Table = list[dict[str, Any]]


class Fleet(Trees, Protocol):
    """The calls by which a program is sent."""

    def data_set(self, name: str) -> DataSet: ...

    def data_set_version(self, name: str, number: int) -> DataSet: ...


def specification(
    fleet: Fleet,
    program: str | Sequence[str],
    params: Params | None,
    *,
    folder: str | Path | None,
    include: Sequence[str],
    inputs: Sequence[str],
    env: Mapping[str, str] | None,
) -> dict[str, Any]:
    """Return the specification of a job, once the fleet has its folder. Raises the errors of a client."""
    spec: dict[str, Any] = {"command": command(program, params or {})}
    if params:
        spec["params"] = dict(params)
    if env:
        spec["env"] = dict(env)
    if inputs:
        found = [_data_set(fleet, each) for each in inputs]
        spec["inputs"] = {each.name: each.tree for each in found}
    if folder is not None:
        try:
            packed = pack(Path(folder), include=include, bytes_max=WORKING_FOLDER_BYTES_MAX)
            spec["tree"] = Push(fleet, SystemClock()).run(packed).id
        except (Unpackable, Unpushed) as error:
            raise Unsendable(str(error)) from error
    return spec


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


def _data_set(fleet: Fleet, name: str) -> DataSet:
    found = _INPUT.fullmatch(name)
    if found is None:
        raise Unsendable(f"{name[:200]!r} is no data set: NAME, or NAME/1 for its first version")
    return fleet.data_set(found[1]) if found[2] is None else fleet.data_set_version(found[1], int(found[2]))


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
