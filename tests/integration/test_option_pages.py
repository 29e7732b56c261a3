"""The pages that fill in the options of runs, in process: like this one, what is typed, and a waiting run."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from html import unescape
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest

from podfleet import parameters

FORM = {"content-type": "application/x-www-form-urlencoded"}
OPTIONS: dict[str, Any] = {
    "priority": 7,
    "requires": {"gpu_gib": 16, "region": "eu"},
    "labels": {"team": "vision", "a.b": "x=y"},
    "max_attempts": 9,
    "queue_limit_s": 600,
}
SPEC = {"seconds": 2.5, "end": "exception"}


async def made(asking: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    answer = await asking.post("/api/runs", json={"kind": "probe", "spec": SPEC, **OPTIONS, **body})
    assert answer.status_code == 201
    found: dict[str, Any] = answer.json()
    return found


def typed_in(html: str) -> dict[str, str]:
    """Return what the form of a page would send, as a browser reads it."""
    (form,) = re.findall(r"<form [^>]*(?:stack panel|data-keep).*?</form>", html, re.DOTALL)
    found = dict(re.findall(r'<input(?! type="checkbox")[^>]*? name="([^"]+)"[^>]*? value="([^"]*)"', form))
    areas = r'<textarea[^>]* name="([^"]+)"[^>]*>\n(.*?)</textarea>'
    found |= dict(re.findall(areas, form, re.DOTALL))
    for name, options in re.findall(r'<select[^>]* name="([^"]+)"[^>]*>(.*?)</select>', form, re.DOTALL):
        chosen = re.findall(r'<option(?: value="([^"]*)")? selected>([^<]*)</option>', options)
        found[name] = (chosen[0][0] or chosen[0][1]) if chosen else ""
    return {name: unescape(text) for name, text in found.items()}


async def sent(asking: httpx.AsyncClient, path: str, typed: Mapping[str, str]) -> httpx.Response:
    return await asking.post(path, content=urlencode(typed), headers=FORM)


async def test_a_form_like_a_run_makes_a_run_like_it(asking: httpx.AsyncClient) -> None:
    run = await made(asking)
    assert f'href="/runs/new?like={run["id"]}"' in (await asking.get(f"/runs/{run['id']}")).text
    typed = typed_in((await asking.get(f"/runs/new?like={run['id']}")).text)
    answer = await sent(asking, "/runs/new", {**typed, "do": "submit"})
    assert answer.status_code == 303, answer.text
    twin = (await asking.get(f"/api{answer.headers['location']}")).json()
    names = ("kind", "spec", "requires", "priority", "labels", "maxAttempts", "queueLimitS", "classKey")
    assert {name: twin[name] for name in names} == {name: run[name] for name in names}
    assert (twin["id"] != run["id"], twin["parentRunId"]) == (True, None)
    unknown = await asking.get("/runs/new?like=nobody", headers={"accept": "text/html"})
    assert unknown.status_code == 404


async def test_a_form_says_where_it_may_run_and_which_commands_do_the_same(
    deps: Any, asking: httpx.AsyncClient
) -> None:
    html = (await asking.get("/runs/new?kind=probe")).text
    assert "no pod is live" in html
    assert "not known: no run of this kind came to its end lately" in html
    now = deps.clock.now()
    pod = {"state": "idle", "reportedAt": now, "startedAt": now, "kinds": ["probe"], "region": "eu"}
    pod["capabilities"] = {"cpus": 1, "memoryMib": 1.0, "gpus": [{"name": "g", "memoryMib": 24_000.0}]}
    await deps.db.pods.insert_one({"_id": "p/1", **pod})
    await deps.db.pods.insert_one({"_id": "q/1", **pod, "state": "busy"})
    asked = {"kind": "probe", "at": "requires.gpu_gib", "requires.gpu_gib": "16"}
    found = (await asking.get("/runs/new/look", params=asked)).json()
    assert (found["problem"], found["where"]) == ("", "2 live pods serve it, 1 could take it now")
    far = (await asking.get("/runs/new/look", params={**asked, "requires.region": "us"})).json()
    assert "none of 2 live pods serves probe/16/us" in far["where"]
    wrong = (await asking.get("/runs/new/look", params={**asked, "requires.gpu_gib": "lots"})).json()
    assert (wrong["problem"], wrong["where"], wrong["commands"]) == ("a number", "", None)
    part = (await asking.get("/runs/new/look", params={**asked, "part": "1"})).json()
    assert part["commands"] is None


async def test_the_commands_of_a_form_queue_what_it_says(asking: httpx.AsyncClient) -> None:
    run = await made(asking)
    typed = typed_in((await asking.get(f"/runs/new?like={run['id']}")).text)
    found = (await asking.get("/runs/new/look", params=typed)).json()["commands"]
    curl = shlex.split(found["curl"])
    again = await asking.post("/api/runs", json=json.loads(curl[curl.index("-d") + 1]))
    words = shlex.split(found["cli"])
    assert words[:4] == ["podfleet", "submit", "--kind", "probe"]
    given = [*zip(words[4::2], words[5::2], strict=True)]
    spec = parameters.spec(None, [value for option, value in given if option == "-p"])
    requires = parameters.spec(None, [value for option, value in given if option == "--requires"])
    labels = parameters.labels([value for option, value in given if option == "--label"])
    assert (spec, requires, labels) == (SPEC, OPTIONS["requires"], OPTIONS["labels"])
    assert {("--priority", "7"), ("--max-attempts", "9"), ("--queue-limit", "600")} <= {*given}
    assert again.json()["spec"] == run["spec"]
    assert again.json()["labels"] == run["labels"]


@pytest.mark.parametrize(
    "query",
    [
        "",
        "kind=nonsense",
        "kind=probe&at=" + "x" * 5_000,
        "kind=probe&at=%00&spec.seconds=%00",
        "kind=probe&at=spec.seconds&spec.seconds=" + "9" * 4_000,
        "kind=probe&at=requires.region&requires.region=%FF%FE",
        "kind=probe&at=labels&labels=" + "%0A".join(f"l{number}=x" for number in range(500)),
    ],
)
async def test_a_hostile_question_is_answered_in_words(asking: httpx.AsyncClient, query: str) -> None:
    answer = await asking.get(f"/runs/new/look?{query}")
    assert answer.status_code in (200, 422), answer.text
    assert "Traceback" not in answer.text


async def test_a_waiting_run_is_changed_by_its_form_if_it_is_as_it_was_shown(
    asking: httpx.AsyncClient,
) -> None:
    run = await made(asking)
    path = f"/runs/{run['id']}/change"
    assert f'href="{path}"' in (await asking.get(f"/runs/{run['id']}")).text
    typed = typed_in((await asking.get(path)).text)
    assert typed["labels"].split("\n") == ["a.b=x=y", "team=vision"]
    same = await sent(asking, path, typed)
    assert (same.status_code, same.headers["location"]) == (303, f"/runs/{run['id']}")
    assert (await asking.get(f"/api/runs/{run['id']}")).json()["revision"] <= run["revision"] + 1
    typed = typed_in((await asking.get(path)).text)
    other = {**typed, "priority": "", "requires.gpu_gib": "40", "labels": "team=text\nnew=1"}
    assert (await sent(asking, path, other)).status_code == 303
    found = (await asking.get(f"/api/runs/{run['id']}")).json()
    assert (found["priority"], found["classKey"]) == (0, "probe/40/eu")
    assert found["labels"] == {"team": "text", "new": "1"}
    stale = await sent(asking, path, {**other, "priority": "1"})
    assert (stale.status_code, "look again" in stale.text) == (412, True)
    for wrong in ({"seen": ""}, {"requires.gpu_gib": "-1"}, {"priority": "1e9"}, {"labels": "schedule=x"}):
        typed = typed_in((await asking.get(path)).text)
        refused = await sent(asking, path, {**typed, **wrong})
        assert (refused.status_code, "not valid" in refused.text) == (422, True), wrong
    await asking.post(f"/api/runs/{run['id']}/cancel")
    assert (await asking.get(path)).status_code == 409
    late = await sent(asking, path, typed)
    assert (late.status_code, "CANCELED" in late.text) == (409, True)
    assert path not in (await asking.get(f"/runs/{run['id']}")).text
    assert (await asking.get("/runs/nobody/change")).status_code == 404


TYPED = {
    "priority": "7",
    "requires.gpu_gib": "16",
    "requires.region": "eu",
    "labels": "team=vision\r\na.b=x=y",
    "max_attempts": "9",
    "queue_limit_s": "600",
}
IDEA = {"title": "t", "idea": "Dropout improves accuracy on iris"}


async def confirmed(asking: httpx.AsyncClient, path: str, typed: Mapping[str, str]) -> httpx.Response:
    """Send a form, and once more with what it would measure."""
    shown = await sent(asking, path, typed)
    assert shown.status_code == 200, shown.text
    again = typed_in(shown.text)
    assert {**again, **{name: text.replace("\r\n", "\n") for name, text in typed.items()}} == again
    return await sent(asking, path, again)


def must_have_the_options(run: Mapping[str, Any]) -> None:
    names = {"max_attempts": "maxAttempts", "queue_limit_s": "queueLimitS", "labels": ""}
    for name, value in OPTIONS.items():
        if name != "labels":
            assert run[names.get(name, name)] == value
    assert run["labels"].items() >= OPTIONS["labels"].items()


async def test_the_forms_of_hypotheses_have_the_options_of_what_they_queue(
    asking: httpx.AsyncClient,
) -> None:
    made = await confirmed(asking, "/hypotheses", {**IDEA, **TYPED})
    hypothesis = (await asking.get(f"/api{made.headers['location']}")).json()
    launched = await confirmed(asking, f"{made.headers['location']}/runs", TYPED)
    asked = await sent(asking, "/hypotheses", {**IDEA, **TYPED, "enable_ideation": "on"})
    request = (await asking.get(f"/api{asked.headers['location']}")).json()["ideation"]["requestId"]
    ids = [each["id"] for each in hypothesis["runs"]]
    for run_id in (*ids, launched.headers["location"].rpartition("/")[2], request):
        must_have_the_options((await asking.get(f"/api/runs/{run_id}")).json())
    for path in ("/hypotheses", f"{made.headers['location']}/runs"):
        wrong = await sent(asking, path, {**IDEA, **TYPED, "requires.gpu_gib": "lots", "labels": "x"})
        assert (wrong.status_code, wrong.text.count('aria-invalid="true"')) == (422, 2)


async def test_the_forms_of_schedules_have_the_options_of_their_runs(asking: httpx.AsyncClient) -> None:
    typed = {"id": "nightly", "cron": "@daily", "kind": "probe", "spec": json.dumps(SPEC), **TYPED}
    wrong = await sent(asking, "/schedules", {**typed, "max_attempts": "0", "requires.region": "/"})
    assert (wrong.status_code, "at least 1" in wrong.text) == (422, True)
    assert typed_in(wrong.text)["requires.region"] == "/", "what was typed stays"
    assert (await sent(asking, "/schedules", typed)).status_code == 303
    must_have_the_options((await asking.get("/api/schedules/nightly")).json()["run"])
    shown = typed_in((await asking.get("/schedules/nightly/edit")).text)
    saved = await sent(asking, "/schedules/nightly", {**shown, "do": "save", "requires.gpu_gib": "40"})
    assert saved.status_code == 303, saved.text
    run = (await asking.get("/api/schedules/nightly")).json()["run"]
    assert run["requires"] == {"gpu_gib": 40, "region": "eu"}
    must_have_the_options({**run, "requires": OPTIONS["requires"]})


async def named(asking: httpx.AsyncClient, run_id: str) -> Any:
    return (await asking.get(f"/api/runs/{run_id}")).json().get("secrets", [])


async def stored_secrets(deps: Any, *names: str, keys: tuple[str, ...] = ()) -> None:
    await deps.db.secrets.insert_many([{"_id": each, "kinds": [], "keys": [*keys]} for each in names])


async def test_the_forms_that_queue_runs_name_secrets(deps: Any, asking: httpx.AsyncClient) -> None:
    await stored_secrets(deps, "ONE", "TWO")
    await stored_secrets(deps, "HIDDEN", keys=("somebody",))
    typed = {"kind": "probe", "do": "submit", "secrets": " TWO\r\n\r\nONE "}
    made = await sent(asking, "/runs/new", typed)
    run_id = made.headers["location"].rpartition("/")[2]
    assert await named(asking, run_id) == ["ONE", "TWO"]
    like = typed_in((await asking.get(f"/runs/new?like={run_id}")).text)
    assert like["secrets"].split("\n") == ["ONE", "TWO"]
    twin = await sent(asking, "/runs/new", {**like, "do": "submit"})
    assert await named(asking, twin.headers["location"].rpartition("/")[2]) == ["ONE", "TWO"]
    look = (await asking.get("/runs/new/look", params={**like, "at": "secrets"})).json()
    assert "--secret ONE --secret TWO" in look["commands"]["cli"]
    proposed = await confirmed(asking, "/hypotheses", {**IDEA, "secrets": "ONE"})
    place = proposed.headers["location"]
    (first,) = (await asking.get(f"/api{place}")).json()["runs"]
    launched = await confirmed(asking, f"{place}/runs", {"secrets": "TWO"})
    assert await named(asking, first["id"]) == ["ONE"]
    assert await named(asking, launched.headers["location"].rpartition("/")[2]) == ["TWO"]
    schedule = {"id": "nightly", "cron": "@daily", "kind": "probe", "do": "add", "secrets": "ONE"}
    assert (await sent(asking, "/schedules", schedule)).status_code == 303
    shown = typed_in((await asking.get("/schedules/nightly/edit")).text)
    assert shown["secrets"] == "ONE"

    async def stored() -> Any:
        return (await asking.get("/api/schedules/nightly")).json()["run"].get("secrets", [])

    for path, form in (
        ("/runs/new", typed),
        ("/schedules", {**schedule, "id": "another"}),
        ("/schedules/nightly", {**shown, "do": "save"}),
        ("/hypotheses", {**IDEA, "confirmed": ""}),
        (f"{place}/runs", {}),
    ):
        for names, status, words in (
            ("HIDDEN", 403, "this key may not name the secret HIDDEN"),
            ("NOBODYS", 422, "there is no secret NOBODYS"),
            ("ONE\nLD_PRELOAD", 422, "LD_PRELOAD is a variable that a secret may not set"),
            ("ONE TWO", 422, "a name has letters"),
            ("\n".join(f"A{number}" for number in range(33)), 422, "at most 32 names"),
        ):
            if path != "/runs/new" and names not in ("HIDDEN", "ONE\nLD_PRELOAD"):
                continue  # all forms have the same field
            answer = await sent(asking, path, {**form, "secrets": names})
            if answer.status_code == 200:  # what it would measure is asked first
                answer = await sent(asking, path, typed_in(answer.text))
            assert (answer.status_code, words in answer.text) == (status, True), (path, names, answer.text)
            assert typed_in(answer.text)["secrets"] == names, "what was typed stays"
    assert await stored() == ["ONE"]
    assert (
        await sent(asking, "/schedules/nightly", {**shown, "do": "save", "secrets": ""})
    ).status_code == 303
    assert await stored() == []


async def test_a_retry_takes_other_options_from_its_folded_form(deps: Any, asking: httpx.AsyncClient) -> None:
    await stored_secrets(deps, "ONE")
    run = await made(asking, secrets=["ONE"])
    await asking.post(f"/api/runs/{run['id']}/cancel")
    path = f"/runs/{run['id']}/retry"
    page = (await asking.get(f"/runs/{run['id']}")).text
    assert 'name="secrets"' not in page
    (form,) = re.findall(rf'<form [^>]*action="{path}".*?</form>', page, re.DOTALL)
    typed = typed_in(form)

    async def again(**others: str) -> dict[str, Any]:
        answer = await sent(asking, path, {**typed, **others})
        assert answer.status_code == 303, answer.text
        found: dict[str, Any] = (await asking.get(f"/api{answer.headers['location']}")).json()
        return found

    same = await again()
    must_have_the_options(same)
    assert (same["secrets"], same["parentRunId"]) == (["ONE"], run["id"])
    assert (await again())["id"] == same["id"], "one page makes one run of a choice"
    other = await again(**{"requires.gpu_gib": "", "priority": "", "labels": "new=1\r\nteam=text"})
    assert (other["classKey"], other["priority"]) == ("probe/cpu/eu", 0)
    assert other["labels"] == {"team": "text", "new": "1"}
    assert (other["maxAttempts"], other["secrets"]) == (9, ["ONE"])
    late = await again(not_before="2100-01-01T00:00:00Z", max_attempts="2", queue_limit_s="60")
    assert (late["status"], late["maxAttempts"], late["queueLimitS"]) == ("DELAYED", 2, 60)
    for wrong in ({"requires.gpu_gib": "lots"}, {"priority": "101"}, {"labels": "x"}, {"from_stage": "none"}):
        refused = await sent(asking, path, {**typed, **wrong})
        assert (refused.status_code, "not valid" in refused.text) == (422, True), wrong
        kept = {**typed_in(refused.text), **wrong} if "from_stage" in wrong else typed_in(refused.text)
        assert {**typed, **wrong}.items() <= kept.items() | {("from_stage", "")}
    bare = await sent(asking, path, {"from_stage": ""})
    must_have_the_options((await asking.get(f"/api{bare.headers['location']}")).json())


async def test_many_waiting_runs_are_changed_from_the_list(asking: httpx.AsyncClient) -> None:
    first, second = await made(asking), await made(asking)
    assert 'value="change">Change' in (await asking.get("/runs")).text
    page = await asking.get("/runs/bulk", params={"action": "change", "ids": [first["id"], second["id"]]})
    assert (page.status_code, 'name="requires.region"' in page.text) == (200, True)
    order = {"action": "change", "ids": [first["id"], second["id"]], "name": "n", "asked_at": ""}

    async def acted(**typed: str) -> httpx.Response:
        body = urlencode({**order, **typed}, doseq=True)
        return await asking.post("/runs/bulk", content=body, headers=FORM)

    for wrong in ({}, {"requires.gpu_gib": "lots"}, {"labels": "x"}):
        refused = await acted(**wrong)
        assert (refused.status_code, 'aria-invalid="true"' in refused.text) == (422, True)
    answer = await acted(**{"requires.region": "us", "labels": "new=1"})
    assert (answer.status_code, "2 changed" in answer.text) == (200, True)
    for each in (first, second):
        run = (await asking.get(f"/api/runs/{each['id']}")).json()
        assert (run["classKey"], run["priority"], run["labels"]["new"]) == ("probe/cpu/us", 7, "1")
        await asking.post(f"/api/runs/{each['id']}/cancel")
    again = await asking.post(
        "/runs/bulk",
        content=urlencode({**order, "action": "retry", "priority": "9"}, doseq=True),
        headers=FORM,
    )
    twins = re.findall(r'queued again as <a href="/runs/([^"]+)"', again.text)
    assert [(await asking.get(f"/api/runs/{each}")).json()["priority"] for each in twins] == [9, 9]
