"""The endpoints that a client calls, as data; a test compares them with the OpenAPI document; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from types import NoneType
from typing import Any, Final, Unpack

from events.answers.access.audit_log import AuditEntry
from events.answers.access.keeping import ArchivedRun, Deletion, RetentionPreview, RetentionRule, Tombstone
from events.answers.access.keys import Key, MadeKey
from events.answers.access.projects import Project
from events.answers.access.secrets import RotatedSecrets, Secret
from events.answers.access.webhooks import MadeWebhook, Replayed, Webhook, WebhookDelivery
from events.answers.answer import Listing
from events.answers.artifacts import Artifact
from events.answers.attempts import PodAttempt
from events.answers.fleet import Installation, Ledger, Queue, SignInLink
from events.answers.groups import Group, GroupMember, GroupRow
from events.answers.kinds.boards import Board, History, SavedBoard
from events.answers.kinds.estimates import RunEstimate
from events.answers.kinds.hypotheses import Hypothesis, HypothesisRow, ProposedHypothesis
from events.answers.kinds.kind import KindAnswer
from events.answers.kinds.models import CatalogueModel, SyncedModels
from events.answers.kinds.results import ComparedRows, ItemPairs, ResultPage, ResultRow, SigningKeys
from events.answers.kinds.tasks import Task, TaskEstimate, TaskExport, TaskRow, TriedConfiguration
from events.answers.kinds.trees import DataSet, FileTree, MissingObjects, TreeChunks
from events.answers.logs import LogPage
from events.answers.plans.races import Race, RaceChecks, RaceRow, RaceSamples
from events.answers.plans.studies import StudyImportance
from events.answers.pods import Pod, PodStanding, Sample
from events.answers.runs import CheckedRun, Comparison, Explanation, Nodes, Run, RunPage
from events.answers.schedules import CronPreview, Schedule, Slots
from podfleet.client.call import Call, Redirect
from podfleet.client.options import OptionChanges, Options, StartOptions, given, in_json

PAGE: Final = 200

Json = Mapping[str, Any]
Plan = Json  # of a group, as the API takes it


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def submit(
    kind: str,
    spec: Json | None = None,
    *,
    after: Sequence[str] | None = None,
    idempotency_key: str | None = None,
    **options: Unpack[StartOptions],
) -> Call[Run]:
    """Queue a run; the same `idempotency_key` again means the same run. It waits for the runs in `after`."""
    headers = _given(**{"Idempotency-Key": idempotency_key})
    body = {**_run_body(kind, spec, options), **_given(after=[*after] if after else None)}
    return Call("POST", "/api/runs", Run, body=body, headers=headers)


def check(
    kind: str,
    spec: Json | None = None,
    **options: Unpack[StartOptions],
) -> Call[CheckedRun]:
    """Return what a submission would queue, every default filled in; nothing is stored."""
    body = _run_body(kind, spec, options)
    return Call("POST", "/api/runs", CheckedRun, query={"dry_run": "true"}, body=body)


def estimate(
    kind: str,
    spec: Json | None = None,
    **options: Unpack[StartOptions],
) -> Call[RunEstimate]:
    """Return what a submission would take in time, tokens and money; nothing is stored."""
    return Call("POST", "/api/run-estimates", RunEstimate, body=_run_body(kind, spec, options))


def _run_body(kind: str, spec: Json | None, options: Mapping[str, Any]) -> dict[str, Any]:
    return {"kind": kind, **_given(spec=spec), **given(options)}


def _if_match(revision: int | None) -> dict[str, str]:
    return {} if revision is None else {"If-Match": f'"{revision}"'}


def run(run_id: str) -> Call[Run]:
    """Return a run with everything that belongs to it."""
    return Call("GET", "/api/runs/{run_id}", Run, {"run_id": run_id})


def deletion(run_id: str) -> Call[Deletion]:
    """Return what a deletion of a run would take along, and why it would be refused now."""
    return Call("GET", "/api/runs/{run_id}/deletion", Deletion, {"run_id": run_id})


def delete(run_id: str) -> Call[Tombstone]:
    """Delete a run that has ended, and return what stays of it."""
    return Call("DELETE", "/api/runs/{run_id}", Tombstone, {"run_id": run_id})


def hypothesis_deletion(hypothesis_id: str) -> Call[Deletion]:
    """Return what a deletion of a hypothesis would take along: its runs, and all that is theirs."""
    place = {"hypothesis_id": hypothesis_id}
    return Call("GET", "/api/hypotheses/{hypothesis_id}/deletion", Deletion, place)


def delete_hypothesis(hypothesis_id: str) -> Call[Tombstone]:
    """Delete a hypothesis with its runs, all of which have ended, and return what stays of it."""
    return Call("DELETE", "/api/hypotheses/{hypothesis_id}", Tombstone, {"hypothesis_id": hypothesis_id})


def retention_rules() -> Call[Listing[RetentionRule]]:
    """Return the rules of retention, and how far each was carried out."""
    return Call("GET", "/api/retention", Listing[RetentionRule])


def retention_preview(rule_id: str) -> Call[RetentionPreview]:
    """Return what the next rounds of a rule would take."""
    return Call("GET", "/api/retention/{rule_id}/preview", RetentionPreview, {"rule_id": rule_id})


def set_retention_rule(
    rule_id: str, what: str, days: int | None, *, kind: str | None = None, label: str | None = None
) -> Call[RetentionRule]:
    """Set a rule of retention; without `days` it takes nothing."""
    body = {"what": what, "days": days, "kind": kind, "label": label}
    return Call("PUT", "/api/retention/{rule_id}", RetentionRule, {"rule_id": rule_id}, body=body)


def remove_retention_rule(rule_id: str) -> Call[None]:
    """Remove a rule of retention; in the place of a changed default the default holds again."""
    return Call("DELETE", "/api/retention/{rule_id}", NoneType, {"rule_id": rule_id})


def runs(
    *,
    status: str | None = None,
    kind: str | None = None,
    label: str | None = None,
    hypothesis: str | None = None,
    group: str | None = None,
    pod: str | None = None,
    by: str | None = None,
    mine: bool = False,
    region: str | None = None,
    project: str | None = None,
    q: str | None = None,
    columns: Sequence[str] = (),
    sort: str | None = None,
    limit: int = PAGE,
    after: str | None = None,
) -> Call[RunPage]:
    """Return a page of runs, newest first; `q` is the beginning of an id, or words of the title.

    `pod` is a pod, or a start of one (`name/boot`). `by` submitted them; `mine` are of the own key.
    `columns` are fields (`summary.NAME`, `label.NAME`, `spec.PATH`). By `sort`, one of them or `-` and one,
    the newest runs that fit are sorted: the page says how many those are, and whether there are older ones.
    """
    query = {
        "status": status, "kind": kind, "label": label, "hypothesis": hypothesis, "group": group,
        "pod": pod, "by": by, "mine": "true" if mine else None, "region": region, "project": project,
        "q": q, "columns": ",".join(columns) or None, "sort": sort, "limit": limit, "after": after,
    }  # fmt: skip
    return Call("GET", "/api/runs", RunPage, query=query)


def boards(*, limit: int = PAGE, after: str | None = None) -> Call[Listing[SavedBoard]]:
    """Return a page of the saved boards and views, by name."""
    return Call("GET", "/api/boards", Listing[SavedBoard], query={"limit": limit, "after": after})


def saved_board(board_id: str) -> Call[SavedBoard]:
    """Return what is saved under a name."""
    return Call("GET", "/api/boards/{board_id}", SavedBoard, {"board_id": board_id})


def save_board(board_id: str, query: Mapping[str, str], *, page: str = "board") -> Call[SavedBoard]:
    """Save the query of a board under a name, in the place of what had it; of a view of runs for `runs`."""
    body = {"page": page, "query": dict(query)}
    return Call("PUT", "/api/boards/{board_id}", SavedBoard, {"board_id": board_id}, body=body)


def remove_board(board_id: str) -> Call[None]:
    """Remove a name; the runs behind it stay."""
    return Call("DELETE", "/api/boards/{board_id}", NoneType, {"board_id": board_id})


def board(
    kind: str,
    rows: str = "",
    cell: str = "",
    *,
    columns: str | None = None,
    beside: str | None = None,
    show: str = "newest",
    complete: bool = False,
    status: str | None = None,
    group: str | None = None,
    label: str | None = None,
    hypothesis: str | None = None,
    pod: str | None = None,
    region: str | None = None,
    project: str | None = None,
    q: str | None = None,
) -> Call[Board]:
    """Return a board: `cell`, a number of the summary of runs that succeeded, by one field and by another.

    Several numbers, with commas between them, are a column each; `beside` are more of each cell's run.
    Without `rows` and `cell` it is the board that the kind proposes.

    A field is `spec.PATH` or `label.NAME`; `show` is newest, best or mean. `status` is COMPLETED or
    HUMAN_VALIDATED; without it runs of both are on it.
    """
    query = {
        "kind": kind, "rows": rows or None, "cell": cell or None, "columns": columns, "beside": beside,
        "show": show,
        "complete": "true" if complete else None, "status": status, "group": group, "label": label,
        "hypothesis": hypothesis, "pod": pod, "region": region, "project": project, "q": q,
    }  # fmt: skip
    return Call("GET", "/api/boards/view", Board, query=query)


def compare(run_ids: Sequence[str]) -> Call[Comparison]:
    """Return side by side in what runs differ and agree."""
    return Call("GET", "/api/runs/compare", Comparison, query={"run": list(run_ids)})


def explain(run_id: str) -> Call[Explanation]:
    """Return why a run stands where it stands."""
    return Call("GET", "/api/runs/{run_id}/explain", Explanation, {"run_id": run_id})


def events(
    run_id: str,
    *,
    type: str | None = None,
    level: str | None = None,
    text: str | None = None,
    order: str = "newest",
    limit: int = PAGE,
    after: str | None = None,
) -> Call[LogPage]:
    """Return a page of a run's log, the `newest` or the `oldest` first."""
    query = {"type": type, "level": level, "text": text, "order": order, "limit": limit, "after": after}
    return Call("GET", "/api/runs/{run_id}/events", LogPage, {"run_id": run_id}, query)


def nodes(run_id: str, *, after: str | None = None) -> Call[Nodes]:
    """Return a page of the nodes of a run's search tree, whole."""
    return Call("GET", "/api/runs/{run_id}/nodes", Nodes, {"run_id": run_id}, {"after": after})


def cancel(run_id: str) -> Call[Run]:
    """Cancel a run: at once where it waits, else as soon as its pod has heard of it."""
    return Call("POST", "/api/runs/{run_id}/cancel", Run, {"run_id": run_id})


def rescue(run_id: str) -> Call[Run]:
    """Take a run from its pod, which is gone, at once: another pod continues it."""
    return Call("POST", "/api/runs/{run_id}/rescue", Run, {"run_id": run_id})


def pause(run_id: str) -> Call[Run]:
    """Let a run stand still."""
    return Call("POST", "/api/runs/{run_id}/pause", Run, {"run_id": run_id})


def resume(run_id: str) -> Call[Run]:
    """Let a paused run go on."""
    return Call("POST", "/api/runs/{run_id}/resume", Run, {"run_id": run_id})


def note(run_id: str, text: str) -> Call[Run]:
    """Tell a run's pipeline something."""
    return Call("POST", "/api/runs/{run_id}/notes", Run, {"run_id": run_id}, body={"text": text})


def change(run_id: str, *, revision: int | None = None, **changes: Unpack[OptionChanges]) -> Call[Run]:
    """Give a waiting run other options; with `revision` only if the run is that of this revision."""
    headers = _if_match(revision)
    place = {"run_id": run_id}
    return Call("PATCH", "/api/runs/{run_id}", Run, place, body=in_json(changes), headers=headers)


def retry(
    run_id: str,
    *,
    from_stage: str | None = None,
    spec: Json | None = None,
    **changes: Unpack[OptionChanges],
) -> Call[Run]:
    """Queue a run again, as a new one; its options are those of the run, but for the `changes`.

    `spec` is a merge patch of its specification: what it names differs, None leaves a field out.
    """
    body = {**_given(from_stage=from_stage, spec=spec or None), **in_json(changes)} or None
    return Call("POST", "/api/runs/{run_id}/retry", Run, {"run_id": run_id}, body=body)


def review(
    run_id: str, verdict: str, *, notes: str = "", incomplete: bool = False, revise: bool = False
) -> Call[Run]:
    """Give a person's verdict on a run."""
    body = {"verdict": verdict, "notes": notes, "incomplete": incomplete, "revise": revise}
    return Call("POST", "/api/runs/{run_id}/review", Run, {"run_id": run_id}, body=body)


def artifacts(run_id: str, *, limit: int = PAGE, after: str | None = None) -> Call[Listing[Artifact]]:
    """Return a page of the files that a run keeps, the latest attempt's first."""
    query = {"limit": limit, "after": after}
    return Call("GET", "/api/runs/{run_id}/artifacts", Listing[Artifact], {"run_id": run_id}, query)


def history(
    kind: str, cell: str = "", *, rows: str | None = None, label: str | None = None, group: str | None = None
) -> Call[History]:
    """Return a headline number of runs over time; a line for each value of the field `rows`."""
    query = {"kind": kind, "cell": cell or None, "rows": rows, "label": label, "group": group}
    return Call("GET", "/api/board-history", History, query=query)


def results(
    run_id: str,
    *,
    set: str | None = None,
    sort: str | None = None,
    filters: Sequence[str] = (),
    q: str | None = None,
    limit: int = PAGE,
    after: str | None = None,
) -> Call[ResultPage]:
    """Return a page of a result set; `filters` are such as `score>=0.5`, `sort` is such as `-score`."""
    query = {"set": set, "sort": sort, "filter": list(filters), "q": q, "limit": limit, "after": after}
    return Call("GET", "/api/runs/{run_id}/results", ResultPage, {"run_id": run_id}, query)


def export_results(
    run_id: str,
    *,
    set: str | None = None,
    sort: str | None = None,
    filters: Sequence[str] = (),
    q: str | None = None,
    format: str = "ndjson",
) -> Call[ResultRow]:
    """Return all rows of a result set: one JSON object a line, or a file of `format`."""
    query = {"set": set, "sort": sort, "filter": list(filters), "q": q, "format": format}
    return Call("GET", "/api/runs/{run_id}/results/export", ResultRow, {"run_id": run_id}, query)


def import_archive() -> Call[ArchivedRun]:
    """Import the archive of a run that another fleet ran; its content is the body."""
    return Call("POST", "/api/archives", ArchivedRun)


def archive_run(run_id: str, *, artifacts: bool = True) -> Call[None]:
    """Return a run that has ended as one file, with its log and, unless they are left out, its artifacts."""
    query = {"artifacts": None if artifacts else "false"}
    return Call("GET", "/api/runs/{run_id}/archive", NoneType, {"run_id": run_id}, query)


def export_keys() -> Call[SigningKeys]:
    """Return the public keys by which signed exports can be verified; the first is the one that signs."""
    return Call("GET", "/api/results/keys", SigningKeys)


def compare_results(
    run_ids: Sequence[str], *, set: str | None = None, limit: int = PAGE, after: str | None = None
) -> Call[ComparedRows]:
    """Return a page of the rows of runs beside each other, by key."""
    query = {"run": list(run_ids), "set": set, "limit": limit, "after": after}
    return Call("GET", "/api/results/compare", ComparedRows, query=query)


def compare_items(
    run_ids: Sequence[str], *, set: str | None = None, limit: int = PAGE, after: str | None = None
) -> Call[ItemPairs]:
    """Return two runs item by item: McNemar's exact test, and a page of the items that changed."""
    query = {"run": list(run_ids), "set": set, "limit": limit, "after": after}
    return Call("GET", "/api/results/pairs", ItemPairs, query=query)


def artifact_address(artifact_id: str) -> Call[Redirect]:
    """Return the signed address of a file's content."""
    return Call("GET", "/api/artifacts/{artifact_id}", Redirect, {"artifact_id": artifact_id})


def propose(
    title: str,
    idea: str | Json,
    *,
    search_ideas: bool = False,
    reflections: int | None = None,
    max_num_generations: int | None = None,
    additional_context: str | None = None,
    max_cost_usd: float | None = None,
    max_tokens: int | None = None,
    spec: Json | None = None,
    **options: Unpack[StartOptions],
) -> Call[ProposedHypothesis]:
    """Propose a hypothesis: queue its run, or with `search_ideas` a search for ideas first.

    The options are those of what it queues.
    """
    body = {
        "title": title,
        "idea": idea,
        "enable_ideation": search_ideas,
        **_given(
            reflections=reflections,
            max_num_generations=max_num_generations,
            additional_context=additional_context,
            max_cost_usd=max_cost_usd,
            max_tokens=max_tokens,
            spec=spec,
        ),
        **given(options),
    }
    return Call("POST", "/api/hypotheses", ProposedHypothesis, body=body)


def hypothesis(hypothesis_id: str) -> Call[Hypothesis]:
    """Return a hypothesis with its ideas and newest runs."""
    place = {"hypothesis_id": hypothesis_id}
    return Call("GET", "/api/hypotheses/{hypothesis_id}", Hypothesis, place)


def hypotheses(*, limit: int = PAGE, after: str | None = None) -> Call[Listing[HypothesisRow]]:
    """Return a page of hypotheses, newest first."""
    query = {"limit": limit, "after": after}
    return Call("GET", "/api/hypotheses", Listing[HypothesisRow], query=query)


def launch(
    hypothesis_id: str,
    *,
    spec: Json | None = None,
    idea_index: int | None = None,
    **options: Unpack[StartOptions],
) -> Call[Run]:
    """Queue another run of a hypothesis, of its chosen idea or of that of this number."""
    place = {"hypothesis_id": hypothesis_id}
    body = {"spec": spec or {}, **_given(idea_index=idea_index), **given(options)}
    return Call("POST", "/api/hypotheses/{hypothesis_id}/runs", Run, place, body=body)


def pods(
    *, region: str | None = None, live: bool | None = None, limit: int = PAGE, after: str | None = None
) -> Call[Listing[Pod]]:
    """Return a page of pods, the last started first; with `live` without those that report no more."""
    query = {"region": region, "live": live, "limit": limit, "after": after}
    return Call("GET", "/api/pods", Listing[Pod], query=query)


def pod(pod_id: str) -> Call[Pod]:
    """Return a pod."""
    return Call("GET", "/api/pods/{pod_id}", Pod, {"pod_id": pod_id})


def pod_telemetry(pod_id: str, *, hours: int = 1, live: bool = False) -> Call[Listing[Sample]]:
    """Return what a pod had in use in the last hours, the earliest first."""
    place = {"pod_id": pod_id}
    return Call(
        "GET",
        "/api/pods/{pod_id}/telemetry",
        Listing[Sample],
        place,
        {"hours": hours} | ({"live": True} if live else {}),
    )


def pod_attempts(pod_id: str, *, limit: int = PAGE, after: str | None = None) -> Call[Listing[PodAttempt]]:
    """Return a page of the attempts that a pod made, those of the newest runs first."""
    query = {"limit": limit, "after": after}
    return Call("GET", "/api/pods/{pod_id}/attempts", Listing[PodAttempt], {"pod_id": pod_id}, query)


def drain(pod_id: str) -> Call[Pod]:
    """Cordon a pod, and let its worker finish its run and leave."""
    return Call("POST", "/api/pods/{pod_id}/drain", Pod, {"pod_id": pod_id})


def restart(pod_id: str) -> Call[Pod]:
    """Have a worker leave after its run, with all slots of its start, to be started again."""
    return Call("POST", "/api/pods/{pod_id}/restart", Pod, {"pod_id": pod_id})


def undrain(pod_id: str) -> Call[Pod]:
    """Let a worker that has not left yet stay and claim again."""
    return Call("POST", "/api/pods/{pod_id}/undrain", Pod, {"pod_id": pod_id})


def reset_service(pod_id: str, service: str, *, force: bool = False) -> Call[Pod]:
    """Order a pod to reset a service that its operator allows; `force` also while it has a run."""
    body = {"service": service, "force": force}
    return Call("POST", "/api/pods/{pod_id}/resets", Pod, {"pod_id": pod_id}, body=body)


def cordon(
    pod_id: str, reason: str, *, until: datetime | None = None, for_s: float | None = None
) -> Call[PodStanding]:
    """Keep a pod, by its name, from claiming; what it holds it finishes."""
    body = {"reason": reason, **_given(until=until and until.isoformat(), for_s=for_s)}
    return Call("POST", "/api/pods/{pod_id}/cordon", PodStanding, {"pod_id": pod_id}, body=body)


def uncordon(pod_id: str) -> Call[PodStanding]:
    """Let a cordoned pod claim again."""
    return Call("POST", "/api/pods/{pod_id}/uncordon", PodStanding, {"pod_id": pod_id})


def release(pod_id: str) -> Call[PodStanding]:
    """Let a pod out of quarantine."""
    return Call("POST", "/api/pods/{pod_id}/release", PodStanding, {"pod_id": pod_id})


def kinds() -> Call[Listing[KindAnswer]]:
    """Return every kind of run, and how many pods take its runs now."""
    return Call("GET", "/api/kinds", Listing[KindAnswer])


def kind(name: str) -> Call[KindAnswer]:
    """Return what a kind of run does and takes."""
    return Call("GET", "/api/kinds/{name}", KindAnswer, {"name": name})


def queue(*, project: str | None = None) -> Call[Queue]:
    """Return what waits for a pod or for other runs, and how many runs there are of each status."""
    return Call("GET", "/api/queue", Queue, query={"project": project})


def ledger(
    *,
    by: str = "day",
    since: str | datetime | None = None,
    until: str | datetime | None = None,
    limit: int = PAGE,
) -> Call[Ledger]:
    """Return what pods spent their time on between two moments, by `day`, `pod`, `run` or `project`."""
    return Call("GET", "/api/ledger", Ledger, query=_ledger_query(by, since, until) | {"limit": limit})


def export_ledger(
    *,
    by: str = "day",
    since: str | datetime | None = None,
    until: str | datetime | None = None,
    format: str = "csv",
) -> Call[None]:
    """Return the same as a file: CSV, or a JSON object a line."""
    query = _ledger_query(by, since, until) | {"format": format}
    return Call("GET", "/api/ledger/export", NoneType, query=query)


def _ledger_query(by: str, since: str | datetime | None, until: str | datetime | None) -> dict[str, Any]:
    ends = {"from": since, "to": until}
    return {"by": by} | {name: str(each) if each is not None else None for name, each in ends.items()}


def groups(
    *, project: str | None = None, limit: int = PAGE, after: str | None = None
) -> Call[Listing[GroupRow]]:
    """Return a page of groups, newest first."""
    query = {"project": project, "limit": limit, "after": after}
    return Call("GET", "/api/groups", Listing[GroupRow], query=query)


def group(group_id: str) -> Call[Group]:
    """Return a group."""
    return Call("GET", "/api/groups/{group_id}", Group, {"group_id": group_id})


def group_members(
    group_id: str, *, limit: int = PAGE, after: str | None = None
) -> Call[Listing[GroupMember]]:
    """Return a page of the members of a group, in the order of their slots."""
    query = {"limit": limit, "after": after}
    path = {"group_id": group_id}
    return Call("GET", "/api/groups/{group_id}/members", Listing[GroupMember], path, query=query)


def group_importance(group_id: str) -> Call[StudyImportance]:
    """Return how much each parameter of a study decides."""
    return Call("GET", "/api/groups/{group_id}/importance", StudyImportance, {"group_id": group_id})


def add_group(
    group_id: str,
    kind: str,
    spec: Json | None = None,
    *,
    plan: Plan,
    paused: bool = False,
    after: Sequence[str] | None = None,
    idempotency_key: str | None = None,
    **options: Unpack[Options],
) -> Call[Group]:
    """Make a group: runs of `kind` that vary parameters by a plan.

    They wait until the runs in `after`, and the groups (`group:NAME`), have completed.
    """
    run = {**_run_body(kind, spec, options), **_given(after=[*after] if after else None)}
    body = {"id": group_id, "run": run, "plan": plan, "paused": paused}
    headers = _given(**{"Idempotency-Key": idempotency_key})
    return Call("POST", "/api/groups", Group, body=body, headers=headers)


def edit_group(
    group_id: str, *, revision: int, plan: Plan | None = None, run: Json | None = None
) -> Call[Group]:
    """Change the plan or the run of a group that is not running, if it is still at `revision`."""
    headers = _if_match(revision)
    body = _given(plan=plan, run=run)
    return Call("PATCH", "/api/groups/{group_id}", Group, {"group_id": group_id}, body=body, headers=headers)


def pause_group(group_id: str, *, note: str = "") -> Call[Group]:
    """Submit no further slot of a group until it is resumed."""
    return Call("POST", "/api/groups/{group_id}/pause", Group, {"group_id": group_id}, body={"note": note})


def resume_group(group_id: str) -> Call[Group]:
    """Go on with a paused group."""
    return Call("POST", "/api/groups/{group_id}/resume", Group, {"group_id": group_id})


def cancel_group(group_id: str) -> Call[Group]:
    """Submit nothing more of a group, and cancel its members that have not ended."""
    return Call("POST", "/api/groups/{group_id}/cancel", Group, {"group_id": group_id})


def group_again(group_id: str, *, revision: int | None = None) -> Call[Group]:
    """Begin a new round of a closed group, if it is still at `revision` where one is given."""
    headers = _if_match(revision)
    return Call("POST", "/api/groups/{group_id}/again", Group, {"group_id": group_id}, headers=headers)


def schedules(*, limit: int = PAGE, after: str | None = None) -> Call[Listing[Schedule]]:
    """Return a page of schedules, newest first."""
    return Call("GET", "/api/schedules", Listing[Schedule], query={"limit": limit, "after": after})


def schedule(schedule_id: str) -> Call[Schedule]:
    """Return a schedule."""
    return Call("GET", "/api/schedules/{schedule_id}", Schedule, {"schedule_id": schedule_id})


def add_schedule(
    schedule_id: str | None,
    cron: str,
    kind: str | None = None,
    spec: Json | None = None,
    *,
    group: str | None = None,
    time_zone: str = "UTC",
    missed: str = "one",
    overlap: str = "allow",
    paused: bool = False,
    **options: Unpack[Options],
) -> Call[Schedule]:
    """Make a schedule: at each slot of a cron text a run of `kind`, or another round of `group`.

    Without an id it is the one of what its run is about, and takes the place of the one that there is.
    """
    what = {"group": group} if kind is None else {"run": _run_body(kind, spec, options)}
    body = {
        **_given(id=schedule_id),
        "cron": cron,
        "time_zone": time_zone,
        "missed": missed,
        "overlap": overlap,
        "paused": paused,
        **what,
    }
    return Call("POST", "/api/schedules", Schedule, body=body)


def pause_schedule(schedule_id: str, *, paused: bool = True, note: str = "") -> Call[Schedule]:
    """Let a schedule rest, or go on."""
    body = {"paused": paused, **_given(note=note or None)}
    return Call("PATCH", "/api/schedules/{schedule_id}", Schedule, {"schedule_id": schedule_id}, body=body)


def remove_schedule(schedule_id: str) -> Call[None]:
    """Remove a schedule."""
    return Call("DELETE", "/api/schedules/{schedule_id}", NoneType, {"schedule_id": schedule_id})


def run_schedule(schedule_id: str) -> Call[Run]:
    """Submit the run of a schedule now."""
    return Call("POST", "/api/schedules/{schedule_id}/run", Run, {"schedule_id": schedule_id})


def upcoming(schedule_id: str, *, n: int = 5) -> Call[Slots]:
    """Return the next slots of a schedule, as if it were not paused."""
    place = {"schedule_id": schedule_id}
    return Call("GET", "/api/schedules/{schedule_id}/next", Slots, place, {"n": n})


def preview_cron(cron: str, *, time_zone: str = "UTC", n: int = 5) -> Call[CronPreview]:
    """Return what a cron text means, and when it fires next."""
    query = {"cron": cron, "time_zone": time_zone, "n": n}
    return Call("GET", "/api/schedules/preview", CronPreview, query=query)


def keys(*, limit: int = PAGE, after: str | None = None) -> Call[Listing[Key]]:
    """Return a page of keys, the newest first."""
    return Call("GET", "/api/keys", Listing[Key], query={"limit": limit, "after": after})


def make_key(
    kind: str,
    name: str,
    *,
    scopes: Sequence[str] | None = None,
    pod: str | None = None,
    life_s: int | None = None,
    projects: Sequence[str] | None = None,
) -> Call[MadeKey]:
    """Make a key; its text is in the answer, and nowhere else."""
    body = {"kind": kind, "name": name, **_given(scopes=scopes and list(scopes), pod=pod, life_s=life_s)}
    body |= {"projects": list(projects)} if projects else {}
    return Call("POST", "/api/keys", MadeKey, body=body)


def rotate_key(key_id: str, *, overlap_s: int) -> Call[MadeKey]:
    """Make a key like this one, which ends after `overlap_s` seconds."""
    body = {"overlap_s": overlap_s}
    return Call("POST", "/api/keys/{key_id}/rotate", MadeKey, {"key_id": key_id}, body=body)


def revoke_key(key_id: str) -> Call[Key]:
    """Let a key open nothing any more."""
    return Call("POST", "/api/keys/{key_id}/revoke", Key, {"key_id": key_id})


def models(*, limit: int = PAGE, after: str | None = None) -> Call[Listing[CatalogueModel]]:
    """Return a page of the catalogue of models, by name."""
    return Call("GET", "/api/models", Listing[CatalogueModel], query={"limit": limit, "after": after})


def model(name: str) -> Call[CatalogueModel]:
    """Return a model of the catalogue."""
    return Call("GET", "/api/models/{model_id}", CatalogueModel, {"model_id": name})


def set_model(
    name: str, *, endpoint: Json | None = None, served: Json | None = None, **fields: Any
) -> Call[CatalogueModel]:
    """Set a model, in the place of what has its name: its `endpoint`, or how it is `served`."""
    body = _given(endpoint=endpoint, served=served, **fields)
    return Call("PUT", "/api/models/{model_id}", CatalogueModel, {"model_id": name}, body=body)


def remove_model(name: str) -> Call[None]:
    """Remove a model; a run that names it fails at its next attempt."""
    return Call("DELETE", "/api/models/{model_id}", NoneType, {"model_id": name})


def sync_models(url: str) -> Call[SyncedModels]:
    """Add and update the models that the listing of an API names, which needs no key."""
    return Call("POST", "/api/model-syncs", SyncedModels, body={"url": url})


def missing_of_trees(
    chunks: Sequence[tuple[str, int]], manifest: tuple[str, int] | None = None
) -> Call[MissingObjects]:
    """Return where to put what of these the storage lacks; each is a SHA-256 and a size in bytes."""
    body = {"chunks": [{"sha256": sha256, "size": size} for sha256, size in chunks]}
    if manifest is not None:
        body["manifest"] = {"sha256": manifest[0], "size": manifest[1]}  # type: ignore[assignment] # of JSON
    return Call("POST", "/api/tree-uploads", MissingObjects, body=body)


def add_tree(tree_id: str) -> Call[FileTree]:
    """Add the file tree whose manifest and chunks are all in the storage."""
    return Call("POST", "/api/trees", FileTree, body={"id": tree_id})


def tree(tree_id: str) -> Call[FileTree]:
    """Return a file tree."""
    return Call("GET", "/api/trees/{tree_id}", FileTree, {"tree_id": tree_id})


def tree_chunks(tree_id: str, *, first: int = 0, limit: int | None = None) -> Call[TreeChunks]:
    """Return where to read chunks of a file tree, from the number `first` on."""
    query = {"first": first, "limit": limit}
    return Call("GET", "/api/trees/{tree_id}/chunks", TreeChunks, {"tree_id": tree_id}, query=query)


def data_sets(
    *, name: str | None = None, limit: int = PAGE, after: str | None = None
) -> Call[Listing[DataSet]]:
    """Return a page of versions of data sets, by name, the newest of each first."""
    query = {"name": name, "limit": limit, "after": after}
    return Call("GET", "/api/data-sets", Listing[DataSet], query=query)


def data_set(name: str) -> Call[DataSet]:
    """Return the latest version of a data set."""
    return Call("GET", "/api/data-sets/{data_set_id}", DataSet, {"data_set_id": name})


def data_set_version(name: str, version: int) -> Call[DataSet]:
    """Return a version of a data set."""
    place = {"data_set_id": name, "version": str(version)}
    return Call("GET", "/api/data-sets/{data_set_id}/{version}", DataSet, place)


def remove_data_set_version(name: str, version: int) -> Call[None]:
    """Remove a version of a data set, which nothing that has not ended may read."""
    place = {"data_set_id": name, "version": str(version)}
    return Call("DELETE", "/api/data-sets/{data_set_id}/{version}", NoneType, place)


def add_data_set(name: str, tree: str) -> Call[DataSet]:
    """Make a tree the next version of a data set, unless it is the latest."""
    place = {"data_set_id": name}
    return Call("POST", "/api/data-sets/{data_set_id}", DataSet, place, body={"tree": tree})


def tasks(*, limit: int = PAGE, after: str | None = None) -> Call[Listing[TaskRow]]:
    """Return a page of tasks, newest first."""
    return Call("GET", "/api/tasks", Listing[TaskRow], query={"limit": limit, "after": after})


def task(task_id: str) -> Call[Task]:
    """Return a task with its best experiment and its earlier rounds."""
    return Call("GET", "/api/tasks/{task_id}", Task, {"task_id": task_id})


def create_task(task: Json) -> Call[Task]:
    """Create a task of these fields."""
    return Call("POST", "/api/tasks", Task, body=task)


def estimate_task(task: Json) -> Call[TaskEstimate]:
    """Return what a task of these fields would take; nothing is stored."""
    return Call("POST", "/api/task-estimates", TaskEstimate, body=task)


def update_task(task_id: str, task: Json, *, revision: int | None = None) -> Call[Task]:
    """Replace the fields of a task that is not running, if it is still at `revision`."""
    place = {"task_id": task_id}
    return Call("PUT", "/api/tasks/{task_id}", Task, place, body=task, headers=_if_match(revision))


def patch_task(
    task_id: str, *, description: str | None = None, status: str | None = None, revision: int | None = None
) -> Call[Task]:
    """Change the description of a task, or cancel it by the status CANCELLED."""
    body, headers = _given(description=description, status=status), _if_match(revision)
    return Call("PATCH", "/api/tasks/{task_id}", Task, {"task_id": task_id}, body=body, headers=headers)


def delete_task(task_id: str, *, revision: int | None = None) -> Call[None]:
    """Remove a task that is not running; its runs stay."""
    headers = _if_match(revision)
    return Call("DELETE", "/api/tasks/{task_id}", NoneType, {"task_id": task_id}, headers=headers)


def start_task(task_id: str, *, revision: int | None = None) -> Call[Task]:
    """Begin the first round of a task."""
    headers = _if_match(revision)
    return Call("POST", "/api/tasks/{task_id}/start", Task, {"task_id": task_id}, headers=headers)


def restart_task(task_id: str, *, revision: int | None = None) -> Call[Task]:
    """Begin a new round of a task whose last one is over."""
    headers = _if_match(revision)
    return Call("POST", "/api/tasks/{task_id}/restart", Task, {"task_id": task_id}, headers=headers)


def clone_task(task_id: str, *, name: str | None = None) -> Call[Task]:
    """Create a task with the same fields under another name."""
    place = {"task_id": task_id}
    return Call("POST", "/api/tasks/{task_id}/clone", Task, place, body=_given(name=name))


def import_task(text: str, *, name: str | None = None) -> Call[Task]:
    """Create a task from exported text, JSON or YAML."""
    return Call("POST", "/api/task-imports", Task, body=_given(text=text, name=name))


def export_task(task_id: str, *, format: str = "json") -> Call[TaskExport]:
    """Return a task as text, `json` or `yaml`, that can be imported."""
    place, query = {"task_id": task_id}, {"format": format}
    return Call("GET", "/api/tasks/{task_id}/export", TaskExport, place, query=query)


def task_experiments(
    task_id: str, *, limit: int = PAGE, after: str | None = None
) -> Call[Listing[TriedConfiguration]]:
    """Return a page of the experiments of a task's last round, in their order."""
    place, query = {"task_id": task_id}, {"limit": limit, "after": after}
    return Call("GET", "/api/tasks/{task_id}/experiments", Listing[TriedConfiguration], place, query=query)


def secrets(*, limit: int = PAGE, after: str | None = None) -> Call[Listing[Secret]]:
    """Return a page of secrets by name, without their values."""
    return Call("GET", "/api/secrets", Listing[Secret], query={"limit": limit, "after": after})


def set_secret(
    name: str, value: str, *, kinds: Sequence[str] | None = None, keys: Sequence[str] | None = None
) -> Call[Secret]:
    """Set a secret; without `kinds` or `keys` it keeps the list that it has, and an empty one allows all."""
    lists = _given(kinds=None if kinds is None else list(kinds), keys=None if keys is None else list(keys))
    body = {"value": value, **lists}
    return Call("PUT", "/api/secrets/{secret_id}", Secret, {"secret_id": name}, body=body)


def projects() -> Call[Listing[Project]]:
    """Return the projects, with what each has used."""
    return Call("GET", "/api/projects", Listing[Project])


def project(name: str) -> Call[Project]:
    """Return a project, with what it has used."""
    return Call("GET", "/api/projects/{project_id}", Project, {"project_id": name})


def set_project(
    name: str,
    *,
    weight: float = 1.0,
    gpus: int | None = None,
    gpu_hours: float | None = None,
    usd: float | None = None,
) -> Call[Project]:
    """Set a project: its weight, and its quotas of GPUs at once and of GPU hours and dollars a month."""
    body = {"weight": weight, "quotas": {"gpus": gpus, "gpu_hours": gpu_hours, "usd": usd}}
    return Call("PUT", "/api/projects/{project_id}", Project, {"project_id": name}, body=body)


def remove_secret(name: str) -> Call[None]:
    """Remove a secret; a run that names it fails at its next attempt."""
    return Call("DELETE", "/api/secrets/{secret_id}", NoneType, {"secret_id": name})


def rotate_secrets() -> Call[RotatedSecrets]:
    """Encrypt with the control plane's first key what has another one."""
    return Call("POST", "/api/secret-rotations", RotatedSecrets)


def webhooks(*, limit: int = PAGE, after: str | None = None) -> Call[Listing[Webhook]]:
    """Return a page of webhooks, newest first, without URLs and secrets."""
    return Call("GET", "/api/webhooks", Listing[Webhook], query={"limit": limit, "after": after})


def webhook(webhook_id: str) -> Call[Webhook]:
    """Return a webhook, without its URL and secret."""
    return Call("GET", "/api/webhooks/{webhook_id}", Webhook, {"webhook_id": webhook_id})


def add_webhook(
    url: str,
    *,
    format: str = "standard",
    types: Sequence[str] = (),
    projects: Sequence[str] = (),
    kinds: Sequence[str] = (),
    labels: Sequence[str] = (),
    owners: Sequence[str] = (),
) -> Call[MadeWebhook]:
    """Make a webhook, and return it with its secret, which is shown only once; an empty list takes all."""
    lists = {"types": types, "projects": projects, "kinds": kinds, "labels": labels, "owners": owners}
    body = {"url": url, "format": format, **{name: list(each) for name, each in lists.items()}}
    return Call("POST", "/api/webhooks", MadeWebhook, body=body)


def change_webhook(webhook_id: str, *, url: str | None = None, enabled: bool | None = None) -> Call[Webhook]:
    """Give a webhook another URL, disable it, or enable it again."""
    place = {"webhook_id": webhook_id}
    return Call("PATCH", "/api/webhooks/{webhook_id}", Webhook, place, body=_given(url=url, enabled=enabled))


def remove_webhook(webhook_id: str) -> Call[None]:
    """Remove a webhook, and everything that was to be sent to it."""
    return Call("DELETE", "/api/webhooks/{webhook_id}", NoneType, {"webhook_id": webhook_id})


def rotate_webhook(webhook_id: str) -> Call[MadeWebhook]:
    """Have a webhook sign with a new secret, and for a day with the former one, too."""
    return Call("POST", "/api/webhooks/{webhook_id}/rotate", MadeWebhook, {"webhook_id": webhook_id})


def test_webhook(webhook_id: str) -> Call[WebhookDelivery]:
    """Have a test delivered to a webhook."""
    return Call("POST", "/api/webhooks/{webhook_id}/test", WebhookDelivery, {"webhook_id": webhook_id})


def deliveries(
    webhook_id: str, *, state: str | None = None, limit: int = PAGE, after: str | None = None
) -> Call[Listing[WebhookDelivery]]:
    """Return a page of what was sent to a webhook, and will be, newest first."""
    place, query = {"webhook_id": webhook_id}, {"state": state, "limit": limit, "after": after}
    return Call("GET", "/api/webhooks/{webhook_id}/deliveries", Listing[WebhookDelivery], place, query=query)


def replay_webhook(webhook_id: str, *, delivery: str | None = None) -> Call[Replayed]:
    """Have a delivery sent again that has ended, or all dead letters of a webhook."""
    place, body = {"webhook_id": webhook_id}, _given(delivery=delivery)
    return Call("POST", "/api/webhooks/{webhook_id}/replay", Replayed, place, body=body)


def audit_log(
    *,
    by: str | None = None,
    key: str | None = None,
    object: str | None = None,
    limit: int = PAGE,
    after: str | None = None,
) -> Call[Listing[AuditEntry]]:
    """Return a page of the audit log, the newest first; `object` is such as `run/ID`."""
    query = {"by": by, "key": key, "object": object, "limit": limit, "after": after}
    return Call("GET", "/api/audit", Listing[AuditEntry], query=query)


def export_audit_log(
    *, by: str | None = None, key: str | None = None, object: str | None = None
) -> Call[AuditEntry]:
    """Return the whole audit log, the oldest first, an entry a line."""
    return Call("GET", "/api/audit/export", AuditEntry, query={"by": by, "key": key, "object": object})


def stream(run_id: str) -> Call[None]:
    """Follow a run: server-sent events of what changes in it."""
    return Call("GET", "/api/stream", NoneType, query={"run": run_id})


def installation() -> Call[Installation]:
    """Return what a machine installs of this control plane to become a pod."""
    return Call("GET", "/api/install", Installation)


def sign_in_link() -> Call[SignInLink]:
    """Make a link that signs one browser in."""
    return Call("POST", "/api/signin-links", SignInLink)


def races(
    *,
    pods: Sequence[str] = (),
    kind: str | None = None,
    status: str | None = None,
    limit: int = PAGE,
    after: str | None = None,
) -> Call[Listing[RaceRow]]:
    """Return a page of races, newest first; of those on any of the `pods` where some are given."""
    query = {"pods": ",".join(pods) or None, "kind": kind, "status": status, "limit": limit, "after": after}
    return Call("GET", "/api/races", Listing[RaceRow], query=query)


def race(race_id: str, *, round: int | None = None) -> Call[Race]:
    """Return a round of a race, by default its present one."""
    return Call("GET", "/api/races/{race_id}", Race, {"race_id": race_id}, query={"round": round})


def add_race(
    kind: str,
    spec: Json | None = None,
    *,
    lanes: Sequence[Json],
    name: str | None = None,
    ready_s: float | None = None,
    limit_s: float | None = None,
    measure: str | None = None,
    idempotency_key: str | None = None,
    **options: Unpack[Options],
) -> Call[Race]:
    """Start a race: a run of `kind` in each of the `lanes`, as the API takes these."""
    headers = _given(**{"Idempotency-Key": idempotency_key})
    of_race = _given(name=name, ready_s=ready_s, limit_s=limit_s, measure=measure)
    body = {**_run_body(kind, spec, options), "lanes": list(lanes), **of_race}
    return Call("POST", "/api/races", Race, body=body, headers=headers)


def check_race(
    kind: str,
    spec: Json | None = None,
    *,
    lanes: Sequence[Json],
    ready_s: float | None = None,
    limit_s: float | None = None,
    measure: str | None = None,
    **options: Unpack[Options],
) -> Call[RaceChecks]:
    """Return which pods would race, and whether each can take its lane; nothing is stored."""
    of_race = _given(ready_s=ready_s, limit_s=limit_s, measure=measure)
    body = {**_run_body(kind, spec, options), "lanes": list(lanes), **of_race}
    return Call("POST", "/api/race-checks", RaceChecks, body=body)


def race_samples(race_id: str) -> Call[RaceSamples]:
    """Return what the machines of a race had in use lately."""
    return Call("GET", "/api/races/{race_id}/samples", RaceSamples, {"race_id": race_id})


def race_again(race_id: str, *, revision: int | None = None) -> Call[Race]:
    """Begin a new round of a race that has ended, if it is still at `revision` where one is given."""
    headers = _if_match(revision)
    return Call("POST", "/api/races/{race_id}/again", Race, {"race_id": race_id}, headers=headers)


def cancel_race(race_id: str) -> Call[Race]:
    """Cancel the lanes of a race that have not ended."""
    return Call("POST", "/api/races/{race_id}/cancel", Race, {"race_id": race_id})


def export_race(race_id: str, *, format: str = "zip", round: int | None = None) -> Call[None]:
    """Return a race as a file: a signed ZIP, or its laps as CSV."""
    query = {"format": format, "round": round}
    return Call("GET", "/api/races/{race_id}/export", NoneType, {"race_id": race_id}, query=query)
