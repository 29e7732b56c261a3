"""`podfleet hypotheses`: create hypotheses, list their ideas, launch runs."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from podfleet import parameters
from podfleet.commands.maintenance import deleting
from podfleet.commands.runs import COLUMNS as RUN_COLUMNS
from podfleet.commands.runs import SHOWN, Limit
from podfleet.commands.submit import ExitStatus, Watch, conclude, show_check
from podfleet.connection import client
from podfleet.id_lookup import HYPOTHESIS, HypothesisName, find
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
    with_sign,
)
from podfleet.parameters import (
    Attempts,
    Labels,
    NotBefore,
    Parameters,
    Priority,
    Project,
    QueueLimit,
    Requires,
    SecretNames,
)

app = noun("hypotheses")

Json = Mapping[str, Any]

COLUMNS: Final = (
    Column("ID", field("id"), is_whole=True, is_id=True),
    Column("TITLE", field("title")),
    Column("IDEATION", field("ideation", "status"), with_sign, is_whole=True),
    Column("IDEAS", field("idea_count"), is_whole=True, is_right=True),
    Column("BY", field("created_by"), is_spare=True),
    Column("CREATED", field("created_at"), ago, is_whole=True),
)


@app.command("list")
def list_hypotheses(limit: Limit = SHOWN, ids_only: IdsOnly = False, as_json: AsJson = False) -> None:
    """List hypotheses, the newest first."""
    found = list(islice(client().hypotheses(limit=min(limit, 200)), limit))
    print_items(
        found, COLUMNS, as_json=as_json, ids_only=ids_only, none="none yet: `podfleet hypotheses new`"
    )


@app.command()
def new(
    title: Annotated[str, typer.Argument(metavar="TITLE", help="Title of the hypothesis.")],
    idea: Annotated[str | None, typer.Option("--idea", help="The idea to test, as text.")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="The seven fields of the idea, as YAML or JSON.")
    ] = None,
    ideation: Annotated[
        bool, typer.Option("--ideation", help="Generate ideas first, and run none yet.")
    ] = False,
    reflections: Annotated[int, typer.Option(min=1, max=10, help="Reflection rounds per idea.")] = 3,
    ideas: Annotated[int, typer.Option(min=1, max=20, help="Number of ideas to generate.")] = 5,
    context: Annotated[str, typer.Option(help="Context for the generation of ideas.")] = "",
    max_cost_usd: Annotated[float | None, typer.Option(min=0, help="Budget of the ideation.")] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Budget of the ideation.")] = None,
    parameter: Parameters = None,
    priority: Priority = None,
    label: Labels = None,
    requires: Requires = None,
    attempts: Attempts = None,
    queue_limit: QueueLimit = None,
    not_before: NotBefore = None,
    secret: SecretNames = None,
    project: Project = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what its run would measure, and create nothing.")
    ] = False,
    watch: Watch = False,
    exit_status: ExitStatus = False,
    as_json: AsJson = False,
) -> None:
    """Create a hypothesis and queue its run, or with --ideation its ideation; print its id."""
    if (idea is None) == (file is None):
        raise typer.BadParameter("give the idea as text, or as a file with -f", param_hint="--idea")
    if dry_run and ideation:
        raise typer.BadParameter("an ideation measures nothing", param_hint="--dry-run")
    options = parameters.start_options(
        priority=priority,
        label=label,
        requires=requires,
        attempts=attempts,
        queue_limit=queue_limit,
        not_before=not_before,
        secret=secret,
        project=project,
    )
    control_plane = client()
    said = parameters.spec(file, None) if idea is None else idea
    if dry_run:
        spec = {"idea": said, **parameters.spec(None, parameter)}
        show_check(control_plane.check("experiment", spec, **options), as_json=as_json)
        return
    made = control_plane.propose(
        title,
        said,
        search_ideas=ideation,
        reflections=reflections,
        max_num_generations=ideas,
        additional_context=context,
        max_cost_usd=max_cost_usd,
        max_tokens=max_tokens,
        spec=parameters.spec(None, parameter),
        **options,
    )
    queued = made.ideation_request_id or made.run_id or ""
    conclude(control_plane, made, queued, watch=watch, exit_status=exit_status, as_json=as_json)


@app.command()
def delete(hypothesis: HypothesisName, yes: deleting.Yes = False, as_json: AsJson = False) -> None:
    """Delete a hypothesis with its ideas and its runs, once what that is was confirmed."""
    control_plane = client()
    ids = [find(control_plane, HYPOTHESIS, hypothesis)]
    delete_one = control_plane.delete_hypothesis
    deleting.delete(ids, control_plane.hypothesis_deletion, delete_one, yes=yes, as_json=as_json)


@app.command()
def show(hypothesis: HypothesisName, as_json: AsJson = False) -> None:
    """Show a hypothesis: its idea, its ideation, its runs."""
    from podfleet.details import show_idea

    control_plane = client()
    found = control_plane.hypothesis(find(control_plane, HYPOTHESIS, hypothesis))
    if as_json:
        print_json(found)
        return
    ideation = found.ideation
    error = ideation.error if ideation else None
    print_fields(
        [
            ("id", found.id),
            ("title", found.title),
            ("created", found.created_at),
            ("by", found.created_by),
            ("context", found.additional_context or None),
            ("ideation", ideation.status if ideation else None),
            ("error", f"{error.code}: {error.message}" if error else None),
            ("ideas", str(len(found.ideas)) if found.ideas else None),
            ("chosen", None if found.idea_index is None else str(found.idea_index)),
        ]
    )
    print_heading("idea")
    show_idea(found.idea_json or found.idea)
    if found.runs:
        print_heading("runs")
        print_items(found.runs, RUN_COLUMNS)


@app.command("ideas")
def list_ideas(hypothesis: HypothesisName, as_json: AsJson = False) -> None:
    """List the generated ideas (all fields with --json); a star marks the chosen one."""
    control_plane = client()
    found = control_plane.hypothesis(find(control_plane, HYPOTHESIS, hypothesis))
    chosen = found.idea_index
    ideas = [
        {"number": number, "chosen": number == chosen, "idea": idea}
        for number, idea in enumerate(found.ideas)
    ]
    none = (
        "no ideas were found" if found.ideation else "it was proposed without ideation; its own idea is all"
    )
    print_items(ideas, IDEAS, as_json=as_json, none=none)


@app.command()
def launch(
    hypothesis: HypothesisName,
    idea: Annotated[int | None, typer.Option(min=0, help="Number of the idea to choose.")] = None,
    parameter: Parameters = None,
    priority: Priority = None,
    label: Labels = None,
    requires: Requires = None,
    attempts: Attempts = None,
    queue_limit: QueueLimit = None,
    not_before: NotBefore = None,
    secret: SecretNames = None,
    project: Project = None,
    watch: Watch = False,
    exit_status: ExitStatus = False,
    as_json: AsJson = False,
) -> None:
    """Queue another run of a hypothesis with its chosen or another idea; print the run's id."""
    options = parameters.start_options(
        priority=priority,
        label=label,
        requires=requires,
        attempts=attempts,
        queue_limit=queue_limit,
        not_before=not_before,
        secret=secret,
        project=project,
    )
    control_plane = client()
    hypothesis_id = find(control_plane, HYPOTHESIS, hypothesis)
    spec = parameters.spec(None, parameter)
    run = control_plane.launch(hypothesis_id, spec=spec, idea_index=idea, **options)
    conclude(control_plane, run, run.id, watch=watch, exit_status=exit_status, as_json=as_json)


def _name(item: Json) -> str:
    from events.formatting import idea_name

    idea = item["idea"]
    return idea_name(idea) if isinstance(idea, Mapping) else str(idea)


IDEAS: Final = (
    Column("IDEA", field("number"), is_whole=True, is_right=True),
    Column("CHOSEN", field("chosen"), lambda chosen: "*" if chosen else " ", is_whole=True),
    Column("NAME", _name),
    Column("HYPOTHESIS", field("idea", "Short Hypothesis")),
)
