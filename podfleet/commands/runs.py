"""`podfleet runs`: lists, shows and steers runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import islice, takewhile
from typing import Annotated, Any, Final

import typer

from events.answers.runs import Reason, Run, RunPage, RunRow
from podfleet import comparing, parameters, watching
from podfleet.client.following import LOG
from podfleet.client.problems import NotFound, Refused
from podfleet.client.synchronous import Client
from podfleet.commands import events
from podfleet.commands.maintenance import deleting
from podfleet.connection import EXIT_FAILED, client, fail, status_of, tell_of
from podfleet.id_lookup import RUN, RunName, RunNames, find
from podfleet.nouns import noun
from podfleet.output import AsJson, Column, IdsOnly, ago, field, print_items, print_json, say, tell, with_sign
from podfleet.parameters import (
    Attempts,
    Labels,
    NotBefore,
    Parameters,
    Priority,
    QueueLimit,
    Requires,
    Since,
    WithoutLabels,
    labels,
)

app = noun("runs")

SHOWN: Final = 30
SHOWN_MAX: Final = 10_000

Limit = Annotated[int, typer.Option("--limit", "-n", min=1, max=SHOWN_MAX, help="Maximum number of runs.")]

COLUMNS: Final = (
    Column("ID", field("id"), is_whole=True, is_id=True),
    Column("STATUS", field("status"), with_sign, is_whole=True),
    Column("KIND", field("kind"), is_whole=True),
    Column("TITLE", field("title")),
    Column("STAGE", field("current_stage", "name"), is_whole=True, is_spare=True),
    Column(
        "PROGRESS",
        field("current_stage", "progress"),
        watching.percent,
        is_whole=True,
        is_right=True,
        is_spare=True,
    ),
    Column("ATTEMPT", field("attempt"), is_right=True, is_whole=True, is_spare=True),
    Column("POD", field("claimed_by"), is_spare=True),
    Column("CREATED", field("created_at"), ago, is_whole=True),
    Column("ERROR", field("error", "code"), is_whole=True, is_spare=True),
)


@app.command("list")
def list_runs(
    status: Annotated[
        str | None, typer.Option("--status", "-s", help="Only this status, such as RUNNING or failed.")
    ] = None,
    kind: Annotated[str | None, typer.Option(help="Only this kind.")] = None,
    label: Annotated[
        str | None, typer.Option("--label", "-l", metavar="NAME=VALUE", help="Only with this label.")
    ] = None,
    hypothesis: Annotated[str | None, typer.Option(help="Only of this hypothesis.")] = None,
    group: Annotated[str | None, typer.Option(help="Only of this group.")] = None,
    pod: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only of this pod, or of a start of it (NAME/BOOT).")
    ] = None,
    by: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only that this key or user submitted.")
    ] = None,
    mine: Annotated[bool, typer.Option("--mine", help="Only that the own key submitted.")] = False,
    region: Annotated[str | None, typer.Option(help="Only in this region.")] = None,
    project: Annotated[str | None, typer.Option(metavar="NAME", help="Only of this project.")] = None,
    search: Annotated[str | None, typer.Option("--search", "-q", help="Words in the title.")] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option("--columns", help="Also these fields: summary.NAME, label.NAME, spec.PATH."),
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option(help="Sort the newest runs that fit by a field, with - before it from the top."),
    ] = None,
    since: Since = None,
    limit: Limit = SHOWN,
    ids_only: IdsOnly = False,
    as_json: AsJson = False,
) -> None:
    """List runs, the newest first, or in the order of a field."""
    from podfleet.id_lookup import HYPOTHESIS

    labels([label] if label else None)  # one that can be on no run is a slip, not an empty list
    control_plane = client()
    filters: dict[str, Any] = {
        "status": None if status is None else status.upper().replace("-", "_"),
        "kind": kind,
        "label": label,
        "hypothesis": None if hypothesis is None else find(control_plane, HYPOTHESIS, hypothesis),
        "group": group,
        "pod": pod,
        "by": by,
        "mine": mine,
        "region": region,
        "project": project,
        "q": search,
    }
    fields = list(dict.fromkeys(part.strip() for each in columns or () for part in each.split(",")))
    wanted = {**filters, "columns": fields, "sort": sort, "limit": min(limit, 200)}
    if sort is not None:
        _tell_bound(control_plane.run_page(**{**wanted, "limit": 1}))
        fields = list(dict.fromkeys([*fields, sort.removeprefix("-")]))
    listed = _not_older(control_plane.runs(**wanted), parameters.since(since), is_sorted=sort is not None)
    found = list(islice(listed, limit))
    none = "no run fits" if since or any(filters.values()) else "no runs yet: `podfleet submit`"
    shown = [*COLUMNS, *(Column(each, field("columns", each)) for each in fields if each)]
    print_items(found, shown, as_json=as_json, ids_only=ids_only, none=none)


def _not_older(runs: Iterator[RunRow], since: datetime | None, *, is_sorted: bool) -> Iterator[RunRow]:
    """Yield runs that were submitted since a moment; the newest come first, unless they are sorted."""
    if since is None:
        return runs
    of_all = filter if is_sorted else takewhile
    return of_all(lambda run: datetime.fromisoformat(run.created_at) >= since, runs)


def _tell_bound(page: RunPage) -> None:
    """Say where not all runs that fit are sorted."""
    if page.is_partial is True:
        tell(f"the newest {page.looked_at} runs that fit are sorted; filters bring older ones in")


@app.command()
def show(run: RunName, as_json: AsJson = False) -> None:
    """Show a run with its attempts, stages, verdicts and artifacts."""
    from podfleet import details

    control_plane = client()
    found = control_plane.run(find(control_plane, RUN, run))
    if as_json:
        print_json(found)
        return
    waits = found.status in ("QUEUED", "DELAYED")
    details.show_run(found, _reasons(control_plane, found.id) if waits else ())


def _reasons(control_plane: Client, run_id: str) -> Sequence[Reason]:
    """Return why a run waits; nothing where the control plane is too old to know it."""
    try:
        return control_plane.explain(run_id).reasons
    except NotFound as error:
        if error.is_route:
            return ()
        raise


@app.command()
def watch(
    run: RunName,
    exit_status: Annotated[
        bool, typer.Option("--exit-status", help="Exit with 1 if the run fails, is canceled or is rejected.")
    ] = False,
    until_reviewed: Annotated[
        bool, typer.Option("--until-reviewed", help="Also wait for the verdict of a person.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Watch a run until it ends, or waits for a review (exit status 4); Ctrl-C stops watching alone."""
    control_plane = client()
    run_id = find(control_plane, RUN, run)
    control_plane.run(run_id)  # says at once where there is no such run
    watching.watch(
        control_plane, run_id, as_json=as_json, exit_status=exit_status, until_reviewed=until_reviewed
    )


@app.command()
def logs(
    run: RunName,
    level: events.Level = None,
    follow: events.Follow = False,
    since: Since = None,
    lines: events.Lines = "all",
    as_json: AsJson = False,
) -> None:
    """Print the log lines of a run; with -f, also new ones."""
    printer = events.log_printer(as_json)
    events.show(run, kind=LOG, level=level, since=since, follow=follow, lines=lines, printer=printer)


@app.command()
def cancel(runs: RunNames, as_json: AsJson = False) -> None:
    """Cancel runs: waiting ones at once, running ones at the next renewal of their lease."""
    _steer(runs, client().cancel, as_json=as_json)


@app.command()
def rescue(runs: RunNames, as_json: AsJson = False) -> None:
    """Take runs from pods that are gone, without waiting for the end of their leases."""
    _steer(runs, client().rescue, as_json=as_json)


@app.command()
def pause(runs: RunNames, as_json: AsJson = False) -> None:
    """Pause runs until they are resumed."""
    _steer(runs, client().pause, as_json=as_json)


@app.command()
def resume(runs: RunNames, as_json: AsJson = False) -> None:
    """Resume paused runs."""
    _steer(runs, client().resume, as_json=as_json)


@app.command()
def note(
    run: RunName,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Note for the pipeline.")],
    as_json: AsJson = False,
) -> None:
    """Send a note to the pipeline of a run, which reads it at its next step."""
    _steer([run], partial(client().note, text=text), as_json=as_json)


@app.command()
def delete(runs: RunNames, yes: deleting.Yes = False, as_json: AsJson = False) -> None:
    """Delete runs that have ended, with all that belongs to them, once what that is was confirmed."""
    control_plane = client()
    ids = dict.fromkeys(find(control_plane, RUN, run) for run in runs)
    deleting.delete(ids, control_plane.deletion, control_plane.delete, yes=yes, as_json=as_json)


@app.command()
def change(
    runs: RunNames,
    priority: Priority = None,
    label: Labels = None,
    remove_label: WithoutLabels = None,
    requires: Requires = None,
    attempts: Attempts = None,
    queue_limit: QueueLimit = None,
    not_before: NotBefore = None,
    revision: Annotated[
        int | None, typer.Option(min=1, help="Change the run only if this is its revision.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Change options of waiting runs; `--requires nothing` and `--not-before now` remove what was asked."""
    changes = parameters.changes(
        priority=priority,
        label=label,
        requires=requires,
        attempts=attempts,
        queue_limit=queue_limit,
        not_before=not_before,
        remove_label=remove_label,
    )
    if not changes:
        raise typer.BadParameter("give an option to change, such as --priority 10")
    _steer(runs, partial(client().change, revision=revision, **changes), as_json=as_json)


@app.command()
def retry(
    runs: RunNames,
    parameter: Parameters = None,
    from_stage: Annotated[
        str | None,
        typer.Option("--from", metavar="STAGE", help="Start at this stage, from the checkpoints of the run."),
    ] = None,
    priority: Priority = None,
    label: Labels = None,
    remove_label: WithoutLabels = None,
    requires: Requires = None,
    attempts: Attempts = None,
    queue_limit: QueueLimit = None,
    not_before: NotBefore = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Watch the new run until it ends.")] = False,
    exit_status: Annotated[
        bool, typer.Option("--exit-status", help="With --watch: exit with 1 if the new run fails.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Queue finished runs again as new runs, and print their ids; what is given differs."""
    if watch and len(runs) > 1:
        raise typer.BadParameter("one run can be watched at a time", param_hint="--watch")
    changes = parameters.changes(
        priority=priority,
        label=label,
        requires=requires,
        attempts=attempts,
        queue_limit=queue_limit,
        not_before=not_before,
        remove_label=remove_label,
    )
    control_plane, patch = client(), parameters.spec(None, parameter)

    def retried(run_id: str) -> Run:
        again = control_plane.retry(run_id, from_stage=from_stage, spec=patch, **changes)
        say(again.id)
        return again

    again = _each(control_plane, runs, retried)
    if watch:
        watching.watch(control_plane, again[0].id, as_json=as_json, exit_status=exit_status)
    elif as_json:
        print_json(again)


@app.command()
def compare(
    runs: RunNames,
    everything: Annotated[bool, typer.Option("--all", help="Include fields that do not differ.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare runs side by side: parameters, outcomes, scores, cost."""
    control_plane = client()
    ids = [find(control_plane, RUN, run) for run in runs]
    comparing.show(control_plane.compare(ids), everything=everything, as_json=as_json)


@app.command("open")
def open_page(run: RunName) -> None:
    """Open the page of a run in the browser, and print its address."""
    import webbrowser

    control_plane = client()
    run_id = find(control_plane, RUN, run)
    control_plane.run(run_id)
    url = f"{control_plane.target.url}/runs/{run_id}"
    say(url)
    if not webbrowser.open(url):
        fail("no browser can be opened here; open the address above in one", EXIT_FAILED)


def _steer(runs: Sequence[str], order: Callable[[str], Run], *, as_json: bool) -> None:
    def ask(run_id: str) -> Run:
        answer = order(run_id)
        if not as_json:
            say(f"{run_id} {answer.status}{' (paused)' if answer.paused else ''}")
        return answer

    answers = _each(client(), runs, ask)
    if as_json:
        print_json(answers)


def _each(control_plane: Client, runs: Sequence[str], ask: Callable[[str], Run]) -> list[Run]:
    """Ask for each run, also behind one that refuses; the first refusal is the command's end."""
    ids = [find(control_plane, RUN, run) for run in runs]
    answers: list[Run] = []
    refused: typer.Exit | None = None
    for run_id in dict.fromkeys(ids):
        try:
            answers.append(ask(run_id))
        except Refused as error:
            tell_of(error)
            if len(ids) > 1:
                tell(f"{run_id} was refused")
            refused = refused or typer.Exit(status_of(error))
    if refused is not None:
        raise refused
    return answers
