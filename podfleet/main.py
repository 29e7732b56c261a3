"""The entry point of `podfleet`. Heavy imports wait until a command needs them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from events.runtime.access import Access, running
from events.runtime.errors import ConfigError
from podfleet.nouns import HELP_NAMES, Nouns
from podfleet.output import clean_lines, drop_output

app = typer.Typer(
    cls=Nouns,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": list(HELP_NAMES)},
)

KEYLESS_HELP: Final = (
    "This machine needs no key, until an admin key is made or a proxy is seen: for one of your own."
)
PUBLIC_HELP: Final = (
    "Address by which pods and browsers elsewhere reach this fleet, files included, such as "
    "https://fleet.example:8443. MongoDB and the storage stay on this machine."
)
LISTEN_HELP: Final = (
    "Where to listen for it: 0.0.0.0 and the port of the URL, unless said. Without a certificate an https "
    "URL is that of a proxy; one on this machine passes requests to --port, and nothing more is listened at."
)
Keyless = Annotated[bool, typer.Option("--keyless", help=KEYLESS_HELP)]


@app.command()
def up(
    workers: Annotated[int, typer.Option(help="Number of workers.")] = 1,
    port: Annotated[int, typer.Option(help="Port of the control plane.")] = 8700,
    data: Annotated[Path, typer.Option(help="Data folder.")] = Path(".podfleet"),
    label: Annotated[
        list[str] | None,
        typer.Option("--label", metavar="NAME=VALUE", help="Label of the workers, which runs may ask for."),
    ] = None,
    keyless: Keyless = False,
    public: Annotated[str | None, typer.Option(metavar="URL", help=PUBLIC_HELP)] = None,
    listen: Annotated[str | None, typer.Option(metavar="HOST[:PORT]", help=LISTEN_HELP)] = None,
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Certificate of that address, with its chain (PEM).")
    ] = None,
    private_key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Private key of the certificate (PEM).")
    ] = None,
) -> None:
    """Run the whole fleet on this machine until Ctrl-C."""
    from events.runtime.clock import SystemClock, SystemIds
    from podfleet.embedded.config import environment
    from podfleet.embedded.public_address import PublicAddress
    from podfleet.embedded.stack import Options, World
    from podfleet.embedded.stack import up as run_stack

    world = World(environment=environment(Path.cwd()), clock=SystemClock(), ids=SystemIds(), say=_say)
    options = Options(
        data=data,
        port=port,
        workers=workers,
        labels=tuple(label or ()),
        keyless=keyless,
        public=PublicAddress(url=public, listen=listen, certificate=certificate, private_key=private_key),
    )
    raise typer.Exit(run_stack(options, world))


@app.command()
def serve(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on.")] = 8700,
    keyless: Keyless = False,
) -> None:
    """Run one control plane, with MongoDB and storage from the environment."""
    from control_plane.__main__ import serve as run_server

    raise typer.Exit(run_server(host=host, port=port, keyless=keyless))


@app.command()
def env() -> None:
    """Print the address and the key of the fleet that runs here: `eval "$(podfleet env)"` sets them."""
    import shlex

    found = _fleet_here()
    print(f"export CONTROL_PLANE_URL={shlex.quote(found.url)}")
    print(f"export PODFLEET_API_KEY={shlex.quote(found.key or '')}")
    if found.public_url is not None:  # what a pod elsewhere has as its CONTROL_PLANE_URL
        print(f"export PODFLEET_PUBLIC_URL={shlex.quote(found.public_url)}")


@app.command()
def signin() -> None:
    """Print a one-time sign-in link for a browser, valid for ten minutes."""
    from podfleet.connection import client

    control_plane = client()
    link = control_plane.sign_in_link()
    print(link.url or f"{control_plane.target.url}{link.path}")


def _fleet_here() -> Access:
    from podfleet.connection import EXIT_UNREACHABLE, fail
    from podfleet.embedded.config import data_folder

    data = data_folder(Path.cwd())
    found = running(data)
    if found is None:
        words = f"no fleet of yours runs in {data}: start one there with `podfleet up`, or set PODFLEET_DATA"
        fail(words, EXIT_UNREACHABLE)
    return found


@app.command()
def migrate() -> None:
    """Create the missing indexes in the database that MONGODB_URL names; idempotent."""
    from control_plane.__main__ import migrate as run_migration

    raise typer.Exit(run_migration())


@app.command()
def version() -> None:
    """Print the version."""
    from importlib.metadata import version as version_of

    print(version_of("podfleet"))


def _version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback()
def options(
    wanted: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Run, watch and steer a fleet of GPU workers."""


def main() -> None:
    """Run the command line; what no command could foresee ends it in words too."""
    try:
        try:
            app(prog_name="podfleet")
        finally:
            if sys.stdout is not None:  # closed by who started us
                sys.stdout.flush()
    except ConfigError as error:
        end, message = 2, error.message
    except ModuleNotFoundError as error:  # as on a pod, which has no web stack
        wanted = "pip install 'podfleet[control,embedded]'"
        end, message = 1, f"this install has no {error.name}, which the command needs: {wanted}"
    except OSError as error:  # as where the disk is full on which the output goes
        is_read = isinstance(error, BrokenPipeError)  # as by `head`, which has what it wanted
        end, message = (0, "") if is_read else (1, str(error))
        drop_output()
    else:
        return
    if message:
        print(clean_lines(message), file=sys.stderr)
    sys.exit(end)


def _say(line: str) -> None:
    print(line, flush=True)
