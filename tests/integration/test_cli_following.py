"""Following a run across restarts of the control plane, and at one that has no live stream."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from events.testing import make_run
from tests.integration.command_line import podfleet, started, within
from tests.integration.conftest import start_control_plane

RUN = "01" + "A" * 24
STREAM = "text/event-stream"
LINES = 6


@dataclass
class Story:
    """What a control plane of the test tells, and what it was asked."""

    has_stream: bool
    lines: int = 3
    streams: list[str | None] = field(default_factory=list)  # the places from which it was asked to go on
    is_over: bool = False

    def go_on(self) -> None:
        """Without a stream: have a line more each time that somebody asks for the run, until it is over."""
        self.is_over = self.is_over or (not self.has_stream and self.lines == LINES)
        self.lines += not (self.has_stream or self.is_over)

    def run(self) -> dict[str, Any]:
        run = make_run(
            id=RUN,
            status="COMPLETED" if self.is_over else "RUNNING",
            attempt=1,
            startedAt="2026-11-22T08:00:00.000Z",
            finishedAt="2026-11-22T08:00:07.500Z" if self.is_over else None,
        )
        shown: dict[str, Any] = msgspec.to_builtins(run)
        return shown

    def event(self, number: int) -> dict[str, Any]:
        return {
            "runId": RUN,
            "id": f"e{number}",
            "source": "//test",
            "position": f"{number:026}",
            "type": "ai.run.log",
            "time": "2026-11-22T08:00:00.000Z",
            "attempt": 1,
            "sequence": number + 1,
            "revision": None,
            "traceparent": None,
            "receivedAt": "2026-11-22T08:00:00.000Z",
            "data": {"level": "info", "message": f"line {number}"},
        }


@contextmanager
def control_plane(story: Story) -> Iterator[str]:
    """Serve a control plane that tells the story; each of its streams says one line more, and breaks off."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urlsplit(self.path)
            if url.path == "/api/stream":
                self.stream()
            elif url.path == f"/api/runs/{RUN}/events":
                after = parse_qs(url.query).get("after")
                items = [] if after else [story.event(n) for n in reversed(range(story.lines))]
                self.answer({"items": items, "next": None})
            elif url.path == f"/api/runs/{RUN}":
                story.go_on()
                self.answer(story.run())
            else:
                self.answer({"detail": "not here", "code": "http"}, 404)

        def stream(self) -> None:
            if not story.has_stream:
                self.answer({"detail": "Not Found", "code": "http"}, 404)
                return
            place = self.headers["Last-Event-ID"]
            story.streams.append(place)
            self.send_response(200)
            self.send_header("content-type", STREAM)
            self.end_headers()
            number = int(place or story.lines - 1)
            if place is None:
                self.wfile.write(f"event: at\ndata: {{}}\nid: {number}\n\n".encode())
            else:
                story.lines = number + 2
                shown = json.dumps(story.event(number + 1))
                # the last line again, as of a server that is not sure what was heard
                again = json.dumps(story.event(number))
                frame = f": idle\nevent: event\ndata: {again}\n\nevent: event\ndata: {shown}\n\n"
                self.wfile.write(f"{frame}event: at\ndata: {{}}\nid: {number + 1}\n\n".encode())
            if number >= 5:
                story.is_over = True
                self.wfile.write(f"event: run\ndata: {json.dumps(story.run())}\n\n".encode())

        def answer(self, body: dict[str, Any], status: int = 200) -> None:
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            serving.join()


def messages(output: str) -> list[str]:
    return [line.split("\t")[-1] for line in output.splitlines()]


def test_a_stream_that_breaks_off_is_taken_up_where_it_was_and_nothing_is_shown_twice() -> None:
    story = Story(has_stream=True)
    with control_plane(story) as url:
        followed = within(url, "runs", "logs", RUN, "-f")
    assert followed.returncode == 0, followed.stderr
    assert messages(followed.stdout) == [f"line {n}" for n in range(story.lines)]
    assert story.streams == [None, "2", "3", "4", "5"]


def test_a_control_plane_without_a_stream_is_asked_again_and_again() -> None:
    story = Story(has_stream=False)
    with control_plane(story) as url:
        followed = within(url, "events", "tail", RUN, "-f", "-n", "2", "--type", "run.log")
        watched = podfleet(url, "runs", "watch", RUN, "--exit-status")
    assert followed.returncode == 0, followed.stderr
    shown = messages(followed.stdout)
    first = int(shown[0].removeprefix("line "))
    assert shown == [f"line {n}" for n in range(first, LINES)]
    assert len(shown) > 2
    assert (watched.returncode, watched.stdout) == (0, f"{RUN} COMPLETED after 7.5 s\n")


def test_what_is_no_control_plane_is_not_followed() -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>hello</html>")

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        answer = within(f"http://127.0.0.1:{server.server_port}", "runs", "watch", RUN)
        server.shutdown()
    assert (answer.returncode, "is no control plane" in answer.stderr) == (3, True)


def test_a_watch_survives_a_restart_of_the_control_plane(
    fleet: Any, s3: Any, until: Any, tmp_path: Path
) -> None:
    """What happened while nobody answered is heard from the next control plane."""
    run_id = fleet.submit()
    home = tmp_path / "other"
    home.mkdir()
    process, url = start_control_plane(home, fleet.database_url, s3)
    try:
        with started(url, "runs", "watch", run_id, "--exit-status") as watching:
            assert watching.stdout is not None
            assert watching.stderr is not None
            assert watching.stdout.readline() == f"{run_id} QUEUED\n"
            process.kill()
            process.wait()
            assert "trying again" in watching.stderr.readline()
            assert fleet.client.post(f"/api/runs/{run_id}/cancel").status_code == 200
            port = int(url.rpartition(":")[2])
            process = start_control_plane(home, fleet.database_url, s3, port=port)[0]
            assert watching.stdout.readline().startswith(f"{run_id} CANCELED after")
            assert watching.wait(60) == 1
    finally:
        process.kill()
        process.wait()


def test_a_shell_is_offered_commands_and_the_runs_that_there_are(fleet: Any) -> None:
    run_id = fleet.submit()

    def offered(*words: str) -> str:
        line = {"COMP_WORDS": " ".join(("podfleet", *words)), "COMP_CWORD": str(len(words))}
        return podfleet(fleet.url, _PODFLEET_COMPLETE="complete_bash", **line).stdout

    assert "hypotheses" in offered("hyp")
    assert offered("runs", "wat").split() == ["watch"]
    assert run_id in offered("runs", "show", run_id[:4])
    assert "@latest" in offered("runs", "watch", "@")
