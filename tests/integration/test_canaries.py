"""Secrets that sing: each has a value of its own, and wherever one is found, something leaks.

A real worker has them all in its environment, also those that it has no use for; a model's program
looks for them from inside; then all that the fleet stores, shows and prints is searched. The run is also
the whole chain with a language model as nothing disturbs it: submit, search, paper, verdict.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import psutil
import pytest
from minio import Minio
from pymongo import MongoClient
from pypdf import PdfReader

from podfleet.embedded.mongod import Mongod
from tests.fork_server import run_program
from tests.integration.command_line import PROGRAM
from tests.integration.conftest import Fleet, fleet_on
from tests.integration.programs.model_server import Asked, ModelServer, Reply, failing
from tests.integration.programs.scholar import good, program_for, step_of
from tests.integration.programs.spy import SPY
from tests.integration.research import (
    Experiment,
    must_be_computed_from_single_measurements,
    must_state_what_was_said,
)
from tests.integration.test_research_with_model import (
    ENDS,
    MODEL,
    PRICES,
    artifact,
    must_have_billed,
    price_of,
    said,
    steps,
    submit,
)
from tests.servers import S3Server, own_database

Until = Callable[..., None]

SPIED_NODES: Final = {"Stage_1": 1, "Stage_2": 2, "Stage_4": 3}
NAMES: Final = (
    "MINIO_ACCESS_KEY", "MINIO_SECRET_KEY", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "RUNPOD_API_KEY",
    "OPENAI_ADMIN_KEY", "NVIDIA_API_KEY", "HF_TOKEN", "OPENAI_API_KEY", "ANTHROPIC_API_KEY",
    "PODFLEET_API_KEY",
)  # fmt: skip
SECRET: Final = "OPENAI_API_KEY"  # the run names it, and the pod has none
CANARIES: Final = {name: f"canary-of-{name.lower().replace('_', '-')}" for name in NAMES}
ADDRESSES: Final = {
    "HTTPS_PROXY": "http://me:canary-of-the-proxy@127.0.0.1:1",
    "PODFLEET_LITERATURE_URL": "http://me:canary-of-the-index@127.0.0.1:1/graph",
}
PAGES: Final = (
    "/", "/runs", "/runs/{id}", "/runs/{id}/metrics", "/runs/{id}/kind/tree", "/runs/{id}/kind/paper",
    "/runs/{id}/validation", "/runs/{id}/log", "/runs/{id}/files", "/runs/{id}/attempts", "/runs/{id}/spec",
    "/pods", "/numbers", "/metrics", "/openapi.json",
    "/api/runs/{id}", "/api/runs/{id}/events?limit=200&order=oldest", "/api/runs/{id}/explain",
    "/api/runs/{id}/artifacts", "/api/pods", "/api/audit", "/api/queue", "/api/keys",
    "/secrets", "/api/secrets", "/webhooks", "/api/webhooks",
)  # fmt: skip


@dataclass(frozen=True)
class Spied:
    """A whole experiment with a spy in it, and all that came of it by where it stands."""

    fleet: Fleet
    server: ModelServer
    run_id: str
    found: dict[str, bytes]


@pytest.fixture(scope="module")
def spied(
    mongod: Mongod, s3: S3Server, tmp_path_factory: pytest.TempPathFactory, until: Until
) -> Iterator[Spied]:
    """Let a program spy inside a pod that has every secret, in an experiment that comes to its end."""
    key, home = CANARIES["PODFLEET_API_KEY"], tmp_path_factory.mktemp("spied")
    with (
        own_database(mongod) as database_url,
        fleet_on(database_url, s3, home, key) as fleet,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as post_box,
        ModelServer(lambda asked: answer(asked)) as server,
    ):
        post_box.bind(("127.0.0.1", 0))
        post_box.setblocking(False)
        ports = [urlsplit(each).port for each in (fleet.url, database_url, s3.endpoint, server.url)]

        def answer(asked: Asked) -> Reply:
            step = step_of(asked)
            spy = SPY.format(
                tcp=[*(("127.0.0.1", port) for port in ports), ("169.254.169.254", 80)],
                udp=post_box.getsockname()[1],
                folders=[str(home), str(home / "pod"), os.getcwd()],
                pids=[worker.pid, *(each.pid for each in psutil.Process(worker.pid).children())],
            )
            if steps(server).count("tune") == 2 and step == "tune":  # as an endpoint that quotes the key
                return failing(400, f"wrong key {asked.headers['authorization']}")
            return program_for(step, asked, extra=spy) if step == "draft" else good(asked)

        of_the_pod = {name: value for name, value in CANARIES.items() if name != SECRET}
        environment = of_the_pod | ADDRESSES | {
            "CONTROL_PLANE_URL": fleet.url, "OPENAI_BASE_URL": server.openai_url, "OPENAI_MODEL": MODEL,
            "PODFLEET_PRICES": str(home / "prices.toml"), "PODFLEET_GPU_USD_PER_HOUR": "3.6",
        }  # fmt: skip
        (home / "prices.toml").write_text(PRICES)
        # by exec, since its environment is looked for in /proc; it loads no second child for a second run
        worker = fleet.start_worker("--max-runs", "1", name="pod", is_forked=False, **environment)
        set_secret = fleet.client.put(f"/api/secrets/{SECRET}", json={"value": CANARIES[SECRET]})
        assert set_secret.status_code == 201, set_secret.text
        run_id = submit(fleet, review="human", nodes=SPIED_NODES, secrets=[SECRET])
        commands: set[bytes] = set()

        def is_over() -> bool:
            for each in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):  # it has ended
                    commands.add(each.read_bytes())
            run = fleet.run(run_id)
            return run["status"] in ENDS and not run["logOpen"]

        until(is_over, 300)
        assert server.asked, "the pipeline has the key"
        assert server.asked[0].headers["authorization"] == f"Bearer {CANARIES['OPENAI_API_KEY']}"
        token = (
            (home / "pod" / "claim.token").read_bytes() if (home / "pod" / "claim.token").exists() else b""
        )
        worker.terminate()
        worker.wait(60)
        with pytest.raises(BlockingIOError):
            post_box.recv(100)
        found = {"commands": b"\n".join(commands), "claim token": token}
        for each in PAGES:
            address = each.format(id=run_id)
            response = fleet.client.get(address)
            assert response.status_code == 200, address
            found[address] = response.content
        found |= command_line(environment | {"MONGODB_URL": database_url}, home)
        found |= {each.name: each.read_bytes() for each in home.glob("*.log")}
        found |= stored(database_url, s3, run_id)
        yield Spied(fleet, server, run_id, found)


def command_line(environment: dict[str, str], folder: Path) -> dict[str, bytes]:
    """Return what commands print that look at the settings."""
    values = {**os.environ, **environment}  # noqa: TID251 - as a person's shell passes it on
    said = {}
    for words in (("config", "show", "--all"), ("doctor",), ("runs", "list")):
        answer = run_program([*PROGRAM, *words], env=values, cwd=folder)
        said[" ".join(words)] = (answer.stdout + answer.stderr).encode()
    return said


def stored(database_url: str, s3: S3Server, run_id: str) -> dict[str, bytes]:
    """Return every document of the database, and every object of the run."""
    found = {}
    with MongoClient[dict[str, Any]](database_url) as client:
        db = client.get_default_database()
        for name in db.list_collection_names():
            found[name] = "\n".join(map(str, db[name].find())).encode()
    storage = Minio(
        s3.endpoint.rpartition("/")[2],
        access_key=s3.access_key,
        secret_key=s3.secret_key,
        secure=False,
        region=s3.region,
    )
    for each in storage.list_objects(s3.bucket, prefix=f"runs/{run_id}", recursive=True):
        assert each.object_name is not None
        with storage.get_object(s3.bucket, each.object_name) as stream:
            found[each.object_name] = stream.read()
    return found


def test_the_spy_wins_where_nothing_holds_it(tmp_path: Path) -> None:
    (tmp_path / "outbox.db").write_text("canary-of-the-outbox")
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as post_box,
        subprocess.Popen(["sleep", "60"]) as victim,
    ):
        post_box.bind(("127.0.0.1", 0))
        program = SPY.format(
            tcp=[server.getsockname()],
            udp=post_box.getsockname()[1],
            folders=[str(tmp_path)],
            pids=[victim.pid],
        )
        environment = {"SECRET": "canary-of-mine"}
        answer = subprocess.run(
            [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
        )
        victim.kill()
        assert post_box.recv(100)
    wins = (
        "a secret in SECRET",
        "a secret in /proc/self/environ",
        f"a secret in {tmp_path}/outbox.db",
        f"writes in {tmp_path}",
        f"ptrace of {victim.pid}",
        f"the memory of {victim.pid}",
        f"may signal {victim.pid}",
        "a connection to",
    )
    for what in wins:
        assert f"SPY won: {what}" in answer.stdout, what


@pytest.mark.slow("whoever is first makes a whole experiment with programs in the sandbox")
def test_no_secret_of_a_pod_is_stored_shown_or_printed_nor_found_by_a_program(
    spied: Spied, s3: S3Server
) -> None:
    found = spied.found
    events = json.loads(
        next(content for place, content in found.items() if place.endswith("/events?limit=200&order=oldest"))
    )
    tails = [said for each in events["items"] if "SPY" in (said := str(each["data"].get("log_tail")))]
    (tail,) = tails
    assert "SPY is done" in tail, tail
    assert "SPY won" not in tail, tail
    password = urlsplit(spied.fleet.database_url).password
    assert password
    secrets = [b"canary-of", password.encode(), s3.secret_key.encode()]
    assert {"commands", "runs", "events", "pod.log", "control-plane.log", "doctor"} <= found.keys()
    assert any(each.endswith("paper/paper.tex") for each in found)
    assert any(b"wrong key" in content for content in found.values()), "what quotes the key is told"
    leaks = {(place, secret) for place, content in found.items() for secret in secrets if secret in content}
    assert leaks == set()


@pytest.mark.slow("a whole experiment: the one that `make test` has undisturbed")
def test_a_model_carries_an_idea_from_the_queue_to_a_reviewed_paper(spied: Spied, tmp_path: Path) -> None:
    fleet, server, run_id = spied.fleet, spied.server, spied.run_id
    run = fleet.run(run_id)
    assert (run["status"], run["error"], run["attempt"]) == ("AWAITING_HUMAN", None, 1)
    assert [each["status"] for each in run["stages"]] == ["COMPLETED"] * 8
    assert steps(server) == [
        "choose", "draft", "tune", "tune", "tune", "apply", "apply", "apply", "vary", "write",
        "review", "review", "review",
    ]  # fmt: skip

    (validation,) = run["validations"]
    scores = validation["scores"]
    assert (validation["verdict"], scores["decided_by"], scores["measured"]) == (
        "pass",
        "measurement",
        "supported",
    )
    assert scores["ci_high"] < 0, "the claim is a decrease"
    assert (len(scores["reviews"]), scores["numbers_untraced"]) == (3, [])
    assert (scores["meta_review"]["decision"], scores["meta_review"]["scores"]["overall"]) == ("accept", 6)
    assert "3 of 3 reviews accept the paper" in validation["summary"]

    (tmp_path / "paper.pdf").write_bytes(artifact(fleet, run, "paper/paper.pdf"))
    paper = " ".join(page.extract_text() for page in PdfReader(tmp_path / "paper.pdf").pages)
    for shown in (
        "Does the negative log-likelihood on digits become lower",
        f"Words: {MODEL}",
        "Supported.",
        f"{abs(scores['mean_difference']):.4f}",
    ):
        assert shown in paper.replace("\n", " ").replace("\N{ZERO WIDTH SPACE}", "")
    tree = json.loads(artifact(fleet, run, "tree.json"))
    assert [len(stage["nodes"]) for stage in tree] == [1, 2, 3, 3]
    assert {node["code"] for node in tree[0]["nodes"]} == {
        each["code"]
        for each in said(fleet, run_id, "ai.node.code_generated")
        if each["node"].startswith("Stage_1")
    }
    assert "programs run isolated by" in str(said(fleet, run_id, "ai.run.log"))

    whole = Experiment(fleet, run_id)
    must_state_what_was_said(whole)
    must_be_computed_from_single_measurements(whole)
    must_have_billed(fleet, run_id, server)
    pod = [each for each in said(fleet, run_id, "ai.run.usage") if each["purpose"] == "pod"]
    assert pod, "a priced pod says what it cost"
    assert all(each["price"] == {"pod_usd_per_hour": 3.6} for each in pod)
    for each in pod:
        assert each["cost_usd"] == pytest.approx(each["seconds"] * 3.6 / 3600, rel=1e-3)
    usage = run["usage"]
    assert usage["costUsd"] == pytest.approx(price_of(server) + sum(each["cost_usd"] for each in pod))
    assert (usage["calls"], usage["unpricedCalls"]) == (server.billed.requests, 0)
    assert server.billed.requests == len(server.asked) - 1, "what was refused costs nothing"
