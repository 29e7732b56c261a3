"""`podfleet runs`: lists, shows and steers runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Annotated, Any, Final

import typer

from podfleet import comparing, watching
from podfleet.client import EXIT_FAILED, Client, client, fail
from podfleet.commands import events
from podfleet.naming import RUN, RunName, RunNames, find
from podfleet.nouns import noun
from podfleet.output import AsJson, Column, IdsOnly, ago, field, print_items, print_json, say, tell, with_sign
from podfleet.parameters import labels

app = noun("runs")

SHOWN: Final = 30
SHOWN_MAX: Final = 10_000

Json = Mapping[str, Any]
Limit = Annotated[
    int, typer.Option("--limit", "-n", min=1, max=SHOWN_MAX, help="How many, the newest first.")
]

COLUMNS: Final = (
    Column("ID", field("id"), is_whole=True),
    Column("STATUS", field("status"), with_sign, is_whole=True),
    Column("KIND", field("kind"), is_whole=True),
    Column("TITLE", field("title")),
    Column("STAGE", field("currentStage", "name"), is_whole=True, is_spare=True),
    Column(
        "PROGRESS",
        field("currentStage", "progress"),
        watching.percent,
        is_whole=True,
        is_right=True,
        is_spare=True,
    ),
    Column("ATTEMPT", field("attempt"), is_right=True, is_whole=True, is_spare=True),
    Column("POD", field("claimedBy"), is_spare=True),
    Column("CREATED", field("createdAt"), ago, is_whole=True),
)


@app.command("list")
def list_runs(
    status: Annotated[str | None, typer.Option("--status", "-s", help="Such as RUNNING or failed.")] = None,
    kind: Annotated[str | None, typer.Option(help="Of this kind.")] = None,
    label: Annotated[
        str | None, typer.Option("--label", "-l", metavar="NAME=VALUE", help="With this label.")
    ] = None,
    hypothesis: Annotated[str | None, typer.Option(help="Of this hypothesis.")] = None,
    pod: Annotated[str | None, typer.Option(help="That this worker has.")] = None,
    region: Annotated[str | None, typer.Option(help="That belong to this region.")] = None,
    search: Annotated[str | None, typer.Option("--search", "-q", help="Words of the title.")] = None,
    limit: Limit = SHOWN,
    ids_only: IdsOnly = False,
    as_json: AsJson = False,
) -> None:
    """Show runs, the newest first."""
    from podfleet.naming import HYPOTHESIS

    labels([label] if label else None)  # one that can be on no run is a slip, not an empty list
    control_plane = client()
    filters: dict[str, str | int | None] = {
        "status": None if status is None else status.upper().replace("-", "_"),
        "kind": kind,
        "label": label,
        "hypothesis": None if hypothesis is None else find(control_plane, HYPOTHESIS, hypothesis),
        "pod": pod,
        "region": region,
        "q": search,
        "limit": min(limit, 200),
    }
    found = list(islice(control_plane.items("/api/runs", **filters), limit))
    none = (
        "no run fits"
        if any(filters[name] for name in filters if name != "limit")
        else "no runs yet: `podfleet submit`"
    )
    print_items(found, COLUMNS, as_json=as_json, ids_only=ids_only, none=none)


@app.command()
def show(run: RunName, as_json: AsJson = False) -> None:
    """Show a run with its attempts, stages, verdicts and artifacts."""
    from podfleet import showing

    control_plane = client()
    found = control_plane.get(f"/api/runs/{find(control_plane, RUN, run)}")
    if as_json:
        print_json(found)
        return
    waits = found["status"] in ("QUEUED", "DELAYED")
    why = control_plane.get_if_known(f"/api/runs/{found['id']}/explain") if waits else None
    showing.show_run(found, why["reasons"] if why else ())


@app.command()
def watch(
    run: RunName,
    exit_status: Annotated[
        bool, typer.Option("--exit-status", help="End with 1 where the run fails, is canceled or rejected.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show a run live until it ends; Ctrl-C leaves it alone."""
    control_plane = client()
    run_id = find(control_plane, RUN, run)
    control_plane.get(f"/api/runs/{run_id}")  # says at once where there is no such run
    watching.watch(control_plane, run_id, as_json=as_json, exit_status=exit_status)


@app.command()
def logs(
    run: RunName,
    level: events.Level = None,
    follow: events.Follow = False,
    lines: events.Lines = "all",
    as_json: AsJson = False,
) -> None:
    """Print the lines that a run has logged; with -f, also those to come."""
    printer = events.log_printer(as_json)
    events.show(run, kind=events.LOG, level=level, follow=follow, lines=lines, printer=printer)


@app.command()
def cancel(runs: RunNames, as_json: AsJson = False) -> None:
    """Cancel runs: at once where they wait, else as soon as their pods have heard of it."""
    _steer(runs, "cancel", as_json=as_json)


@app.command()
def pause(runs: RunNames, as_json: AsJson = False) -> None:
    """Let runs stand still where they are until they are resumed."""
    _steer(runs, "pause", as_json=as_json)


@app.command()
def resume(runs: RunNames, as_json: AsJson = False) -> None:
    """Let paused runs go on."""
    _steer(runs, "resume", as_json=as_json)


@app.command()
def note(
    run: RunName,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="What its pipeline shall know.")],
    as_json: AsJson = False,
) -> None:
    """Tell a run's pipeline something, which it reads at its next step."""
    _steer([run], "notes", {"text": text}, as_json=as_json)


@app.command()
def retry(
    runs: RunNames,
    from_stage: Annotated[
        str | None,
        typer.Option("--from", metavar="STAGE", help="Begin at this stage, behind what the run left."),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Stay, and show the new run until it ends.")
    ] = False,
    exit_status: Annotated[
        bool, typer.Option("--exit-status", help="With --watch: end with 1 where the new run fails.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Queue finished runs again, each as a new run, and print the new ids."""
    if watch and len(runs) > 1:
        raise typer.BadParameter("one run can be watched at a time", param_hint="--watch")
    control_plane = client()
    body = None if from_stage is None else {"from_stage": from_stage}
    ask = partial(_retried, control_plane, body)
    again = _each(control_plane, runs, ask)
    if watch:
        watching.watch(control_plane, again[0]["id"], as_json=as_json, exit_status=exit_status)
    elif as_json:
        print_json(again)


@app.command()
def compare(
    runs: RunNames,
    everything: Annotated[bool, typer.Option("--all", help="Also what does not differ.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show side by side in what runs differ: parameters, ends, scores, cost."""
    control_plane = client()
    ids = [find(control_plane, RUN, run) for run in runs]
    comparison = control_plane.get("/api/runs/compare", run=ids)
    comparing.show(comparison, everything=everything, as_json=as_json)


@app.command("open")
def open_page(run: RunName) -> None:
    """Open the page of a run in the browser, and print its address."""
    import webbrowser

    control_plane = client()
    run_id = find(control_plane, RUN, run)
    control_plane.get(f"/api/runs/{run_id}")
    url = f"{control_plane.url}/runs/{run_id}"
    say(url)
    if not webbrowser.open(url):
        fail("no browser can be opened here; open the address above in one", EXIT_FAILED)


def _steer(runs: Sequence[str], order: str, body: Json | None = None, *, as_json: bool) -> None:
    control_plane = client()

    def ask(run_id: str) -> Json:
        answer = control_plane.post(f"/api/runs/{run_id}/{order}", body)
        if not as_json:
            say(f"{run_id} {answer['status']}{' (paused)' if answer.get('paused') else ''}")
        return answer

    answers = _each(control_plane, runs, ask)
    if as_json:
        print_json(answers)


def _retried(control_plane: Client, body: Json | None, run_id: str) -> Json:
    again = control_plane.post(f"/api/runs/{run_id}/retry", body)
    say(again["id"])
    return again


def _each(control_plane: Client, runs: Sequence[str], ask: Callable[[str], Json]) -> list[Json]:
    """Ask for each run, also behind one that refuses; the first refusal is the command's end."""
    ids = [find(control_plane, RUN, run) for run in runs]
    answers: list[Json] = []
    refused: typer.Exit | None = None
    for run_id in dict.fromkeys(ids):
        try:
            answers.append(ask(run_id))
        except typer.Exit as exit:
            if len(ids) > 1:
                tell(f"{run_id} was refused")
            refused = refused or exit
    if refused is not None:
        raise refused
    return answers
