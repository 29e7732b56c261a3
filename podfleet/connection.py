"""Which control plane a command asks, and how the command ends when that does not work."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final, NoReturn

import typer

from events.runtime.errors import ConfigError
from podfleet.client.problems import BadAddress, ClientError, Invalid, Refused, Unreachable
from podfleet.client.synchronous import Client
from podfleet.output import clean_lines

EXIT_FAILED: Final = 1
EXIT_WRONG_USE: Final = 2
EXIT_UNREACHABLE: Final = 3
EXIT_REVIEW: Final = 4  # what was watched waits for a person
EXIT_INTERRUPTED: Final = 130


def fail(message: str, status: int) -> NoReturn:
    """Print the problem and end the command with `status`."""
    print(clean_lines(message), file=sys.stderr)
    raise typer.Exit(status)


def tell_of(error: ClientError) -> None:
    """Print the error of a client, and what to do next."""
    advice = error.advice if isinstance(error, Refused) else None
    print(clean_lines(f"{error}\n{advice}" if advice else str(error)), file=sys.stderr)


def status_of(error: ClientError) -> int:
    """Return the exit status for the error of a client: invalid, not allowed now, or unreachable."""
    if isinstance(error, Unreachable):
        return EXIT_UNREACHABLE
    return EXIT_WRONG_USE if isinstance(error, Invalid | BadAddress) else EXIT_FAILED


def client() -> Client:
    """Return the control plane that the environment names, else the one that runs in this folder."""
    from podfleet.embedded.config import found_access

    try:
        found = found_access(Path.cwd())
    except ConfigError as error:
        fail(error.message, EXIT_WRONG_USE)
    return Client(found.url, found.key)
