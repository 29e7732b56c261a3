"""`podfleet pods`: who is in the fleet, and who shall leave it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Annotated, Any, Final
from urllib.parse import quote

import typer

from control_plane.cli.client import EXIT_FAILED, client, fail

app = typer.Typer(no_args_is_help=True, help="The workers of the fleet.")

SHOWN_MAX: Final = 1_000
KNOWN_MAX: Final = 20  # how many names a message lists
WIDTH: Final = 200  # of a table that goes into a file
ENDED: Final = frozenset({"stopped", "gone"})

Pod = Mapping[str, Any]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]


class Unknown(Exception):
    """No worker, or more than one, is meant by a name."""


def meant(pods: Sequence[Pod], name: str) -> list[Pod]:
    """Return the workers that `name` means: a full id, a pod with all its live workers, a unique prefix.

    A pod whose workers have all ended means none of them. Raises `Unknown`.
    """
    exact = [pod for pod in pods if pod["id"] == name]
    if exact:
        return exact
    of_pod = [pod for pod in pods if pod["pod"] == name]
    if of_pod:
        return [pod for pod in of_pod if pod["state"] not in ENDED]
    matching = [pod for pod in pods if pod["id"].startswith(name)]
    # Each start of a worker is another boot of its pod, so the ended ones only matter alone.
    live = [pod for pod in matching if pod["state"] not in ENDED] or matching
    if len(live) == 1:
        return live
    if live:
        raise Unknown(f"{name!r} means {len(live)} workers: {_names(live)}")
    known = [pod for pod in pods if pod["state"] not in ENDED]
    raise Unknown(f"there is no pod {name!r}; live workers: {_names(known) or 'none'}")


@app.command("list")
def list_pods(as_json: AsJson = False) -> None:
    """Show the workers, the last started first."""
    pods = list(islice(client().items("/api/pods"), SHOWN_MAX))
    if as_json:
        print(json.dumps(pods, indent=2))
        return
    _table(pods)


@app.command()
def drain(
    pod: Annotated[str, typer.Argument(help="a worker's id or its unique beginning, or the name of a pod")],
    as_json: AsJson = False,
) -> None:
    """Let a worker finish its run, take no other, and end."""
    control_plane = client()
    try:
        chosen = meant(list(islice(control_plane.items("/api/pods"), SHOWN_MAX)), pod)
    except Unknown as unknown:
        fail(str(unknown), EXIT_FAILED)
    drained = [control_plane.post(f"/api/pods/{quote(each['id'])}/drain") for each in chosen]
    if as_json:
        print(json.dumps(drained, indent=2))
        return
    for each in drained:
        print(f"{each['id']}: {_farewell(each)}")
    if not drained:
        print(f"{pod}: no live worker, nothing to drain")


def _farewell(pod: Pod) -> str:
    if pod["state"] in ENDED:
        return f"is {pod['state']}"
    if pod["runId"] is not None:
        return f"ends after run {pod['runId']}"
    return "ends as soon as it hears of it"


def _names(pods: Sequence[Pod]) -> str:
    more = f" and {len(pods) - KNOWN_MAX} more" if len(pods) > KNOWN_MAX else ""
    return ", ".join(pod["id"] for pod in pods[:KNOWN_MAX]) + more


def _table(pods: Sequence[Pod]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    table = Table(box=None, pad_edge=False)
    for title in ("WORKER", "STATE", "MODE", "RUN", "DEVICE", "REGION", "REPORTED"):
        table.add_column(title, no_wrap=title == "WORKER")
    for pod in pods:
        cells = (
            pod["id"], pod["state"], pod["mode"], pod["runId"], pod["capabilities"].get("device"),
            pod["region"], pod["reportedAt"],
        )  # fmt: skip
        table.add_row(*(Text(str(cell or "–")) for cell in cells))
    console.print(table)
