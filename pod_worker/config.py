"""The settings of a worker: its environment and its command line, checked together."""

from __future__ import annotations

import os
import re
import shutil
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, get_args
from urllib.parse import urlsplit

from dotenv import dotenv_values

from events.kinds.declaring.queues import DEFAULT_MODE, Mode
from events.models.endpoints import SETTING as ENDPOINTS_SETTING
from events.models.endpoints import read_endpoints
from events.models.engines import BRINGABLE
from events.models.engines import SETTING as ENGINES_SETTING
from events.models.job_containers import CLIENTS
from events.models.job_containers import SETTING as CONTAINERS_SETTING
from events.queue.abilities import ISOLATIONS, JOB_ISOLATIONS
from events.queue.labels import operators_labels
from events.runtime.access import DATA_DEFAULT as FLEET_DATA
from events.runtime.access import URL_DEFAULT, Access, access, running
from events.runtime.errors import ConfigError
from pod_worker.child.live_view import flush_rule
from pod_worker.child.process import secrets_of
from pod_worker.files.environments import ENVIRONMENT_CACHE_BYTES
from pod_worker.files.folder_cache import TREE_CACHE_BYTES
from pod_worker.machine.address import SETTING as ADDRESS_SETTING
from pod_worker.machine.address import Address
from pod_worker.machine.cards import StrayUse
from pod_worker.rental.provider import NEEDED, Rental, rental_of
from pod_worker.services.allowed import SETTING as SERVICES_SETTING
from pod_worker.services.allowed import services_of
from pod_worker.slots.division import SLOTS_MAX, Slot

POD_ID_NAMES: Final = ("RUNPOD_POD_ID", "PODFLEET_POD_ID", "CONTAINER_ID", "POD_NAME")
PRICE_SETTING: Final = "PODFLEET_GPU_USD_PER_HOUR"  # of the whole pod
REGION_NAMES: Final = ("RUNPOD_DC_ID", "PODFLEET_REGION")
UPDATE_SETTING: Final = "PODFLEET_UPDATE"  # names of extras: installed where the worker is to restart
EXTRAS: Final = re.compile(r"[a-z][a-z0-9-]{0,39}(,[a-z][a-z0-9-]{0,39}){0,19}\Z")
CACHES: Final = ("PODFLEET_TREE_CACHE_GIB", "PODFLEET_ENVIRONMENT_CACHE_GIB")
SERVICES_CHARS_MAX: Final = 20_000
DATA_DEFAULT: Final = Path("~/.local/share/podfleet/worker")
DATA_OF_ROOT: Final = Path("/var/lib/podfleet/worker")  # users of pipelines cannot enter /root


# What a worker does that left for good: where its container is always started again, it had better sleep, or
# have the pod ended by its provider.
OnLeave = Literal["exit", "sleep", "end"]
ON_LEAVE: Final[tuple[OnLeave, ...]] = get_args(OnLeave)
STRAY_SETTING: Final = "PODFLEET_STRAY_GPU_USE"
STRAY_USES: Final[tuple[StrayUse, ...]] = get_args(StrayUse)


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the command line says; None leaves it to the environment."""

    mode: str | None = None
    data: Path | None = None
    runs_max: int | None = None
    idle_exit_s: float | None = None
    labels: tuple[str, ...] = ()
    slots: str | None = None
    slot: str | None = None
    update: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A worker's settings. `environ` is the whole environment, of which the child sees a part.

    `slots` are those that the pod shall have, None for one on each device. The worker of a `slot` has its own
    `data` below `pod_data`, and its share of the pod's price.
    """

    mode: Mode
    mongodb_url: str | None = field(repr=False)  # None: the control plane claims for this pod
    control_plane_url: str
    api_key: str | None = field(repr=False)
    pod: str
    region: str | None
    address: Address = field(default_factory=Address)
    labels: Mapping[str, str] = field(default_factory=dict)
    data: Path
    pod_data: Path
    slots: int | None = None
    slot: Slot | None = None
    runs_max: int | None = None
    idle_exit_s: float | None = None
    gpu_usd_per_hour: float | None = None
    isolation: str
    on_leave: OnLeave = "exit"
    update: str | None = None  # extras that are installed where it is to be started again
    tree_cache_bytes: int = TREE_CACHE_BYTES
    environment_cache_bytes: int = ENVIRONMENT_CACHE_BYTES
    containers: str | None = None  # the client by which jobs run in containers
    services: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # commands that reset each
    stray_use: StrayUse = "log"
    rental: Rental | None = None  # which its provider ends when the worker leaves for good
    environ: Mapping[str, str] = field(repr=False)

    @property
    def place(self) -> str:
        """The name of this worker among all that its pod has."""
        return f"{self.pod}/{1 if self.slot is None else self.slot.number}"

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that may appear nowhere."""
        rental = self.rental and self.rental.key
        ours = (value for value in (self.mongodb_url, self.api_key, rental) if value)
        return (*ours, *secrets_of(self.environ))


def read_settings(environ: Mapping[str, str], wishes: Wishes, *, dotenv: Path) -> Settings:
    """Return the settings; the command line wins over the environment, that over the `.env` file.

    Raises `ConfigError` that lists every problem.
    """
    from_file = {name: value for name, value in dotenv_values(dotenv).items() if value is not None}
    values = {**from_file, **environ}
    modes = get_args(Mode)
    chosen = wishes.mode or values.get("WORKER_MODE") or DEFAULT_MODE
    problems: list[str] = []
    near = running(Path(values.get("PODFLEET_DATA") or dotenv.parent / FLEET_DATA))
    try:
        found = access(environ, {name: value for name, value in from_file.items() if value}, near)
    except ConfigError as error:
        problems += error.problems
        found = Access(URL_DEFAULT)
    url = found.url
    if chosen not in modes:
        problems.append(f"WORKER_MODE (--mode) is {chosen!r}; accepted values: {', '.join(modes)}")
    if not _is_address(url):
        problems.append(f"CONTROL_PLANE_URL is no address like {URL_DEFAULT}")
    if wishes.runs_max is not None and wishes.runs_max < 1:
        problems.append(f"--max-runs is {wishes.runs_max}; it has to be 1 or more")
    if wishes.idle_exit_s is not None and not 0 <= wishes.idle_exit_s < float("inf"):
        problems.append(f"--idle-exit is {wishes.idle_exit_s}; it has to be a number of seconds, 0 or more")
    slots, slot = _slots(values, wishes, problems)
    labels, unfit = operators_labels(values.get("PODFLEET_LABELS"), wishes.labels)
    services, odd = _services(values.get(SERVICES_SETTING))
    problems += [*unfit, *odd, *_problems_of_tools(values)]
    for name, wanted in (("--update", wishes.update), (UPDATE_SETTING, values.get(UPDATE_SETTING))):
        if wanted and not EXTRAS.fullmatch(wanted):
            problems.append(f"{name} is {wanted[:100]!r}; it names extras, such as pod,models")
    if problems:
        raise ConfigError(problems)
    price = _number(values.get(PRICE_SETTING))
    if slot is not None and price is not None:
        price /= slot.count
        values[PRICE_SETTING] = repr(price)
    pod_data = (wishes.data or _data_default()).expanduser().absolute()
    on_leave: OnLeave = next((each for each in ON_LEAVE if each == values.get("PODFLEET_ON_LEAVE")), "exit")
    return Settings(
        mode=next(each for each in modes if each == chosen),
        mongodb_url=values.get("MONGODB_URL") or None,
        control_plane_url=url.rstrip("/"),
        api_key=found.key,
        pod=_first(values, POD_ID_NAMES) or socket.gethostname(),
        region=_first(values, REGION_NAMES),
        address=Address.read(values.get(ADDRESS_SETTING)),
        labels=labels,
        data=pod_data if slot is None else slot.data(pod_data),
        pod_data=pod_data,
        slots=slots,
        slot=slot,
        runs_max=0 if slot is not None and slot.is_spare else wishes.runs_max,
        idle_exit_s=wishes.idle_exit_s,
        gpu_usd_per_hour=price,
        isolation=values.get("PODFLEET_ISOLATION") or ISOLATIONS[0],
        on_leave=on_leave,
        update=wishes.update or values.get(UPDATE_SETTING) or None,
        tree_cache_bytes=_gib(values, "PODFLEET_TREE_CACHE_GIB", TREE_CACHE_BYTES),
        environment_cache_bytes=_gib(values, "PODFLEET_ENVIRONMENT_CACHE_GIB", ENVIRONMENT_CACHE_BYTES),
        containers=values.get(CONTAINERS_SETTING) or None,
        services=services,
        stray_use=next((each for each in STRAY_USES if each == values.get(STRAY_SETTING)), "log"),
        rental=rental_of(values) if on_leave == "end" else None,
        environ=values,
    )


def _slots(values: Mapping[str, str], wishes: Wishes, problems: list[str]) -> tuple[int | None, Slot | None]:
    """Return how many slots the pod shall have, and which one this worker is; add what is wrong."""
    wanted, slot = wishes.slots or values.get("PODFLEET_SLOTS") or None, None
    if wishes.slot is not None and (slot := Slot.read(wishes.slot)) is None:
        problems.append(f"--slot is {wishes.slot[:100]!r}; only a worker with several slots sets it")
    if wanted is None:
        return None, slot
    number = int(wanted) if wanted.isascii() and wanted.isdecimal() and len(wanted) < 4 else 0
    if not 1 <= number <= SLOTS_MAX:
        problems.append(
            f"--slots (PODFLEET_SLOTS) is {wanted[:100]!r}; it has to be a number from 1 to {SLOTS_MAX}"
        )
    return number, slot


def _services(setting: str | None) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Return the services that a file names, or the setting itself, and what is wrong with them."""
    text = setting or ""
    if "/" in text and "=" not in text:
        try:
            with Path(text).expanduser().open() as opened:
                text = opened.read(SERVICES_CHARS_MAX)
        except (OSError, ValueError) as error:
            return {}, [f"{SERVICES_SETTING} is {text[:200]!r}; this file cannot be read: {error}"]
    return services_of(text)


def _problems_of_tools(values: Mapping[str, str]) -> list[str]:
    """Return what is wrong with the settings that the pipeline's process will read."""
    problems: list[str] = []
    try:
        Address.read(values.get(ADDRESS_SETTING))
    except ConfigError as error:
        problems += error.problems
    price = values.get("PODFLEET_GPU_USD_PER_HOUR")
    if price and _number(price) is None:
        problems.append(
            f"PODFLEET_GPU_USD_PER_HOUR is {price!r}; it has to be a number of US dollars, 0 or more"
        )
    for name in CACHES:
        if values.get(name) and not _number(values.get(name)):
            problems.append(f"{name} is {values[name]!r}; it has to be a number of GiB above 0")
    prices = values.get("PODFLEET_PRICES")
    if prices and not Path(prices).is_file():
        problems.append(f"PODFLEET_PRICES is {prices!r}; there is no such file")
    for folder in values.get("PODFLEET_DATASETS", "").split(os.pathsep):
        if folder and not Path(folder).is_dir():
            problems.append(
                f"PODFLEET_DATASETS names {folder!r}; there is no such folder "
                f"(several are separated by {os.pathsep!r})"
            )
    literature = values.get("PODFLEET_LITERATURE_URL")
    if literature and not _is_address(literature):
        problems.append("PODFLEET_LITERATURE_URL must begin with http:// or https://")
    hub = values.get("PODFLEET_HUB_URL")
    if hub and hub != "none" and not _is_address(hub):
        problems.append("PODFLEET_HUB_URL must begin with http:// or https://, or be none")
    try:
        flush_rule(values)
    except ValueError as error:
        problems.append(str(error))
    isolation = values.get("PODFLEET_ISOLATION")
    if isolation and isolation not in ISOLATIONS:
        problems.append(f"PODFLEET_ISOLATION is {isolation!r}; accepted values: {', '.join(ISOLATIONS)}")
    least = values.get("PODFLEET_JOB_ISOLATION")
    if least and least not in JOB_ISOLATIONS:
        problems.append(f"PODFLEET_JOB_ISOLATION is {least!r}; accepted values: {', '.join(JOB_ISOLATIONS)}")
    bring = {each.strip() for each in values.get(ENGINES_SETTING, "").split(",")} - {"", *BRINGABLE}
    if bring:
        accepted = ", ".join(BRINGABLE)
        problems.append(f"{ENGINES_SETTING} names {', '.join(sorted(bring))}; accepted words: {accepted}")
    client = values.get(CONTAINERS_SETTING)
    if client and client not in CLIENTS:
        problems.append(f"{CONTAINERS_SETTING} is {client[:100]!r}; accepted values: {', '.join(CLIENTS)}")
    elif client and shutil.which(client, path=values.get("PATH", os.defpath)) is None:
        problems.append(f"{CONTAINERS_SETTING} is {client}, and there is no such program: install it")
    problems += read_endpoints(values.get(ENDPOINTS_SETTING, ""))[1]
    stray = values.get(STRAY_SETTING)
    if stray and stray not in STRAY_USES:
        problems.append(f"{STRAY_SETTING} is {stray[:100]!r}; accepted values: {', '.join(STRAY_USES)}")
    on_leave = values.get("PODFLEET_ON_LEAVE")
    if on_leave and on_leave not in ON_LEAVE:
        accepted = ", ".join(ON_LEAVE)
        problems.append(f"PODFLEET_ON_LEAVE is {on_leave!r}; accepted values: {accepted}")
    if on_leave == "end" and rental_of(values) is None:
        problems.append(f"PODFLEET_ON_LEAVE=end needs the pod's id and the provider's key: {NEEDED}")
    return problems


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text.strip())
    except ValueError:  # a bracket that is not closed
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def _number(text: str | None) -> float | None:
    """Return a finite number of 0 or more; None for anything else."""
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if 0 <= number < float("inf") else None


def _gib(values: Mapping[str, str], name: str, default: int) -> int:
    return int((_number(values.get(name)) or 0) * (1 << 30)) or default


def _first(values: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((values[name] for name in names if values.get(name)), None)


def _data_default() -> Path:
    """Return where a worker keeps its data that was told no place; what it has already stays in use."""
    has_data = DATA_DEFAULT.expanduser().is_dir()
    return DATA_OF_ROOT if os.getuid() == 0 and not has_data else DATA_DEFAULT
