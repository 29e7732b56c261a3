"""A fleet in which a package has brought a kind: its runs are served, shown and verified like all others."""

from __future__ import annotations

import html
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from events import catalog
from events.catalog import RunCompleted, RunFailed, RunStarted, StageStarted
from events.kinds.declaring.fact import Fact
from events.lifecycle import Fault
from events.queue.faults import blame_of
from events.queue.settlement import End
from events.runtime.clock import SystemClock
from tests.integration.conftest import LOG, Fleet, end, local_client, start_control_plane
from tests.kinds.test_every_kind import ALL, HELLO, HELLO_KIND, least_fact
from tests.servers import S3Server, own_database

WITH_HELLO = {"PYTHONPATH": os.pathsep.join([str(HELLO), str(Path.cwd())])}


@pytest.fixture(scope="module")
def hello_fleet(mongod: Any, s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A control plane, started by `exec`, where the package with the kind `hello` is installed."""
    home = tmp_path_factory.mktemp("hello")
    with own_database(mongod) as database_url:
        process, url = start_control_plane(home, database_url, s3, is_forked=False, **WITH_HELLO)
        with local_client(url, timeout=30.0) as client:
            fleet = Fleet(url, database_url, home, home / LOG, client)
            try:
                yield fleet
            finally:
                end([*fleet.workers, process])


@pytest.fixture
def fleet(hello_fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    for name, fact in HELLO_KIND.facts.items():
        monkeypatch.setitem(catalog._NAMES, fact, name)  # type: ignore[arg-type]
    return hello_fleet


def podfleet(fleet: Fleet, *arguments: str, is_installed: bool = True) -> tuple[int, str]:
    """Run the command line, with the package or without; return its exit status, and all that it printed."""
    environment = {
        **os.environ,  # noqa: TID251 - as a person's shell passes it on
        **(WITH_HELLO if is_installed else {}),
        "CONTROL_PLANE_URL": fleet.url,
        "MONGODB_URL": fleet.database_url,
    }
    command = [sys.executable, "-c", "from podfleet.main import main; main()", *arguments]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, cwd=fleet.home, check=False
    )
    return done.returncode, done.stdout + done.stderr


def test_a_kind_of_another_package_runs_and_is_shown_without_a_change_of_the_product(fleet: Fleet) -> None:
    refused = fleet.client.post("/api/runs", json={"kind": "hello", "spec": {"to": "nobody"}})
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_spec")
    assert "`to` is nobody; name somebody" in refused.json()["detail"]
    run_id = fleet.submit("hello", spec={"to": "Lovelace", "times": 3}, labels={"team": "a"})
    lost = fleet.submit("hello", spec={"to": "a ghost"})
    worker = fleet.start_worker("--max-runs", "2", mode="experiment", is_forked=False, **WITH_HELLO)
    run = fleet.wait_for(run_id, "COMPLETED")
    assert run["title"] == "Greet Lovelace"
    assert run["labels"] == {"to": "Lovelace", "team": "a"}
    assert [each["text"] for each in run["greetings"]] == ["Hello, Lovelace!"] * 3
    assert run["sections"] == [{"name": "greetings", "title": "Greetings", "columns": ["to", "text"]}]
    assert [each["name"] for each in run["artifacts"]] == ["greeting.txt"]
    page = fleet.client.get(f"/runs/{run_id}/kind/details").text
    assert page.count("<td>Hello, Lovelace!</td>") == 3
    assert "Search tree" not in page
    assert "to Lovelace: Hello, Lovelace!" in fleet.client.get(f"/runs/{run_id}/log").text
    failed = fleet.wait_for(lost, "FAILED")
    assert failed["error"]["code"] == "NOBODY_THERE"
    assert "Name somebody who is there." in fleet.client.get(f"/runs/{lost}").text
    assert [
        each["id"] for each in fleet.client.get("/api/runs", params={"label": "to=Lovelace"}).json()["items"]
    ] == [run_id]
    worker.wait(60)
    with MongoClient[dict[str, Any]](fleet.database_url) as client:
        stored = client.get_default_database().greetings
        assert stored.count_documents({"runId": run_id}) == 3
        assert "by_run" in stored.index_information()
    for is_installed in (True, False):
        status, output = podfleet(fleet, "runs", "show", run_id, is_installed=is_installed)
        assert status == 0, output
        assert output.count("Hello, Lovelace!") == 3
    status, output = podfleet(fleet, "runs", "show", run_id, "--json", is_installed=False)
    assert status == 0, output
    assert {**json.loads(output), "revision": 0} == {**fleet.run(run_id), "revision": 0}
    status, output = podfleet(fleet, "verify", "--rebuild")
    assert status == 0, output


def test_a_pod_without_the_package_is_named_as_one_that_does_not_run_the_kind(fleet: Fleet) -> None:
    run_id = fleet.submit("hello", spec={"to": "Grace"})
    worker = fleet.start_worker(mode="experiment", name="plain")
    clock = SystemClock()
    until_s, output = clock.monotonic_s() + 60, ""
    while "it does not run the kind hello" not in output and clock.monotonic_s() < until_s:
        clock.wait(threading.Event(), 0.1)
        output = str(fleet.client.get(f"/api/runs/{run_id}/explain").json())
    end([worker])
    fleet.client.post(f"/api/runs/{run_id}/cancel")
    assert "it does not run the kind hello" in output


@pytest.mark.parametrize("name", ALL)
def test_the_page_of_a_run_of_each_kind_is_made_in_each_state(name: str, fleet: Fleet, by_hand: Any) -> None:
    kind = ALL[name]
    if kind.queue.takes_submissions:
        run_id = fleet.submit(name, spec=dict(kind.example), priority=9)
    else:
        body = {"title": "t", "idea": "i", "enable_ideation": True}
        run_id = fleet.client.post("/api/hypotheses", json=body).json()["ideation_request_id"]

    def shows(*texts: str) -> None:
        first = fleet.client.get(f"/runs/{run_id}").text
        others = set(re.findall(rf'href="(/runs/{run_id}/[a-z/]+)"', first))
        assert len(others) >= 5, "its tabs"
        pages = [fleet.client.get(each) for each in sorted(others)]
        assert {page.status_code for page in pages} == {200}
        shown = "".join([first, *(page.text for page in pages)])
        assert [text for text in texts if text not in shown] == []
        assert fleet.run(run_id)["kind"] == name

    shows("Waits for a pod", "Not claimed yet")
    attempt = by_hand(kind.queue.collection, f"{name}/cpu/any")
    assert attempt.claim.run_id == run_id
    shows("the pipeline starts")
    facts: list[Fact] = [RunStarted(), *(StageStarted(stage=each) for each in kind.stages[:1])]
    attempt.say(*facts, *(least_fact(fact) for fact in kind.facts.values()))
    shows()
    many = [least_fact(fact) for fact in kind.facts.values()]
    for _ in range(3 if many else 0):
        attempt.say(*(many * 60))
    shows()
    codes = [each for each in kind.codes if blame_of(each).fault is Fault.RUN] or ["OUT_OF_MEMORY"]
    attempt.say(RunFailed(code=codes[0], message="it failed"))
    attempt.settle(End("failed", codes[0], "it failed", "run", False))
    fleet.wait_for(run_id, "FAILED")
    step = kind.codes.get(codes[0])
    shows(codes[0], *([] if step is None else [html.escape(step).replace("&#x27;", "&#39;")]))


def test_each_kind_has_a_page_when_it_has_succeeded(fleet: Fleet, by_hand: Any) -> None:
    run_id = fleet.submit("hello", spec=dict(HELLO_KIND.example), priority=5)
    attempt = by_hand("runs", "hello/cpu/any")
    attempt.say(RunStarted(), RunCompleted(summary="all were greeted"))
    attempt.settle(End("completed", message="all were greeted"))
    fleet.wait_for(run_id, "COMPLETED")
    assert "all were greeted" in fleet.client.get(f"/runs/{run_id}").text
