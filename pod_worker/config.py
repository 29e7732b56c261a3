"""What a worker is told: its environment and its command line, checked together."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, get_args
from urllib.parse import urlsplit

from dotenv import dotenv_values

from events.errors import ConfigError
from pod_worker.matching import Mode

POD_ID_NAMES: Final = ("RUNPOD_POD_ID", "PODFLEET_POD_ID", "CONTAINER_ID", "POD_NAME")
REGION_NAMES: Final = ("RUNPOD_DC_ID", "PODFLEET_REGION")
CONTROL_PLANE_DEFAULT: Final = "http://127.0.0.1:8700"
DATA_DEFAULT: Final = Path("~/.local/share/podfleet/worker")


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the command line says; None leaves it to the environment."""

    mode: str | None = None
    data: Path | None = None
    runs_max: int | None = None
    idle_exit_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A worker's settings. `environ` is the whole environment, of which the child sees a part."""

    mode: Mode
    mongodb_url: str = field(repr=False)
    control_plane_url: str
    api_key: str | None = field(repr=False)
    pod: str
    region: str | None
    data: Path
    runs_max: int | None = None
    idle_exit_s: float | None = None
    environ: Mapping[str, str] = field(repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Values that may appear nowhere."""
        return tuple(value for value in (self.mongodb_url, self.api_key) if value)


def read_settings(environ: Mapping[str, str], wishes: Wishes, *, dotenv: Path) -> Settings:
    """Return the settings; the command line wins over the environment, that over the `.env` file.

    Raises `ConfigError` that lists every problem.
    """
    from_file = {name: value for name, value in dotenv_values(dotenv).items() if value is not None}
    values = {**from_file, **environ}
    modes = get_args(Mode)
    chosen = wishes.mode or values.get("WORKER_MODE") or "experiment"
    url = values.get("CONTROL_PLANE_URL") or CONTROL_PLANE_DEFAULT
    problems = []
    if chosen not in modes:
        problems.append(f"WORKER_MODE (--mode) is {chosen!r}; accepted values: {', '.join(modes)}")
    if not values.get("MONGODB_URL"):
        problems.append(
            "MONGODB_URL is not set; it is the connection string of the fleet's MongoDB replica set, "
            "such as mongodb://user:password@host/podfleet?replicaSet=rs0"
        )
    if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
        problems.append(f"CONTROL_PLANE_URL is {url!r}; it must be like {CONTROL_PLANE_DEFAULT}")
    if wishes.runs_max is not None and wishes.runs_max < 1:
        problems.append(f"--max-runs is {wishes.runs_max}; it has to be 1 or more")
    if wishes.idle_exit_s is not None and not 0 <= wishes.idle_exit_s < float("inf"):
        problems.append(f"--idle-exit is {wishes.idle_exit_s}; it has to be a number of seconds, 0 or more")
    if problems:
        raise ConfigError(problems)
    return Settings(
        mode=next(each for each in modes if each == chosen),
        mongodb_url=values["MONGODB_URL"],
        control_plane_url=url.rstrip("/"),
        api_key=values.get("PODFLEET_API_KEY") or None,
        pod=_first(values, POD_ID_NAMES) or socket.gethostname(),
        region=_first(values, REGION_NAMES),
        data=(wishes.data or DATA_DEFAULT).expanduser().absolute(),
        runs_max=wishes.runs_max,
        idle_exit_s=wishes.idle_exit_s,
        environ=values,
    )


def _first(values: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((values[name] for name in names if values.get(name)), None)
