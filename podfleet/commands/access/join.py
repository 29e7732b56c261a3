"""`podfleet pods join`: prints the line by which a machine becomes a pod, with a key of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from events.answers.fleet import Installation
from events.kinds.declaring.queues import DEFAULT_MODE, MODES
from events.queue.labels import operators_labels
from events.runtime.clock import SystemIds
from podfleet.client.synchronous import Client
from podfleet.commands.access.join_line import (
    EXTRAS_DEFAULT,
    Joining,
    fault_of_url,
    line_of,
    start_of,
    warning_of_url,
)
from podfleet.connection import EXIT_WRONG_USE, client, fail
from podfleet.output import AsJson, print_json
from podfleet.parameters import seconds_of

PUBLIC_URL: Final = "PODFLEET_PUBLIC_URL"
SLOTS_MAX: Final = 64
EXPIRES_DEFAULT: Final = "30d"
ID_CHARS: Final = 8


def join(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Name of the key, for lists and the audit log.")
    ] = None,
    expires: Annotated[
        str, typer.Option(metavar="TIME", help="Lifetime of the key, such as 12h or 30d.")
    ] = EXPIRES_DEFAULT,
    pod: Annotated[
        str | None,
        typer.Option(metavar="POD", help="Name of the pod, on RunPod its id; the key serves no other."),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="NAME=VALUE", help="Label that runs may ask for; repeatable."),
    ] = None,
    slots: Annotated[
        int | None, typer.Option(min=1, max=SLOTS_MAX, help="Runs at a time (default: one for each GPU).")
    ] = None,
    mode: Annotated[str, typer.Option(help=f"{', '.join(MODES)}.")] = DEFAULT_MODE,
    extras: Annotated[
        str,
        typer.Option(metavar="NAMES", help="What is installed, separated by commas."),
    ] = ",".join(EXTRAS_DEFAULT),
    own_torch: Annotated[
        bool, typer.Option("--own-torch", help="The machine has PyTorch, which is used and not installed.")
    ] = False,
    python: Annotated[str, typer.Option(help="Its Python, 3.11 or newer.")] = "python3",
    as_json: AsJson = False,
) -> None:
    """Print the one line that a machine runs to become a pod: it installs podfleet and starts a worker.

    The line has a key that may do only what pods do. It is shown this once.
    """
    life_s = seconds_of(expires, "--expires")
    if problems := operators_labels(None, tuple(label or ()))[1]:
        fail("\n".join(problems), EXIT_WRONG_USE)
    if mode not in MODES:
        fail(f"--mode is {mode!r}; accepted values: {', '.join(MODES)}", EXIT_WRONG_USE)
    control_plane = client()
    served = control_plane.installation()
    chosen = _extras(extras, served)
    url = _address(control_plane, served)
    name = name or f"join {pod or SystemIds().token()[:ID_CHARS]}"
    made = control_plane.make_key("pod", name, pod=pod, life_s=life_s)
    wanted = Joining(
        url=url, key=made.key, pod=pod, mode=mode, slots=slots, labels=label or (), extras=chosen,
        has_torch=own_torch, python=python,
    )  # fmt: skip
    if as_json:
        line = {
            "line": line_of(wanted, served),
            "start": start_of(wanted),
            "url": url,
            "sha256": served.sha256,
        }
        print_json({**line, "key_id": made.id, "name": made.name, "ends_at": made.ends_at})
        return
    print(line_of(wanted, served))
    if left := [each for each in served.extras if each not in chosen]:
        _note(f"it claims only what it has the packages for; --extras may add {', '.join(left)}")
    _note(f"key {made.id} ({made.name}) ends at {made.ends_at}; `podfleet keys revoke {made.id}` ends it now")
    _note("the machine starts again with the last part of the line, behind the last &&")
    if warning := warning_of_url(url):
        _note(f"warning: {warning}")


def _extras(text: str, served: Installation) -> list[str]:
    """Return the names that a text lists; a name that the control plane does not serve ends the command."""
    found = list(dict.fromkeys(filter(None, (each.strip() for each in text.split(",")))))
    if unknown := [each for each in found if each not in served.extras]:
        known = ", ".join(served.extras)
        fail(f"--extras names {', '.join(unknown)}; accepted values: {known}", EXIT_WRONG_USE)
    if "pod" not in found:
        fail(f"--extras is {text!r}; without pod no worker starts", EXIT_WRONG_USE)
    return found


def _address(control_plane: Client, served: Installation) -> str:
    """Return where the machine finds the control plane; an address that none can be ends the command."""
    from podfleet.embedded.config import environment

    named = environment(Path.cwd()).get(PUBLIC_URL)
    url = (named or served.public_url or control_plane.target.url).strip().rstrip("/")
    if fault := fault_of_url(url):
        fail(f"{PUBLIC_URL}: {fault}", EXIT_WRONG_USE)
    return url


def _note(text: str) -> None:
    typer.echo(text, err=True)
