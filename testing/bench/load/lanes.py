"""Lanes of a race that show tokens at a steady pace, in one process; and a reader that notes when each comes."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from socket import SHUT_RDWR
from typing import Final

import httpx

from events.delivery.control_plane_client import ControlPlane
from events.queue.claims import Claim
from pod_worker.attempt.live_stream import HttpLive, LiveStream
from pod_worker.child.live_view import ChildLiveView
from testing.bench.machine import CLOCK, pause

TOKEN: Final = "word "
TOKENS_A_SECOND: Final = 100.0
LAST_S: Final = 2.0  # for what was shown last


def show(url: str, claims: Sequence[Claim], pipe: Connection) -> None:
    """Show tokens for each claim, as its process and its pod would, until told to end; send when each was."""
    end = threading.Event()
    shown: dict[str, list[float]] = {each.run_id: [] for each in claims}
    with httpx.Client(base_url=url, trust_env=False) as client:
        lanes = [
            threading.Thread(
                target=_show, args=(client, claim, number / len(claims), shown[claim.run_id], end)
            )
            for number, claim in enumerate(claims)
        ]
        for lane in lanes:
            lane.start()
        pipe.send("begun")
        pipe.recv()
        end.set()
        for lane in lanes:
            lane.join()
        pause(LAST_S)
    pipe.send(shown)


def _show(client: httpx.Client, claim: Claim, phase: float, shown: list[float], end: threading.Event) -> None:
    stream = LiveStream(HttpLive(ControlPlane(client, CLOCK)), claim, CLOCK, _start)
    view = ChildLiveView(stream.put, CLOCK)
    begun_s = CLOCK.monotonic_s() + phase / TOKENS_A_SECOND
    while not CLOCK.wait(end, begun_s + len(shown) / TOKENS_A_SECOND - CLOCK.monotonic_s()):
        shown.append(CLOCK.monotonic_s())
        view.show(TOKEN, 1, {"tokens": len(shown)})
    view.flush()
    stream.stop()


def _start(name: str, work: object) -> None:
    threading.Thread(target=work, name=name, daemon=True).start()  # type: ignore[arg-type] # it is callable


@dataclass(slots=True)
class Seen:
    """When a reader got each character of what a run showed: the end of a piece, and the moment."""

    pieces: dict[str, list[tuple[int, int, float]]] = field(default_factory=lambda: defaultdict(list))

    def late_ms(self, shown: Mapping[str, Sequence[float]], since_s: float = 0.0) -> list[float]:
        """Return how long each token took to its reader; infinite for one that never came."""
        found: list[float] = []
        for run_id, moments in shown.items():
            came: dict[int, float] = {}
            for begin, end, at_s in self.pieces.get(run_id, ()):
                for number in range(begin // len(TOKEN), end // len(TOKEN)):
                    came.setdefault(number, at_s)
            for number, moment_s in enumerate(moments):
                if moment_s >= since_s:
                    found.append(1000 * (came.get(number, float("inf")) - moment_s))
        return found


@contextmanager
def seen(url: str, path: str) -> Iterator[Seen]:
    """Read live text in a thread of its own, until the block ends."""
    found = Seen()
    with (
        httpx.Client(base_url=url, trust_env=False, timeout=None) as client,
        client.stream("GET", f"/api/{path}/live") as answer,
    ):
        answer.raise_for_status()
        reader = threading.Thread(target=_read, args=(answer, found))
        reader.start()
        yield found
        with suppress(OSError):
            answer.extensions["network_stream"].get_extra_info("socket").shutdown(SHUT_RDWR)
        reader.join()


def _read(answer: httpx.Response, found: Seen) -> None:
    with suppress(httpx.HTTPError, httpx.StreamError):
        for line in answer.iter_lines():
            if line.startswith("data: ["):
                at_s = CLOCK.monotonic_s()
                for piece in json.loads(line.removeprefix("data: ")):
                    begin = piece["offset"]
                    found.pieces[piece["run"]].append((begin, begin + len(piece["text"]), at_s))
