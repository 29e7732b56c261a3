"""The nouns of the command line; the module of one is imported when it is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from events.kinds import KINDS
from events.runtime.errors import ConfigError

HELP_NAMES: Final = ("-h", "--help")

# The module of each, whose `app` it is, and what is said of it where all are listed.
OF_PODFLEET: Final[Mapping[str, tuple[str, str]]] = {
    "submit": ("podfleet.commands.submit", "Queue a run and print its id."),
    "kinds": ("podfleet.commands.catalogue.kinds", "List the kinds of run and their parameters."),
    "runs": ("podfleet.commands.runs", "List, show, watch and control runs."),
    "boards": ("podfleet.commands.boards", "Show a number of runs by their fields, and save such boards."),
    "events": ("podfleet.commands.events", "Show and follow the events of a run."),
    "results": ("podfleet.commands.results", "List, export and compare the results of runs."),
    "archive": (
        "podfleet.commands.maintenance.archive",
        "Write a run into one file, and verify such a file.",
    ),
    "artifacts": ("podfleet.commands.artifacts", "List and download the files of a run."),
    "data": ("podfleet.commands.data", "Push, list and pull versions of data sets."),
    "reviews": ("podfleet.commands.reviews", "List runs that wait for review, and give a verdict."),
    "groups": ("podfleet.commands.groups.groups", "List, show and steer groups of runs."),
    "sweep": ("podfleet.commands.groups.sweep", "Run a kind with many values of its parameters, as a group."),
    "race": ("podfleet.commands.groups.race", "Run a kind on chosen pods, started together, as a group."),
    "races": ("podfleet.commands.groups.races", "List, show, check, export and repeat races."),
    "schedules": ("podfleet.commands.schedules", "Run at the times of a cron expression."),
    "pods": ("podfleet.commands.pods.pods", "List, show, cordon and drain the pods of the fleet."),
    "queue": ("podfleet.commands.queue", "Show the queue: waiting runs per class, and their wait."),
    "ledger": ("podfleet.commands.maintenance.ledger", "Show what pods spent their time on, and its cost."),
    "keys": ("podfleet.commands.access.keys", "Create, list, rotate and revoke API keys."),
    "models": ("podfleet.commands.catalogue.models", "List, set and sync the models that runs may name."),
    "projects": ("podfleet.commands.access.projects", "Set, list and show projects, and their quotas."),
    "secrets": ("podfleet.commands.access.secrets", "Set, list and remove secrets, by name."),
    "retention": ("podfleet.commands.maintenance.retention", "Set what is removed of old runs, and when."),
    "webhooks": ("podfleet.commands.access.webhooks", "Add, list and test webhooks, and replay deliveries."),
    "audit": ("podfleet.commands.access.audit", "List and export the audit log."),
    "config": ("podfleet.commands.maintenance.config", "Show the settings and the source of each."),
    "doctor": (
        "podfleet.commands.maintenance.doctor",
        "Check all dependencies, and suggest a fix for each fault.",
    ),
    "verify": (
        "podfleet.commands.maintenance.verify",
        "Check a database against its event log; it may be in use.",
    ),
    "rebuild": ("podfleet.commands.maintenance.rebuild", "Rebuild documents from the event log."),
    "storage": ("podfleet.commands.maintenance.storage", "List and remove objects that nothing names."),
    "repair": (
        "podfleet.commands.maintenance.repair",
        "Close what event logs have lost, as after a restore.",
    ),
    "backup": ("podfleet.commands.maintenance.backup", "Back up a database and its files; it may be in use."),
    "restore": ("podfleet.commands.maintenance.restore", "Restore a backup into an empty database."),
}
OF_KINDS: Final[Mapping[str, tuple[str, str]]] = {
    name: module
    for kind in KINDS.values()
    for name, module in (
        *((noun.collection, (noun.command, noun.says)) for noun in kind.nouns if noun.command),
        *kind.commands.items(),
    )
}
NOUNS: Final[Mapping[str, tuple[str, str]]] = {**OF_KINDS, **OF_PODFLEET}


def noun(name: str, *, has_verbs: bool = True) -> typer.Typer:
    """Return the empty app of a noun, for its commands to be added."""
    app = typer.Typer(
        cls=Verbs,
        help=NOUNS[name][1],
        no_args_is_help=has_verbs,
        add_completion=False,
        rich_markup_mode=None,  # help as plain text: it is there at once
        context_settings={"help_option_names": list(HELP_NAMES)},
    )
    if has_verbs:
        app.callback(help=NOUNS[name][1])(_before_any_verb)
    return app


def _before_any_verb() -> None:
    """Do nothing: a callback makes typer keep the verb of a noun with only one."""


class Verbs(TyperGroup):
    """Lists its commands with the whole of what is said of each, where a terminal's width would cut it."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, or None where there is none."""
        command = super().get_command(ctx, cmd_name)
        if command is not None and command.help and not command.short_help:
            command.short_help = " ".join(command.help.partition("\n\n")[0].split())
        return command


class Nouns(Verbs):
    """Lists the nouns without their modules, and loads the one that is used.

    Raises `ConfigError` where a kind brings a noun that podfleet has as a command or a noun of its own.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        problems = list(_shadows({*OF_PODFLEET, *self.commands}))
        if problems:
            raise ConfigError(problems)
        nouns = {name: TyperCommand(name, help=says) for name, (_, says) in NOUNS.items()}
        self.commands = {**nouns, **self.commands}

    def invoke(self, ctx: Any) -> Any:
        """Run the command; an error of a client ends it with a message, a reader that has enough without."""
        from podfleet.client.problems import ClientError

        try:
            return super().invoke(ctx)
        except ClientError as error:
            from podfleet.connection import status_of, tell_of

            tell_of(error)
            raise typer.Exit(status_of(error)) from None
        except BrokenPipeError:  # as by `head`, which has read what it wanted
            from podfleet.output import drop_output

            drop_output()
            raise typer.Exit from None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the arguments name, loaded."""
        if args and args[0] in NOUNS:
            self.commands[args[0]] = _loaded(args[0])
        return super().resolve_command(ctx, args)


def _shadows(own: Set[str]) -> Iterator[str]:
    """Yield what is wrong with each noun of a kind that has one of podfleet's `own` names."""
    for kind in KINDS.values():
        for each in kind.nouns:
            if each.command and each.collection in own:
                taken = f"its noun {each.collection!r} is a command of podfleet already"
                yield f"kind {kind.name!r}: {taken}; uninstall its package or fix it"


def _loaded(name: str) -> Any:
    command = get_command(import_module(NOUNS[name][0]).app)
    command.name = name
    return command
