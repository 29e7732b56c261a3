"""`podfleet pods`: lists the pods of the fleet, and says which of them may claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Annotated, Final

import typer

from events.answers.pods import Cordon, Cuda, Gpu, Pod, PodCheck, PodModel, PodStanding, Quarantine, Reset
from events.text.worker_id import place_of
from podfleet.client.synchronous import Client
from podfleet.commands.access.join import join
from podfleet.commands.pods.roll import roll
from podfleet.connection import EXIT_FAILED, client, fail
from podfleet.nouns import noun
from podfleet.output import AsJson, Column, IdsOnly, ago, field, print_fields, print_items, print_json, say
from podfleet.parameters import seconds_of

app = noun("pods")
app.command()(join)
app.command()(roll)

NO_ORDERS: Final = "–"
SHOWN_MAX: Final = 1_000
RESETS_SHOWN: Final = 5
KNOWN_MAX: Final = 20  # how many names a message lists
MIB_PER_GIB: Final = 1024
ENDED: Final = frozenset({"stopped", "gone"})

PodName = Annotated[
    str, typer.Argument(metavar="POD", help="Id or unique id prefix of a worker, or name of a pod.")
]


Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of a pod.")]


class Unknown(Exception):
    """No worker, or more than one, is meant by a name."""


def meant(pods: Sequence[Pod], name: str) -> list[Pod]:
    """Return the workers that `name` means: a full id, a pod with all its live workers, a unique prefix.

    A pod whose workers have all ended means none of them. Raises `Unknown`.
    """
    exact = [pod for pod in pods if pod.id == name]
    if exact:
        return exact
    of_pod = [pod for pod in pods if pod.pod == name]
    if of_pod:
        return [pod for pod in of_pod if pod.state not in ENDED]
    matching = [pod for pod in pods if pod.id.startswith(name)]
    # Each start of a worker is another boot of its pod, so the ended ones only matter alone.
    live = [pod for pod in matching if pod.state not in ENDED] or matching
    if len(live) == 1:
        return live
    if live:
        raise Unknown(f"{name!r} means {len(live)} workers: {_names(live)}")
    known = [pod for pod in pods if pod.state not in ENDED]
    raise Unknown(f"there is no pod {name!r}; live workers: {_names(known) or 'none'}")


def ordered(pod: Pod) -> str:
    """Return in a few words what is ordered of a worker."""
    orders = pod.orders
    words = (
        ("drains", orders.drain),
        ("restarts", orders.restart),
        ("cordoned", orders.cordon is not None),
        ("quarantine", orders.quarantine is not None),
    )
    return ", ".join(word for word, holds in words if holds) or NO_ORDERS


COLUMNS: Final = (
    Column("WORKER", field("id"), is_whole=True),
    Column("STATE", field("state"), is_whole=True),
    Column("CLAIMS", lambda pod: _claims(pod), is_whole=True),
    Column("MODE", field("mode"), is_whole=True, is_spare=True),
    Column("RUN", field("run_id"), is_whole=True, is_id=True),
    Column("DEVICE", field("capabilities", "device")),
    Column("REGION", field("region"), is_spare=True),
    Column("VERSION", field("version"), is_spare=True),
    Column("LABELS", lambda pod: _labels(pod), is_spare=True),
    Column("REPORTED", field("reported_at"), ago, is_whole=True),
    Column("ORDERS", ordered, is_whole=True, is_spare=True),
)


def folded(pods: Sequence[Pod]) -> list[Pod]:
    """Return the live workers, then of each pod and slot without one the newest of those that have ended.

    `pods` are in the order of their starts, the last first.
    """
    live = [pod for pod in pods if pod.state not in ENDED]
    named = {place_of(pod.id) for pod in live}
    newest: dict[tuple[str, ...], Pod] = {}
    for pod in pods:
        if place_of(pod.id) not in named:
            newest.setdefault(place_of(pod.id), pod)
    return [*live, *newest.values()]


@app.command("list")
def list_pods(
    everything: Annotated[
        bool, typer.Option("--all", help="Every start of a worker, the last started first.")
    ] = False,
    ids_only: IdsOnly = False,
    as_json: AsJson = False,
) -> None:
    """List the live workers, then the last one of each pod that has none, with the number of its starts."""
    control_plane = client()
    found = list(islice(control_plane.pods(), SHOWN_MAX))
    if everything:
        pods = found
    else:  # however many others were started after them
        live = list(islice(control_plane.pods(live=True), SHOWN_MAX))
        known = {pod.id for pod in live}
        found = [*live, *(pod for pod in found if pod.id not in known)]
        pods = folded(found)
    starts = Counter(place_of(pod.id) for pod in found)
    count = Column("STARTS", lambda pod: starts[place_of(pod.id)], is_spare=True)
    print_items(
        pods,
        (*COLUMNS, *(() if everything else (count,))),
        as_json=as_json,
        ids_only=ids_only,
        none="no workers: `podfleet up` starts one",
    )


@app.command()
def show(pod: PodName, as_json: AsJson = False) -> None:
    """Show the abilities, current run and state of a worker."""
    from events.formatting import percent

    found = _chosen(client(), pod)
    if as_json:
        print_json(found)
        return
    for each in found:
        telemetry, has = each.telemetry, each.capabilities
        print_fields(
            [
                ("id", each.id),
                ("state", each.state + _sent_off(each)),
                ("claims", _claims(each)),
                ("cordoned", _cordoned(each.orders.cordon)),
                ("in quarantine", _quarantined(each.orders.quarantine)),
                ("run", each.run_id),
                ("mode", each.mode),
                ("kinds", ", ".join(each.kinds)),
                ("region", each.region),
                ("device", has.device or None),
                ("isolation", has.isolation or None),
                ("pipelines have", has.pipeline_user or None),
                ("cpus", f"{has.cpus} × {has.cpu}" if has.cpu else str(has.cpus)),
                ("memory", f"{(has.memory_mib or 0) / MIB_PER_GIB:.1f} GiB"),
                ("gpus", ", ".join(map(_memory, has.gpus)) or None),
                ("driver", has.driver or None),
                ("cuda", _cuda(has.cuda or None)),
                ("disk", _gib(has.disk_mib)),
                ("engines", ", ".join(has.engines or ()) or None),
                ("models", ", ".join(map(_model, has.models or ())) or None),
                ("services", ", ".join(has.services or ()) or None),
                ("labels", _labels(each) or None),
                ("cpu in use", percent(field("cpu_util")(telemetry))),
                ("gpu in use", percent(field("gpu_util")(telemetry))),
                ("gpu faults", ", ".join(telemetry.gpu_faults or ()) or None),
                ("others on its gpus", ", ".join(telemetry.gpu_foreign or ()) or None),
                *((f"reset of {one.service}", _reset(one)) for one in each.resets[:RESETS_SHOWN]),
                *((f"check {check.name}", _found(check)) for check in each.checks),
                ("clock", _clock(each)),
                ("version", each.version),
                ("started", each.started_at),
                ("reported", each.reported_at),
            ]
        )


@app.command()
def drain(
    pod: PodName,
    as_json: AsJson = False,
) -> None:
    """Drain a worker, with all slots of its pod: the pod is cordoned; they finish their runs, and exit."""
    control_plane = client()
    chosen = _chosen(control_plane, pod)
    drained = [control_plane.drain(each.id) for each in chosen]
    if as_json:
        print_json(drained)
        return
    for each in drained:
        say(f"{each.id}: {_farewell(each)}")
    for name in dict.fromkeys(each.pod for each in drained):
        say(f"{name} stays cordoned; `podfleet pods uncordon {name}` lets it claim again")
    if not drained:
        say(f"{pod}: no live worker, nothing to drain")


@app.command()
def restart(pod: PodName, as_json: AsJson = False) -> None:
    """Restart a worker, with all slots of its pod: they finish their runs, and end with status 0.

    Whatever started the worker starts it again, in the version that it finds there.
    """
    control_plane = client()
    sent = [control_plane.restart(each.id) for each in _chosen(control_plane, pod)]
    if as_json:
        print_json(sent)
        return
    for each in sent:
        say(f"{each.id}: {_farewell(each)}")
    if not sent:
        fail(f"{pod} has no live worker", EXIT_FAILED)


@app.command()
def undrain(pod: PodName, as_json: AsJson = False) -> None:
    """Take a drain or a restart back: a worker that has not left yet stays, and claims again."""
    control_plane = client()
    kept = [control_plane.undrain(each.id) for each in _chosen(control_plane, pod)]
    if as_json:
        print_json(kept)
        return
    for each in kept:
        say(f"{each.id}: stays")
    if not kept:
        say(f"{pod}: no live worker; `podfleet pods uncordon {pod}` lets its next one claim")


@app.command()
def cordon(
    pod: Name,
    reason: Annotated[str, typer.Option("--reason", "-r", help="Why; pages and explanations show it.")],
    for_: Annotated[
        str | None,
        typer.Option("--for", metavar="TIME", help="It ends after this time, such as 90s, 30m or 2h."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Keep a pod from claiming, by its name, over restarts; what it holds it finishes."""
    for_s = None if for_ is None else float(seconds_of(for_, "--for"))
    _tell(client().cordon(pod, reason, for_s=for_s), as_json=as_json)


@app.command()
def uncordon(pod: Name, as_json: AsJson = False) -> None:
    """Let a cordoned pod claim again."""
    _tell(client().uncordon(pod), as_json=as_json)


@app.command()
def release(pod: Name, as_json: AsJson = False) -> None:
    """Let a pod out of quarantine: what it did before speaks against it no more."""
    _tell(client().release(pod), as_json=as_json)


@app.command()
def reset(
    pod: PodName,
    service: Annotated[str, typer.Argument(metavar="SERVICE", help="A service that the pod names.")],
    force: Annotated[bool, typer.Option("--force", help="Also while the pod has a run.")] = False,
    as_json: AsJson = False,
) -> None:
    """Order a worker to reset a service that its operator allows; `pods show` tells the outcome."""
    control_plane = client()
    chosen = _chosen(control_plane, pod)
    asked = [control_plane.reset_service(each.id, service, force=force) for each in chosen]
    if as_json:
        print_json(asked)
        return
    for each in asked:
        say(f"{each.id}: resets {service} within 10 s; `podfleet pods show {each.id}` tells the outcome")
    if not asked:
        fail(f"{pod} has no live worker", EXIT_FAILED)


def _tell(standing: PodStanding, *, as_json: bool) -> None:
    if as_json:
        print_json(standing)
        return
    cordoned, quarantined = _cordoned(standing.cordon), _quarantined(standing.quarantine)
    if cordoned is None and quarantined is None:
        say(f"{standing.pod}: may claim")
    if cordoned is not None:
        say(f"{standing.pod}: cordoned: {cordoned}")
    if quarantined is not None:
        say(f"{standing.pod}: in quarantine: {quarantined}")


def _cordoned(cordon: Cordon | None) -> str | None:
    if cordon is None:
        return None
    return f"{cordon.reason} (by {cordon.by}, {(cordon.until and f'until {cordon.until}') or 'without end'})"


def _quarantined(quarantine: Quarantine | None) -> str | None:
    if quarantine is None:
        return None
    return f"since {quarantine.since}: {quarantine.reason}; tried again at {quarantine.try_at}"


def _chosen(control_plane: Client, name: str) -> list[Pod]:
    try:
        return meant(list(islice(control_plane.pods(), SHOWN_MAX)), name)
    except Unknown as unknown:
        fail(str(unknown), EXIT_FAILED)


def _sent_off(pod: Pod) -> str:
    if pod.orders.drain:
        return " (drains)"
    return " (restarts)" if pod.orders.restart and pod.state not in ENDED else ""


def _farewell(pod: Pod) -> str:
    if pod.state in ENDED:
        return f"is {pod.state}"
    if pod.run_id is not None:
        return f"ends after run {pod.run_id}"
    return "ends as soon as it hears of it"


def _claims(pod: Pod) -> str:
    """Return which kinds orders and its own checks let a worker claim, and else what holds it back."""
    failing = [each for each in pod.checks if not each.ok]
    if pod.state in ENDED:
        return "–"
    if (held := ordered(pod)) != NO_ORDERS:
        return f"nothing ({held})"
    if not failing:
        return "all"
    kept = {kind for each in failing for kind in (pod.kinds if each.kinds is None else each.kinds)}
    left = [kind for kind in pod.kinds if kind not in kept]
    names = f"{', '.join(each.name for each in failing)} fails"
    return f"{', '.join(left)} only ({names})" if left else f"nothing ({names})"


def _reset(reset: Reset) -> str:
    outcome = reset.state if reset.code is None else f"{reset.state} ({reset.code})"
    last = reset.message.splitlines()[-1:]
    return f"{outcome}, by {reset.by} at {reset.at}{': ' if last else ''}{''.join(last)}"


def _found(check: PodCheck) -> str:
    return f"{'ok' if check.ok else 'FAILS'}{': ' if check.message else ''}{check.message}"


def _clock(pod: Pod) -> str | None:
    from events.runtime.measured_clock import THE_STORES, ahead_words

    ahead_s = pod.clock_offset_s
    return ahead_words(ahead_s, THE_STORES) if isinstance(ahead_s, int | float) else None


def _names(pods: Sequence[Pod]) -> str:
    more = f" and {len(pods) - KNOWN_MAX} more" if len(pods) > KNOWN_MAX else ""
    return ", ".join(pod.id for pod in pods[:KNOWN_MAX]) + more


def _labels(pod: Pod) -> str:
    """Return what runs may ask for of a pod."""
    return " ".join(f"{name}={value}" for name, value in sorted(pod.labels.items()))


def _cuda(found: Cuda | None) -> str | None:
    return None if found is None else f"{'works' if found.ok else found.code}: {found.message}"


def _model(found: PodModel) -> str:
    from events.formatting import size

    return found.name if found.bytes is None else f"{found.name} ({size(found.bytes)})"


def _gib(mib: object) -> str | None:
    return f"{mib / MIB_PER_GIB:.1f} GiB" if isinstance(mib, int | float) else None


def _memory(gpu: Gpu) -> str:
    return f"{gpu.name} {(gpu.memory_mib or 0) / MIB_PER_GIB:.0f} GiB"
