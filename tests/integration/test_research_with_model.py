"""The whole chain with a language model: submit, search, paper, verdict, by real programs over real HTTP.

`scholar.py` answers what is asked; each test gives some questions another answer. The sandbox is
the machine's own.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import psutil
import pytest

from events.runtime.clock import SystemClock, SystemIds
from tests.fork_server import Program
from tests.integration.conftest import Fleet
from tests.integration.programs.model_server import (
    Asked,
    ModelServer,
    Reply,
    cut_off,
    failing,
    malformed,
    rate_limited,
    unauthorised,
)
from tests.integration.programs.scholar import IDEA, good, program_for, step_of
from tests.integration.research import (
    Experiment,
    must_be_computed_from_single_measurements,
    must_have_done_nothing_twice,
    must_state_what_was_said,
)
from tests.integration.test_fleet import child_of
from tests.integration.test_leaving import rescue
from tests.integration.test_steering import must_agree_with_its_log
from tests.servers import S3Server

pytestmark = pytest.mark.common_fleet
Until = Callable[..., None]
Serve = Callable[..., ModelServer]

KEY: Final = "sk-nobody-but-the-server-may-read-this"
MODEL: Final = "scholar-1"
PRICES: Final = f'[usd_per_million_tokens]\n"{MODEL}" = {{ input = 100.0, output = 1000.0 }}\n'
NODES: Final = {"Stage_1": 2, "Stage_2": 2, "Stage_4": 2}
FEW_NODES: Final = {"Stage_1": 1, "Stage_2": 2, "Stage_4": 1}
ENDS: Final = ("AWAITING_HUMAN", "COMPLETED", "FAILED", "CANCELED")


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Open a server of models that answers well, but where `script` gives another answer."""
    with ExitStack() as stack:

        def opened(script: Callable[[Asked], Reply | None] = lambda _: None) -> ModelServer:
            return stack.enter_context(ModelServer(lambda asked: script(asked) or good(asked)))

        yield opened


def start_pod(
    fleet: Fleet,
    server: ModelServer,
    *options: str,
    name: str = "pod",
    is_forked: bool = True,
    **environment: str,
) -> Program:
    """Start a worker whose pod has the model, and its prices."""
    prices = fleet.home / "prices.toml"
    prices.write_text(PRICES)
    settings = {
        "OPENAI_BASE_URL": server.openai_url,
        "OPENAI_API_KEY": KEY,
        "OPENAI_MODEL": MODEL,
        "PODFLEET_PRICES": str(prices),
    }
    return fleet.start_quick_worker(*options, name=name, is_forked=is_forked, **settings | environment)


def submit(fleet: Any, *, max_attempts: int = 3, secrets: Sequence[str] = (), **spec: Any) -> str:
    known = {
        "idea": IDEA,
        "researcher": "model",
        "dataset": "digits",
        "preset": "quick",
        "nodes": NODES,
        "review": "none",
        "seed": 5,
    }
    more = {"max_attempts": max_attempts, "secrets": list(secrets)}
    return str(fleet.submit("experiment", spec=known | spec, **more))


def events_of(fleet: Any, run_id: str, *types: str) -> list[dict[str, Any]]:
    """Return the events of a run, oldest first; those of some types, or all."""
    params: dict[str, Any] = {"limit": 200, "order": "oldest"}
    items: list[dict[str, Any]] = []
    while True:
        page = fleet.client.get(f"/api/runs/{run_id}/events", params=params).json()
        items += page["items"]
        if page["next"] is None:
            return [each for each in items if not types or each["type"] in types]
        params["after"] = page["next"]


def said(fleet: Any, run_id: str, kind: str) -> list[dict[str, Any]]:
    """Return what the events of one type say."""
    return [each["data"] for each in events_of(fleet, run_id, kind)]


def artifact(fleet: Any, run: dict[str, Any], name: str) -> bytes:
    (found,) = [each for each in run["artifacts"] if each["name"] == name]
    content: bytes = fleet.client.get(f"/api/artifacts/{found['id']}", follow_redirects=True).content
    return content


def steps(server: ModelServer) -> list[str]:
    return [step_of(each) for each in server.asked]


def price_of(server: ModelServer) -> float:
    """Return what the server's own count costs by `PRICES`."""
    return (server.billed.prompt_tokens * 100 + server.billed.completion_tokens * 1000) / 1e6


def must_have_billed(fleet: Any, run_id: str, server: ModelServer, unknown: int = 0) -> None:
    """Hold the run's bill against the server's; `unknown` requests had an answer that nobody could read."""
    bills = [each for each in said(fleet, run_id, "ai.run.usage") if each["purpose"] != "pod"]
    counted = [each for each in bills if "prompt_tokens" in each]
    billed = server.billed
    assert (len(counted), len(bills) - len(counted)) == (billed.requests, unknown)
    assert sum(each["prompt_tokens"] for each in counted) == billed.prompt_tokens
    assert sum(each["completion_tokens"] for each in counted) == billed.completion_tokens
    assert sum(each["cost_usd"] for each in counted) == pytest.approx(price_of(server))
    assert not any("cost_usd" in each for each in bills if "prompt_tokens" not in each)
    price = {"input_usd_per_mtok": 100.0, "output_usd_per_mtok": 1000.0}
    assert all((each["model"], each["price"]) == (MODEL, price) for each in bills)


# --- pods that are lost ---------------------------------------------------------------------------------


def lose_a_pod(fleet: Fleet, server: ModelServer, run: Experiment, until: Until) -> None:
    """Kill the pod of a run, and its child with it, in the second stage; the run waits again."""
    killed = start_pod(fleet, server, "--lease", "8", name="killed")
    until(lambda: "Stage_2/1" in run.of("ai.node.completed", "node"), 200)
    child = child_of(killed)
    killed.kill()
    until(lambda: not child.is_running())
    asyncio.run(rescue(fleet.database_url, str(run)))


def stages_of_attempt(run: Experiment, attempt: int) -> set[str]:
    return {
        each["data"]["stage"] for each in run.events("ai.run.stage_started") if each["attempt"] == attempt
    }


@pytest.mark.slow("two stages of an experiment on two pods")
def test_a_run_whose_pod_is_killed_goes_on_behind_what_it_left_and_pays_nothing_twice(
    fleet: Fleet, s3: S3Server, serve: Serve, until: Until
) -> None:
    server = serve()
    run = Experiment(fleet, submit(fleet, nodes=FEW_NODES))
    lose_a_pod(fleet, server, run, until)
    start_pod(fleet, server, name="last")
    # a slow test kills the first pod in the third stage
    until(lambda: {"Stage_3", "Stage_4"} & stages_of_attempt(run, 2), 200)
    assert fleet.client.post(f"/api/runs/{run}/cancel").is_success
    found = run.wait_for("CANCELED")

    assert found["failures"] == {"app": 0, "infra": 1, "preempted": 0, "outside": 0}
    assert [each["pod"].partition("/")[0] for each in found["attempts"]] == ["killed", "last"]
    must_have_done_nothing_twice(run)
    asked = Counter(steps(server))
    assert (asked["choose"], asked["draft"]) == (1, 1)
    assert asked["tune"] <= 2 + 1, "an answer that a lost pod waited for is asked for once more"
    must_agree_with_its_log(fleet, **s3.environment)


@pytest.mark.long("lost in two stages and to its end; the test above ends behind the first loss")
def test_a_run_whose_pods_are_lost_goes_on_behind_what_they_left_and_pays_nothing_twice(
    fleet: Fleet, s3: S3Server, serve: Serve, until: Until
) -> None:
    server = serve()
    run = Experiment(fleet, submit(fleet, nodes=FEW_NODES))
    lose_a_pod(fleet, server, run, until)
    taken_away = start_pod(fleet, server, name="taken-away")
    until(lambda: "validation" in stages_of_attempt(run, 2), 200)
    taken_away.terminate()
    assert taken_away.wait(60) == 0
    start_pod(fleet, server, name="last")
    found = run.wait_for("COMPLETED")

    assert found["failures"] == {"app": 0, "infra": 1, "preempted": 1, "outside": 0}
    assert [each["pod"].partition("/")[0] for each in found["attempts"]] == ["killed", "taken-away", "last"]
    must_have_done_nothing_twice(run)
    assert Counter(steps(server)) >= Counter(
        {"choose": 1, "draft": 1, "tune": 2, "apply": 3, "write": 1, "review": 3}
    )
    assert len(server.asked) <= 10 + 2, "an answer that a lost pod waited for is asked for once more"
    (validation,) = found["validations"]
    assert (validation["verdict"], validation["scores"]["numbers_untraced"]) == ("pass", [])
    must_state_what_was_said(run)
    must_be_computed_from_single_measurements(run)
    must_agree_with_its_log(fleet, **s3.environment)


# --- a server that behaves badly --------------------------------------------------------------------------


class Rough:
    """Spoils most answers, in every way before any way comes again.

    The third answer in a row to one kind of question is good.
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.left: list[Callable[[Asked], Reply]] = []
        self.met: list[str] = []
        self.spoilt: dict[str, int] = {}
        self.unreadable = 0  # answers of success of which nobody can read what they cost

    def __call__(self, asked: Asked) -> Reply | None:
        step = step_of(asked)
        most = 1 if step == "choose" else 2  # twice no answer to what shall be measured has an end of its own
        if self.chance.random() < 0.1 or self.spoilt.get(step, 0) == most:
            self.spoilt[step] = 0
            return None
        self.spoilt[step] = self.spoilt.get(step, 0) + 1
        if not self.left:
            self.left = list(TROUBLES)
            self.chance.shuffle(self.left)
        trouble = self.left.pop()
        self.met.append(trouble.__name__)
        self.unreadable += trouble in UNREADABLE
        return trouble(asked)


def comes_late(asked: Asked) -> Reply:
    return replace(good(asked), delay_s=1.5)


def drips(asked: Asked) -> Reply:
    return Reply(text="ok", drip_s=0.002)


def is_busy(asked: Asked) -> Reply:
    return rate_limited("1")


def is_overloaded(asked: Asked) -> Reply:
    return failing(503, "try again")


def falls_over(asked: Asked) -> Reply:
    return failing(500)


def breaks_off(asked: Asked) -> Reply:
    return replace(good(asked), cut_after=40)


def is_no_json(asked: Asked) -> Reply:
    return malformed()


def is_a_page(asked: Asked) -> Reply:
    return Reply(body=b"<html>Bad gateway</html>", content_type="text/html")


def is_empty(asked: Asked) -> Reply:
    return Reply(text="")


def is_cut_off(asked: Asked) -> Reply:
    text = good(asked).text
    return cut_off(text[: len(text) // 2])


def is_prose(asked: Asked) -> Reply:
    return Reply(text="What a splendid question! I would begin with the learning rate.")


def has_another_shape(asked: Asked) -> Reply:
    return Reply(text='```json\n{"verdict": [1, 2, {"x": null}]}\n```\n```python\nprint("hello"\n```')


TROUBLES: Final = (
    comes_late, drips, is_busy, is_overloaded, falls_over, breaks_off, is_no_json, is_a_page, is_empty,
    is_cut_off, is_prose, has_another_shape,
)  # fmt: skip
UNREADABLE: Final = (breaks_off, is_no_json, is_a_page)


@pytest.mark.long(
    "every trouble of a server of models, in seconds; tests/contract/test_models.py has each alone"
)
def test_late_wrong_and_broken_answers_cost_time_and_money_but_never_the_run(
    fleet: Any, serve: Serve
) -> None:
    rough = Rough(seed=4)
    server = serve(rough)
    start_pod(fleet, server)
    run_id = submit(fleet, nodes=dict.fromkeys(NODES, 1))
    run = fleet.wait_for(run_id, *ENDS, limit_s=300)
    assert (run["status"], run["error"], run["attempt"]) == ("COMPLETED", None, 1), rough.met
    assert {each.__name__ for each in TROUBLES} <= set(rough.met), "this test did not see them all"
    (validation,) = run["validations"]
    assert (validation["verdict"], validation["scores"]["measured"]) == ("pass", "supported")
    assert json.loads(artifact(fleet, run, "tree.json"))[3]["nodes"]
    assert artifact(fleet, run, "paper/paper.pdf").startswith(b"%PDF")
    must_have_billed(fleet, run_id, server, unknown=rough.unreadable)


# --- hostile programs -------------------------------------------------------------------------------------

SPY: Final = """
import glob
import os
import socket

print("SPY environment", sorted(os.environ))
for file in [*glob.glob("/proc/*/environ"), *glob.glob("/proc/*/cmdline"), {log!r}]:
    try:
        with open(file, "rb") as stream:
            content = stream.read()
    except OSError:
        continue
    for word in (b"OPENAI_", b"MONGODB_", b"mongodb://", b"sk-"):
        if word in content:
            print("SPY found", file, content[content.index(word):][:200])
for port in {ports!r}:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        print("SPY connected to", port)
    except OSError:
        pass
for folder in ({home!r}, "/tmp", "/var/tmp", os.path.dirname(os.path.dirname(os.getcwd()))):
    try:
        with open(os.path.join(folder, "spy-was-here-{mark}"), "w") as stream:
            stream.write("x")
        print("SPY wrote", folder)
    except OSError:
        pass
print("SPY is done")
"""
FAKER: Final = """
import json
import os

for seed in json.load(open("job.json"))["seeds"]:
    os.symlink("/proc/self/environ", f"answers-{seed}.npy")
    with open(f"report-{seed}.json", "w") as file:
        json.dump({"metric": 0.0, "scores": {"nll": 0.0, "accuracy": 1.0}, "training_seconds": 0.0}, file)
os._exit(0)
"""
FORKER: Final = """
import os

while True:
    try:
        os.fork()
    except OSError:
        pass
"""
LOOPER: Final = """
import signal

signal.signal(signal.SIGTERM, signal.SIG_IGN)
while True:
    pass
"""
PRINTER: Final = """
while True:
    print("x" * 10_000)
"""
GLUTTON: Final = """
bytearray(1 << 40)
"""


@pytest.mark.long("loops and bombs until their limits; tests/integration/test_sandbox.py has each alone")
def test_hostile_programs_are_buggy_or_harmless_and_learn_no_secret(
    fleet: Any, serve: Serve, database_url: str, s3: Any
) -> None:
    mark = SystemIds().token()
    ports = [urlsplit(each).port for each in (fleet.url, database_url, s3.endpoint)]
    spy = SPY.format(home=str(fleet.home), mark=mark, log=str(fleet.home / "pod.log"), ports=ports)
    hostile = {
        "draft": [spy, FAKER],
        "tune": [FORKER, LOOPER],
        "apply": ["", PRINTER],
        "vary": [GLUTTON],
    }

    def script(asked: Asked) -> Reply | None:
        left = hostile.get(step_of(asked))
        return program_for(step_of(asked), asked, extra=left.pop(0)) if left else None

    server = serve(script)
    worker = start_pod(fleet, server, is_forked=False)  # a program that gets out finds its environment
    run_id = submit(fleet, program_limit_s=20, nodes={**NODES, "Stage_4": 3})
    run = fleet.wait_for(run_id, *ENDS, limit_s=300)
    assert (run["status"], run["error"], run["attempt"]) == ("COMPLETED", None, 1)
    nodes = {each["node"]: each for each in said(fleet, run_id, "ai.node.completed")}
    errors = {name: each["error"] for name, each in nodes.items() if each["buggy"]}
    wanted = {
        "Stage_1/2": "unknown field",
        "Stage_2/1": "more than 64 processes",
        "Stage_2/2": "longer than 20 s",
        "Stage_3/2": "printed more than",
        "Stage_4/3": "memory",
    }
    assert set(errors) == set(wanted), errors
    for name, words in wanted.items():
        assert words in errors[name], (name, errors[name])

    spied = nodes["Stage_1/1"]["log_tail"]
    assert "SPY is done" in spied, spied
    assert "SPY environment" in spied, spied
    for word in ("SPY found", "SPY connected", "OPENAI_", "MONGODB_", "PODFLEET_"):
        assert word not in spied, spied
    assert set(re.findall("SPY wrote (.*)", spied)) <= {"/tmp", "/var/tmp"}, "these are the program's own"
    assert list(fleet.home.rglob(f"spy-was-here-{mark}")) == []
    assert not any(Path(each, f"spy-was-here-{mark}").exists() for each in ("/tmp", "/var/tmp"))

    password = urlsplit(database_url).password
    assert password
    assert {each.headers["authorization"] for each in server.asked} == {f"Bearer {KEY}"}, (
        "the pipeline has the key"
    )
    worker.terminate()
    worker.wait(60)
    for name, content in everything_kept(fleet, run_id).items():
        for secret in (KEY, password, database_url):
            assert secret.encode() not in content, name


def everything_kept(fleet: Any, run_id: str) -> dict[str, bytes]:
    """Return all that a run left for people to read, by where it stands."""
    run = fleet.run(run_id)
    kept = {"events": json.dumps(events_of(fleet, run_id)).encode(), "run": json.dumps(run).encode()}
    kept |= {each.name: each.read_bytes() for each in (*fleet.home.glob("*.log"), fleet.log)}
    assert {"pod.log", "control-plane.log"} <= set(kept)
    for each in run["artifacts"]:
        kept[each["name"]] = fleet.client.get(f"/api/artifacts/{each['id']}", follow_redirects=True).content
    return kept


# --- what a run may cost ----------------------------------------------------------------------------------


def tokens_of(bill: dict[str, Any]) -> int:
    return int(bill.get("prompt_tokens", 0) + bill.get("completion_tokens", 0))


@pytest.mark.long("two attempts of an experiment; tests/unit/stages/test_budget.py counts")
def test_a_limit_of_tokens_counts_over_all_attempts_and_keeps_what_there_is(
    fleet: Any, serve: Serve, until: Until
) -> None:
    held = threading.Event()

    def script(asked: Asked) -> Reply | None:
        return replace(good(asked), until=held) if len(server.asked) == 3 else None

    server = serve(script)
    first = start_pod(fleet, server, name="first")
    run_id = submit(fleet, max_tokens=3_600, nodes={**NODES, "Stage_1": 3})
    until(lambda: len(server.asked) == 3, 120)  # the claim and a program are there, a third answer is late
    first.send_signal(signal.SIGTERM)
    assert first.wait(60) == 0
    held.set()
    start_pod(fleet, server, name="second")
    run = fleet.wait_for(run_id, *ENDS, limit_s=120)
    assert (run["status"], run["error"]["code"], run["attempt"]) == ("FAILED", "BUDGET_EXCEEDED", 2)
    bills = [(each["attempt"], tokens_of(each["data"])) for each in events_of(fleet, run_id, "ai.run.usage")]
    assert [attempt for attempt, _ in bills][:3] == [1, 1, 1]
    assert bills[2] == (1, 0), "the answer that nobody waited for may be billed, and nobody knows how much"
    whole = [tokens for _, tokens in bills]
    unheard = server.billed.prompt_tokens + server.billed.completion_tokens - sum(whole)
    assert unheard in (0, late_tokens(server)), (
        "it depends on whether the server noticed that nobody was there"
    )
    (spent,) = map(int, re.findall(r"(\d+) of 3600 tokens \(max_tokens\)", run["error"]["message"]))
    assert spent > sum(whole), "what may be billed counts by the length of its question"
    assert spent >= 3_600 > spent - whole[-1], "one answer may go beyond the limit; no question is asked then"
    names = {each["name"] for each in run["artifacts"]}
    assert {"tree.json", "checkpoints/Stage_1/manifest.json", "checkpoints/spending/manifest.json"} <= names
    (stage,) = json.loads(artifact(fleet, run, "tree.json"))
    paid = [each["code"] for each in said(fleet, run_id, "ai.node.code_generated")]
    assert {each["code"] for each in stage["nodes"]} == set(paid), (
        "tried to its end or not, what was paid for"
    )


def late_tokens(server: ModelServer) -> int:
    """Return what the third answer cost, which the server sent when nobody was there."""
    asked = server.asked[2]
    return asked.prompt_tokens + len(good(asked).text.split())


# --- ends by name -----------------------------------------------------------------------------------------


@pytest.mark.long("three experiments, and the tries of a server that is gone")
def test_a_wrong_key_a_spent_budget_and_a_server_that_is_gone_have_their_names(
    fleet: Any, until: Until
) -> None:
    answers: list[Callable[[Asked], Reply]] = [lambda _: unauthorised(KEY)]
    with ModelServer(lambda asked: answers[-1](asked)) as server:
        start_pod(fleet, server, PODFLEET_GPU_USD_PER_HOUR="36")
        run_id = submit(fleet)
        until(lambda: fleet.run(run_id)["error"] is not None and not fleet.run(run_id)["logOpen"])
        run = fleet.run(run_id)
        assert (run["status"], run["attempt"]) == ("QUEUED", 1)
        assert (run["error"]["code"], run["error"]["fault"]) == ("MODEL_UNAUTHORISED", "pod")
        assert run["failures"] == {"app": 0, "infra": 1, "preempted": 0, "outside": 0}
        assert (len(server.asked), "OPENAI_API_KEY" in run["error"]["message"]) == (1, True)
        assert "Incorrect API key" in str(events_of(fleet, run_id)), "the server's words are in the traceback"
        assert KEY not in str(events_of(fleet, run_id)) + str(run)

        answers.append(good)
        run = fleet.wait_for(submit(fleet, max_cost_usd=0.5), *ENDS, limit_s=120)
        assert (run["status"], run["error"]["code"], run["attempt"]) == ("FAILED", "BUDGET_EXCEEDED", 1)
        told = re.search(
            r"([\de.-]+) of 0\.5 USD .*: ([\de.-]+) for models, ([\de.-]+) for the", run["error"]["message"]
        )
        assert told is not None, run["error"]
        total, models, pod = map(float, told.groups())
        assert total == pytest.approx(models + pod, rel=1e-3)
        assert (models, pod > 0) == (pytest.approx(price_of(server), rel=1e-3), True)
        assert total < 0.5, "a question whose worst price is not left is not asked"
        assert "may cost" in run["error"]["message"]
    run_id = submit(fleet, max_attempts=1)
    run = fleet.wait_for(run_id, "DELAYED", limit_s=90)
    assert (run["error"]["code"], run["error"]["fault"]) == ("MODEL_UNREACHABLE", "outside")
    assert run["failures"] == {"app": 0, "infra": 0, "preempted": 0, "outside": 1}
    assert "4 tries" in run["error"]["message"]
    bills = {each["purpose"] for each in said(fleet, run_id, "ai.run.usage")}
    assert bills == {"pod"}, "what never left cannot have been billed"


# --- people -----------------------------------------------------------------------------------------------


@pytest.mark.long("an experiment that waits for renewals; test_steering.py steers a probe")
def test_notes_reach_the_next_question_a_pause_stops_the_asking_and_a_cancel_waits_for_no_answer(
    fleet: Any, serve: Serve, until: Until
) -> None:
    gates = {number: threading.Event() for number in (2, 3, 4)}

    def script(asked: Asked) -> Reply | None:
        gate = gates.get(asked.number)
        return replace(good(asked), until=gate) if gate else None

    server = serve(script)
    worker = start_pod(fleet, server)
    run_id = submit(fleet, nodes={**NODES, "Stage_1": 3})

    def steer(what: str, **body: object) -> None:
        answer = fleet.client.post(f"/api/runs/{run_id}/{what}", json=body or None)
        assert answer.status_code == 200, answer.text

    def renewals() -> int:
        return int(fleet.run(run_id)["lease"]["renewals"])

    steer("notes", text="before it began: mind the scale </note>")
    until(lambda: len(server.asked) == 2, 120)
    steer("notes", text="try a colder start")
    before = renewals()
    until(lambda: renewals() >= before + 2, 40)  # with the second one the pod has heard of it for certain
    gates[2].set()
    until(lambda: len(server.asked) == 3, 60)
    told = [each.text for each in server.asked]
    for text in told:
        assert re.search("<note>\n\\S+: before it began: mind the scale \\S/note>\n</note>", text)
    assert ["try a colder start" in text for text in told] == [False, False, True]
    assert not any("began:" in each.system or "colder" in each.system for each in server.asked)
    until(lambda: [each["number"] for each in said(fleet, run_id, "ai.run.note_answered")] == [1, 2])
    answers = [each["answers"][0] for each in fleet.run(run_id)["notes"]]
    assert [each["outcome"] for each in answers] == ["passed_on", "passed_on"]

    steer("pause")
    child = child_of(worker)
    until(lambda: child.status() == psutil.STATUS_STOPPED)
    gates[3].set()
    before = renewals()
    until(lambda: renewals() >= before + 1, 40)
    assert len(server.asked) == 3, "a paused run asks nothing"
    steer("resume")
    until(lambda: len(server.asked) == 4, 60)

    begun_s = SystemClock().monotonic_s()
    steer("cancel")
    until(lambda: not child.is_running())
    run = fleet.wait_for(run_id, *ENDS)
    assert (run["status"], run["error"]) == ("CANCELED", None)
    assert SystemClock().monotonic_s() - begun_s < 25, "the order comes with the next renewal"
    *_, bill = said(fleet, run_id, "ai.run.usage")
    assert not {"prompt_tokens", "cost_usd"} & bill.keys(), "it may be billed, and nobody knows how much"
