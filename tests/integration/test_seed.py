"""`python -m testing.seed` leaves what a fleet would have left: whole, repeatable, nobody else's touched."""

from __future__ import annotations

from typing import Any

from control_plane.store import database as store
from control_plane.store import schema
from control_plane.store.verify.queries import VerifyReads
from control_plane.verify.verifier import Finding, Verifier
from events.lifecycle import Status
from tests.integration.seeding import EVENTS, LINES, RUNS, seed

MADE = (
    "runs", "run_specs", "events", "attempts", "stages", "artifacts", "validations", "ideas", "hypotheses",
    "ideation_requests", "pods",
)  # fmt: skip
Db = Any


def contents(db: Db) -> dict[str, list[Any]]:
    return {name: list(db[name].find().sort("_id")) for name in MADE}


async def test_the_audit_of_a_filled_store_finds_nothing(filled: tuple[str, Db]) -> None:
    url, _ = filled
    client = store.connect(url)
    try:
        db = store.database(client, url)
        await schema.verify(db)
        findings: list[Finding] = [each async for each in Verifier(VerifyReads(db)).audit(rebuilds=True)]
    finally:
        await client.close()
    assert findings == []


def test_it_is_as_large_and_as_varied_as_was_asked_for(filled: tuple[str, Db]) -> None:
    _, db = filled
    assert db.runs.count_documents({}) == RUNS
    log = db.events.count_documents({})
    assert 0.8 * EVENTS + LINES < log < 1.3 * EVENTS + LINES
    found = set(db.runs.distinct("status"))
    assert found >= set(map(str, Status)) - {"SCHEDULED", "AUTO_VALIDATING", "CANCELING", "HUMAN_REJECTED"}
    counts = db.events.aggregate([{"$group": {"_id": "$runId", "n": {"$sum": 1}}}])
    assert max(each["n"] for each in counts) > LINES
    titles = " ".join(run["title"] for run in db.runs.find({}, {"title": 1}))
    assert "<script>" in titles
    assert "\u202e" in titles
    assert db.ideas.count_documents({}) == db.ideation_requests.count_documents({}) > 0


def test_the_same_arguments_make_the_same_documents(
    filled: tuple[str, Db], database: Db, database_url: str
) -> None:
    _, db = filled
    assert seed(database_url, "--processes", "1").returncode == 0
    assert contents(database) == contents(db)


def test_again_it_changes_nothing_and_says_so(filled: tuple[str, Db]) -> None:
    url, db = filled
    before = contents(db)
    again = seed(url)
    assert (again.returncode, again.stdout.count("already")) == (0, 1)
    other = seed(url, runs=RUNS + 1)
    assert other.returncode == 2
    assert f"--runs {RUNS}" in other.stderr
    assert contents(db) == before


def test_what_was_cut_off_goes_on_and_leaves_what_others_made(database: Db, database_url: str) -> None:
    assert seed(database_url, runs=600).returncode == 0
    whole = contents(database)
    mine = {"_id": whole["runs"][0]["_id"], "made": "by hand"}
    database.seed_marks.delete_one({"chunk": 1})
    gone = [run["_id"] for run in whole["runs"][-50:]]
    database.runs.delete_many({"_id": {"$in": gone}})
    database.events.delete_many({"runId": {"$in": gone}})
    database.runs.replace_one({"_id": mine["_id"]}, mine)
    again = seed(database_url, runs=600)
    assert again.returncode == 0, again.stderr
    assert "1 of 2 chunks" in again.stdout
    found = contents(database)
    assert found["runs"][0] == mine
    found["runs"][0] = whole["runs"][0]
    assert found == whole


def test_a_store_that_cannot_be_is_refused() -> None:
    assert seed("").returncode == 2
    assert seed("mongodb://127.0.0.1:1/x?serverSelectionTimeoutMS=100", "--runs", "0").returncode == 2
    gone = seed("mongodb://127.0.0.1:1/x?serverSelectionTimeoutMS=100")
    assert gone.returncode == 1
    assert "run it again" in gone.stderr
