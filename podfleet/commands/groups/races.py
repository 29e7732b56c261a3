"""`podfleet races`: lists, shows, checks, exports and repeats races."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from events.answers.plans.races import LaneChecks, Race
from events.formatting import in_one_line
from events.formatting import number as number_shown
from podfleet import parameters
from podfleet.client import endpoints
from podfleet.commands.groups.lanes import late_shown
from podfleet.commands.groups.race import Measure, OfLane, OnePer, Pods, Where, wanted_lanes
from podfleet.commands.runs import SHOWN, Limit
from podfleet.connection import EXIT_FAILED, EXIT_WRONG_USE, client, fail
from podfleet.nouns import noun
from podfleet.output import (
    AsJson,
    Column,
    IdsOnly,
    ago,
    field,
    print_fields,
    print_heading,
    print_items,
    print_json,
    say,
)
from podfleet.parameters import Parameters, Requires, SpecFile

app = noun("races")

FORMATS: Final = ("zip", "csv")

Name = Annotated[str, typer.Argument(metavar="RACE", help="Its name.")]
Round = Annotated[int | None, typer.Option("--round", min=1, help="A round; default: the present one.")]
OnPods = Annotated[
    str, typer.Option("--pods", metavar="NAME,NAME", help="Only races on any of these.", show_default=False)
]


def _best(race: Any) -> str:
    """Return who leads a race of a list, and with what."""
    if race.leader is None:
        return "–"
    return f"{race.leader.pod} {number_shown(race.leader.value)} {race.measure.unit}".strip()


COLUMNS: Final = (
    Column("RACE", field("id"), is_whole=True),
    Column("STATUS", field("status"), is_whole=True),
    Column("KIND", field("kind"), is_whole=True),
    Column("ROUND", field("round")),
    Column("PODS", lambda race: ", ".join(race.pods)),
    Column("BEST", _best, is_prose=True),
    Column("CREATED", field("created_at"), ago, is_whole=True),
)
CHECKS: Final = (
    Column("POD", lambda each: each[0].pod, is_whole=True),
    Column("GRADE", lambda each: each[0].grade, is_whole=True),
    Column("CHECK", lambda each: each[1].name, is_whole=True),
    Column("ITS GRADE", lambda each: each[1].grade, is_whole=True),
    Column("WHY", lambda each: each[1].says, is_spare=True, is_prose=True),
)


@app.command("list")
def list_races(
    pods: OnPods = "",
    kind: Annotated[str | None, typer.Option(help="Only this kind.")] = None,
    status: Annotated[str | None, typer.Option(help="Only this status.")] = None,
    limit: Limit = SHOWN,
    ids_only: IdsOnly = False,
    as_json: AsJson = False,
) -> None:
    """List races, the newest first."""
    names = [name.strip() for name in pods.split(",") if name.strip()]
    wanted = client().races(pods=names, kind=kind, status=status, limit=min(limit, 200))
    print_items(
        list(islice(wanted, limit)), COLUMNS, as_json=as_json, ids_only=ids_only, none="none: `podfleet race`"
    )


@app.command()
def show(race: Name, round_: Round = None, as_json: AsJson = False) -> None:
    """Show a race: its lanes, what they measured, and who won by how much."""
    found = client().race(race, round=round_)
    if as_json:
        print_json(found)
        return
    print_fields(
        [
            ("id", found.id),
            ("status", found.status),
            ("round", f"{found.round}, since {found.since}"),
            ("kind", found.kind),
            ("spec", in_one_line(found.spec)),
            ("start", found.start_at or "not decided yet"),
            ("start skew", late_shown(found.skew_s)),
            ("decided by", f"{found.measure.name}, {found.measure.direction} is better"),
            ("result", found.verdict.says),
            ("method", found.verdict.method),
        ]
    )
    print_heading("lanes")
    print_items(found.lanes, _lane_columns(found))


def _lane_columns(race: Race) -> tuple[Column, ...]:
    measure = race.measure

    def figure(lane: Any) -> str:
        found = lane.figures.get(measure.name)
        if found is None:
            return "–"
        spread = "" if found.low is None else f" ({found.low:.4g} to {found.high:.4g}, n={found.n})"
        return f"{found.mean:.4g}{spread}"

    return (
        Column("PLACE", lambda lane: lane.place or "–", is_whole=True),
        Column("POD", field("pod"), is_whole=True),
        Column("LANE", field("state"), is_whole=True),
        Column("STATUS", field("status"), is_whole=True),
        Column(f"{measure.name} {measure.unit}".strip().upper(), figure, is_whole=True),
        Column("END AFTER", lambda lane: "–" if lane.finish_s is None else f"{lane.finish_s:,.3f} s"),
        Column("RUN", field("run_id"), is_whole=True, is_id=True),
        Column("PROBLEM", lambda lane: lane.failure or lane.problem or "", is_spare=True, is_prose=True),
    )


@app.command()
def check(
    kind: Annotated[str, typer.Option(help="Kind of run.")],
    pods: Pods = "",
    where: Where = None,
    one_per: OnePer = None,
    parameter: Parameters = None,
    lane: OfLane = None,
    file: SpecFile = None,
    measure: Measure = None,
    requires: Requires = None,
    as_json: AsJson = False,
) -> None:
    """Say which pods would race, and whether each can take its lane; it fails where one cannot."""
    found = client().check_race(
        kind,
        parameters.spec(file, parameter),
        lanes=wanted_lanes(pods, where, one_per, lane),
        measure=measure,
        requires=parameters.requirements(requires) or None,
    )
    if as_json:
        print_json(found)
    else:
        print_items([(each, one) for each in found.lanes for one in _told(each)], CHECKS)
    if found.grade == "FAIL":
        raise typer.Exit(EXIT_FAILED)


def _told(lane: LaneChecks) -> list[Any]:
    """Return the checks of a lane that say something; the first where all are good."""
    return [each for each in lane.checks if each.grade != "GOOD" or each.name == "memory"] or lane.checks[:1]


@app.command()
def again(race: Name, as_json: AsJson = False) -> None:
    """Begin a new round on the same machines."""
    made = client().race_again(race)
    if as_json:
        print_json(made)
    else:
        say(f"{made.id} round {made.round}")


@app.command()
def cancel(race: Name, as_json: AsJson = False) -> None:
    """Cancel the lanes that have not ended."""
    made = client().cancel_race(race)
    if as_json:
        print_json(made)
    else:
        say(f"{made.id} {made.status}")


@app.command()
def export(
    race: Name,
    output: Annotated[str, typer.Option("--output", "--to", "-o", help="The file.")],
    format: Annotated[
        str | None, typer.Option("--format", help="zip or csv; default: as the file ends, else zip.")
    ] = None,
    round_: Round = None,
) -> None:
    """Write a race as a signed ZIP, or its laps as CSV."""
    format = format or ("csv" if output.lower().endswith(".csv") else "zip")
    if format not in FORMATS:
        fail(f"--format is {' or '.join(FORMATS)}, not {format}", EXIT_WRONG_USE)
    half = Path(f"{output}.part")
    try:
        with half.open("wb") as file:
            for piece in client().pieces(endpoints.export_race(race, format=format, round=round_)):
                file.write(piece)
        os.replace(half, output)
    except OSError as error:
        fail(f"{output} cannot be written: {error.strerror}", EXIT_FAILED)
    finally:
        half.unlink(missing_ok=True)
    say(output)
