"""`podfleet submit`, `runs` and `events` against a real fleet, as a shell or a person runs them."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from events.catalog import RunCompleted, RunLog, RunStarted
from events.queue.settlement import End
from podfleet.commands.catalogue import kind_help
from tests.fork_server import run_program
from tests.integration.command_line import on_terminal, podfleet, seen, started, within

ROOT = Path(__file__).resolve().parents[2]
TOLD = (("kinds", "show", "probe"), ("submit", "--kind", "experiment", "--help"))

pytestmark = pytest.mark.common_fleet


def test_a_run_is_submitted_watched_to_its_failure_and_looked_at(fleet: Any) -> None:
    fleet.start_worker(name="w1")
    order = (
        "submit",
        "--kind",
        "probe",
        "-p",
        "seconds=0.5",
        "-p",
        "end=exception",
        "--label",
        "team=vision",
    )
    watched = podfleet(fleet.url, *order, "--watch", "--exit-status")
    run_id, *lines = watched.stdout.splitlines()
    assert (watched.returncode, fleet.run(run_id)["status"]) == (1, "FAILED"), watched.stderr
    assert lines[-1].startswith(f"{run_id} FAILED after ")
    assert lines[-1].endswith("– ValueError: the probe was asked to fail")
    assert all(line.startswith(run_id) for line in lines)
    assert fleet.run(run_id)["labels"] == {"team": "vision"}

    again = podfleet(fleet.url, "runs", "watch", "@latest")
    assert (again.returncode, again.stdout.splitlines()) == (0, lines[-1:])
    assert podfleet(fleet.url, "runs", "watch", run_id.lower(), "--exit-status").returncode == 1

    shown = within(fleet.url, "runs", "show", "@latest").stdout
    assert "status\tFAILED" in shown
    assert f"next\t`podfleet runs logs {run_id}`" in shown

    retried = within(fleet.url, "runs", "retry", run_id[:-1])
    assert retried.returncode == 0, retried.stderr
    assert fleet.run(retried.stdout.strip())["parentRunId"] == run_id


def test_the_program_of_the_docs_runs_as_it_stands(fleet: Any) -> None:
    program = (ROOT / "docs/python.md").read_text().split("```python\n")[1].split("```")[0]
    fleet.start_worker(name="w1")
    done = run_program(["-c", program], env=seen(fleet.url, {}), cwd=ROOT, limit_s=90)
    *changes, artifact, refusal = done.stdout.splitlines()
    assert changes[-1].startswith("COMPLETED "), done.stderr
    assert (artifact.split()[0], refusal.split()[:2]) == ("probe.bin", ["409", "illegal_transition"])


def test_what_a_pipeline_sums_up_is_shown(fleet: Any, by_hand: Any) -> None:
    run_id = fleet.submit()
    hand = by_hand("runs", "probe/cpu/any")
    hand.say(RunStarted(), RunCompleted(summary="17 of <18> held"))
    hand.settle(End("completed", message="17 of <18> held"))
    assert '<p class="lead">17 of &lt;18&gt; held</p>' in fleet.client.get(f"/runs/{run_id}").text
    assert "summary\t17 of <18> held" in within(fleet.url, "runs", "show", run_id).stdout


def test_a_pipe_gets_rows_of_tabs_and_a_terminal_a_table(fleet: Any) -> None:
    first = fleet.submit(spec={"seconds": 1}, labels={"n": "1"})
    second = fleet.submit(priority=5)
    piped = podfleet(fleet.url, "runs", "list")
    header, *rows = [line.split("\t") for line in piped.stdout.splitlines()]
    assert header[:3] == ["ID", "STATUS", "KIND"]
    assert [row[:3] for row in rows] == [[second, "QUEUED", "probe"], [first, "QUEUED", "probe"]]
    assert {len(row) for row in rows} == {len(header)}
    assert "\x1b" not in piped.stdout

    status, seen = on_terminal(fleet.url, "runs", "list")
    assert (status, "\x1b[" in seen) == (0, True)
    assert "○ QUEUED" in seen
    assert "\x1b[1m" not in on_terminal(fleet.url, "runs", "list", NO_COLOR="1", TERM="dumb")[1]

    assert within(fleet.url, "runs", "list", "--ids", "-l", "n=1").stdout == f"{first}\n"
    listed = json.loads(within(fleet.url, "runs", "list", "--status", "queued", "-n", "1", "--json").stdout)
    assert [(each["id"], each["priority"]) for each in listed] == [(second, 5)]
    assert within(fleet.url, "runs", "list", "--status", "failed").stdout.splitlines() == ["\t".join(header)]
    assert within(fleet.url, "runs", "list", "--ids", "--region", "eu").stdout == ""
    slip = within(fleet.url, "runs", "list", "-l", "n")
    assert (slip.returncode, "name=value" in slip.stderr) == (2, True)
    wrong = within(fleet.url, "runs", "list", "--status", "broken")
    assert (wrong.returncode, "known: DELAYED, QUEUED" in wrong.stderr) == (2, True)


def test_a_hypothesis_says_what_it_would_measure_and_is_not_created(fleet: Any) -> None:
    new = ("hypotheses", "new", "t", "--dry-run", "--idea")
    fine = podfleet(fleet.url, *new, "Dropout improves accuracy on iris")
    assert fine.returncode == 0, fine.stderr
    assert "With dropout, the accuracy on iris becomes higher." in fine.stdout
    assert "nothing was queued" in fine.stderr
    unread = podfleet(fleet.url, *new, "Lookahead with Adam improves accuracy")
    assert (unread.returncode, "“lookahead”" in unread.stderr) == (2, True), unread.stderr
    assert within(fleet.url, *new, "Dropout helps", "--ideation").returncode == 2
    assert fleet.client.get("/api/hypotheses").json()["items"] == []
    assert fleet.client.get("/api/runs").json()["items"] == []


def test_an_estimate_is_printed_and_queues_nothing(fleet: Any) -> None:
    benchmark = ("submit", "--kind", "benchmark", "-p", "model=m", "-p", "suites=gsm8k,aime", "--estimate")
    said = podfleet(fleet.url, *benchmark, "-p", "subset_pct=10", "-p", "max_cost_usd=1")
    assert said.returncode == 0, said.stderr
    assert re.search(r"items\s+138\b", said.stdout), "132 of the one, 6 of the other"
    assert re.search(r"budget\s+\$1\.00", said.stdout)
    assert "no run has asked it yet" in said.stdout
    assert "nothing was queued" in said.stderr
    told = json.loads(podfleet(fleet.url, *benchmark, "--json").stdout)
    assert [each["items"] for each in told["parts"]] == [1319, 60]
    probe = podfleet(fleet.url, "submit", "--kind", "probe", "--estimate")
    assert (probe.returncode, "no run came to its end lately" in probe.stdout) == (0, True)
    assert fleet.client.get("/api/runs").json()["items"] == []


def test_a_dry_run_checks_by_the_same_rules_and_queues_nothing(fleet: Any, tmp_path: Any) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text("idea: Dropout helps\nmax_cost_usd: 1e-1\nnodes:\n  Stage_1: 2\n")
    fine = podfleet(
        fleet.url,
        "submit",
        "--kind",
        "experiment",
        "-f",
        str(file),
        "-p",
        "nodes.Stage_2=3",
        "--dry-run",
        "--json",
    )
    assert fine.returncode == 0, fine.stderr
    checked = json.loads(fine.stdout)
    assert checked["spec"]["nodes"] == {"Stage_1": 2, "Stage_2": 3}
    assert (checked["spec"]["max_cost_usd"], checked["classKey"]) == (0.1, "experiment/cpu/any")
    assert checked["spec"]["preset"] == "standard", "defaults are told"
    wrong = within(fleet.url, "submit", "--kind", "probe", "-p", "secondz=3", "--dry-run")
    assert (wrong.returncode, "secondz" in wrong.stderr) == (2, True)
    assert within(fleet.url, "submit", "--kind", "nonsense").returncode == 2
    file.write_text("idea: [1,\n")
    garbled = within(fleet.url, "submit", "--kind", "experiment", "-f", str(file))
    assert (garbled.returncode, f"{file}: line 2" in garbled.stderr) == (2, True), garbled.stderr
    assert fleet.client.get("/api/runs").json()["items"] == []


def test_kinds_are_told_by_the_control_plane_where_they_are_not_installed(
    fleet: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    header, *rows = [line.split("\t") for line in within(fleet.url, "kinds", "list").stdout.splitlines()]
    assert header[:3] == ["KIND", "PODS", "OPEN"]
    assert {row[0]: row[1:3] for row in rows} == {
        "benchmark": ["0", "true"],
        "compute": ["0", "true"],
        "experiment": ["0", "true"],
        "ideation": ["0", "false"],
        "image": ["0", "true"],
        "probe": ["0", "true"],
        "prompt": ["0", "true"],
        "job": ["0", "true"],
        "trial": ["0", "true"],
    }
    here = [within(fleet.url, *words).stdout for words in TOLD]
    monkeypatch.setattr(kind_help, "KINDS", {})
    monkeypatch.setattr(kind_help, "RUN_KINDS", frozenset())
    assert [within(fleet.url, *words).stdout for words in TOLD] == here
    unknown = within(fleet.url, "kinds", "show", "nonsense")
    assert (unknown.returncode, "known kinds: benchmark" in unknown.stderr) == (1, True)
    refused = within(fleet.url, "submit", "--kind", "probe", "-p", "seconds=x")
    assert (refused.returncode, refused.stderr) == (
        2,
        "422: spec: Expected `float`, got `str` - at `$.seconds`\n",
    )


def test_the_same_idempotency_key_is_the_same_run(fleet: Any) -> None:
    order = ("submit", "--kind", "probe", "--idempotency-key", "k1", "-p")
    first = within(fleet.url, *order, "seconds=1")
    assert within(fleet.url, *order, "seconds=1").stdout == first.stdout
    other = within(fleet.url, *order, "seconds=2")
    assert (other.returncode, other.stdout) == (1, "")
    assert "take a new key" in other.stderr


def test_ids_that_nobody_has_or_several_share_say_what_there_is(fleet: Any) -> None:
    assert within(fleet.url, "runs", "show", "@latest").stderr.startswith("there is no run yet")
    ids = [fleet.submit() for _ in range(2)]
    shared = ids[0][:3]  # of a year: six letters are those of a thousand seconds, which may end between both
    assert "why: no pod" in within(fleet.url, "runs", "show", ids[0]).stdout
    several = within(fleet.url, "runs", "show", shared)
    assert (several.returncode, several.stdout) == (1, "")
    assert all(run_id in several.stderr for run_id in ids)
    unknown = within(fleet.url, "runs", "cancel", "7ZZZZ")
    assert (unknown.returncode, "`podfleet runs list`" in unknown.stderr) == (1, True)
    assert "`podfleet runs list`" in within(fleet.url, "runs", "show", "7" * 26).stderr
    assert within(fleet.url, "runs", "show", "../../healthz").returncode == 2
    canceled = within(fleet.url, "runs", "cancel", *ids)
    assert canceled.stdout.splitlines() == [f"{run_id} CANCELED" for run_id in ids]
    late = within(fleet.url, "runs", "pause", ids[0])
    assert (late.returncode, "409" in late.stderr) == (1, True)


def test_a_control_plane_that_is_not_there_is_said_to_be_so() -> None:
    for command in (("runs", "list"), ("runs", "watch", "@latest"), ("submit", "--kind", "probe")):
        nobody = podfleet("http://127.0.0.1:1", *command)
        assert (nobody.returncode, nobody.stdout) == (3, "")
        assert "podfleet up" in nobody.stderr
        assert "Traceback" not in nobody.stderr


def test_ctrl_c_leaves_the_watched_run_alone(fleet: Any, until: Any) -> None:
    fleet.start_worker(name="w1")
    run_id = fleet.submit(spec={"seconds": 600})
    with started(fleet.url, "runs", "watch", run_id) as watching:
        assert watching.stdout is not None
        while "RUNNING" not in watching.stdout.readline():
            assert watching.poll() is None
        watching.send_signal(signal.SIGINT)
        _, errors = watching.communicate(timeout=60)
    assert (watching.returncode, f"podfleet runs cancel {run_id}" in errors) == (130, True)
    assert "Traceback" not in errors
    assert fleet.run(run_id)["status"] == "RUNNING"
    assert within(fleet.url, "runs", "note", run_id, "go easy").returncode == 0
    assert within(fleet.url, "runs", "pause", run_id).stdout == f"{run_id} RUNNING (paused)\n"
    assert within(fleet.url, "runs", "resume", run_id).stdout == f"{run_id} RUNNING\n"
    assert [note["text"] for note in fleet.run(run_id)["notes"]] == ["go easy"]
    assert within(fleet.url, "runs", "cancel", run_id).returncode == 0


def test_a_log_is_followed_without_gap_or_repetition_and_steers_no_terminal(
    fleet: Any, by_hand: Any, until: Any
) -> None:
    run_id = fleet.submit()
    hand = by_hand("runs", "probe/cpu/any")
    hand.say(RunStarted(), *(RunLog(level="info", message=f"line {n}") for n in range(250)))
    hostile = "\x1b]0;owned\x07\x1b[31m[red]line 250[/red]\r\n\ttail\u202e"
    with started(fleet.url, "events", "tail", run_id, "--type", "run.log", "-f", "-n", "240") as tail:
        assert tail.stdout is not None
        seen = [tail.stdout.readline() for _ in range(240)]
        hand.say(
            RunLog(level="error", message=hostile), *(RunLog(message=f"line {n}") for n in range(251, 300))
        )
        seen += [tail.stdout.readline() for _ in range(50)]
        tail.send_signal(signal.SIGINT)
        assert tail.wait(60) == 130
    assert [line.split("\t")[-1].strip() for line in seen] == [
        f"line {n}" if n != 250 else "[red]line 250[/red]   tail" for n in range(10, 300)
    ]

    errors = within(fleet.url, "runs", "logs", run_id, "--level", "error")
    assert [line.split("\t")[1:] for line in errors.stdout.splitlines()] == [
        ["error", "[red]line 250[/red]   tail "]
    ]
    assert len(within(fleet.url, "runs", "logs", run_id).stdout.splitlines()) == 300
    status, screen = on_terminal(fleet.url, "runs", "logs", run_id, "--level", "error")
    assert (status, "[red]line 250[/red]" in screen) == (0, True)
    assert "\x1b]0" not in screen
    told = json.loads(
        within(fleet.url, "events", "tail", run_id, "-n", "50", "--json").stdout.splitlines()[0]
    )
    assert told["data"]["message"] == hostile
    slip = within(fleet.url, "events", "tail", run_id, "--type", "run.lgo")
    assert (slip.stdout, "known: " in slip.stderr) == ("", True)
    wrong = within(fleet.url, "runs", "logs", run_id, "--level", "loud")
    assert (wrong.returncode, "debug, info, warn, error" in wrong.stderr) == (2, True)
