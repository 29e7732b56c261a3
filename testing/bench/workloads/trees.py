"""What a folder of 100 MiB takes: to submit where the fleet has it, to push where not, to fetch on a pod."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

import httpx

from events.files.tree_fetch import TreeFetch
from pod_worker.files.trees import TreeCache
from podfleet.client.synchronous import Client
from podfleet.client.trees.packing import pack
from podfleet.client.trees.pulling import TreesOfClient
from podfleet.client.trees.pushing import Push
from testing.bench.comparison import OURS, Bench, Figures, Goal, Metric, Row, Setting, contest
from testing.bench.machine import CLOCK
from testing.bench.servers import fleet

MIB: Final = 1 << 20
LARGE_MIB: Final = 60
SMALL: Final = 400
SMALL_BYTES: Final = 100 << 10
SUBMIT: Final = (Metric("took", "s", more_is_better=False, goals=(Goal(1.0),)),)
MOVE: Final = (Metric("took", "s", more_is_better=False),)


def run(setting: Setting) -> Iterator[Row]:
    """Push a folder once, then submit runs with it, push folders like it, and fetch its tree."""
    folder = setting.scratch / "folder"
    size = 1 if setting.small else LARGE_MIB
    _fill(folder, size)
    with fleet(setting.scratch / "fleet") as stack, Client(stack.url) as client:
        _submit(client, folder)
        ways = {OURS: partial(_submit, client, folder), "sha256sum": partial(_hashed, folder)}
        yield from contest("submit a known folder", SUBMIT, ways, setting)
        yield from contest("push a new folder", MOVE, {OURS: partial(_push, client, folder)}, setting)
        fetched = partial(_fetch, client, folder, setting.scratch / "cache")
        yield from contest("fetch a tree", MOVE, {OURS: fetched, "copy": partial(_copied, folder)}, setting)


def _fill(folder: Path, large_mib: int) -> None:
    folder.mkdir()
    with (folder / "weights").open("wb") as file:
        for _ in range(large_mib):
            file.write(os.urandom(MIB))
    for number in range(SMALL * large_mib // LARGE_MIB):
        place = folder / f"part{number % 10}"
        place.mkdir(exist_ok=True)
        (place / f"{number:04}").write_bytes(os.urandom(SMALL_BYTES))


def _submit(client: Client, folder: Path) -> Figures:
    """Return the seconds until a run is queued whose folder the fleet has."""
    begun_s = CLOCK.monotonic_s()
    Push(client, CLOCK).run(pack(folder))
    client.submit("probe", {})
    return {"took": CLOCK.monotonic_s() - begun_s}


def _hashed(folder: Path) -> Figures:
    begun_s = CLOCK.monotonic_s()
    files = [str(path) for path in folder.rglob("*") if path.is_file()]
    subprocess.run(["sha256sum", *files], check=True, stdout=subprocess.DEVNULL)
    return {"took": CLOCK.monotonic_s() - begun_s}


def _push(client: Client, folder: Path) -> Figures:
    """Return the seconds of a push of which the storage has nothing."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("r+b") as file:  # each chunk is another
                for at in range(0, path.stat().st_size, MIB):
                    file.seek(at)
                    file.write(os.urandom(64))
    begun_s = CLOCK.monotonic_s()
    Push(client, CLOCK).run(pack(folder))
    return {"took": CLOCK.monotonic_s() - begun_s}


def _fetch(client: Client, folder: Path, cache: Path) -> Figures:
    tree_id = hashlib.sha256(pack(folder).tree.manifest()).hexdigest()
    shutil.rmtree(cache, ignore_errors=True)
    with httpx.Client(trust_env=False) as storage:
        fetch = TreeFetch(TreesOfClient(client), storage, CLOCK)
        begun_s = CLOCK.monotonic_s()
        with TreeCache(cache, CLOCK).used(tree_id, fetch):
            return {"took": CLOCK.monotonic_s() - begun_s}


def _copied(folder: Path) -> Figures:
    copy = folder.with_name("copy")
    shutil.rmtree(copy, ignore_errors=True)
    begun_s = CLOCK.monotonic_s()
    shutil.copytree(folder, copy)
    os.sync()
    return {"took": CLOCK.monotonic_s() - begun_s}


BENCH: Final = Bench("trees", "a folder of 100 MiB: submitted where it is known, pushed, fetched", run)
