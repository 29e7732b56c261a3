"""The MongoDB role for pods that the documents give: it suffices, and allows nothing that no pod needs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from pymongo import MongoClient
from pymongo.database import Database
from pymongo.errors import OperationFailure
from pymongo.uri_parser import parse_uri

from events.runtime.clock import SystemIds

DENIED: Final = 13
Db = Database[dict[str, Any]]

FORBIDDEN: Final[dict[str, Callable[[Db], object]]] = {
    "add a run": lambda db: db.runs.insert_one({"_id": "x"}),
    "add a run by an upsert": lambda db: db.runs.update_one({"_id": "x"}, {"$set": {"a": 1}}, upsert=True),
    "remove a run": lambda db: db.runs.delete_one({}),
    "change a specification": lambda db: db.run_specs.update_one({}, {"$set": {"spec": {}}}),
    "read keys": lambda db: db.api_keys.find_one(),
    "make a key": lambda db: db.api_keys.insert_one({"_id": "x"}),
    "read sessions": lambda db: db.sessions.find_one(),
    "read the audit log": lambda db: db.audit.find_one(),
    "write the log": lambda db: db.events.insert_one({"_id": "x"}),
    "read the log": lambda db: db.events.find_one(),
    "reach another collection from one that it may read": lambda db: list(
        db.runs.aggregate([{"$lookup": {"from": "api_keys", "pipeline": [], "as": "keys"}}])
    ),
    "write another collection from one that it may read": lambda db: list(
        db.runs.aggregate([{"$merge": {"into": "events"}}])
    ),
    "lift a cordon": lambda db: db.cordons.delete_many({}),
    "release itself": lambda db: db.quarantines.update_one({}, {"$set": {"pods": []}}),
    "take another project's turn": lambda db: db.shares.update_one({}, {"$set": {"projects": []}}),
    "read projects": lambda db: db.projects.find_one(),
    "remove a pod": lambda db: db.pods.delete_one({}),
    "drop the queue": lambda db: db.runs.drop(),
    "drop an index": lambda db: db.runs.drop_index("claim"),
    "make an index": lambda db: db.runs.create_index("labels"),
    "list users": lambda db: db.client.admin.command("usersInfo", 1),
    "follow changes": lambda db: db.runs.watch().close(),
}


@pytest.fixture
def restricted_url(database_url: str) -> Iterator[str]:
    """The database's address with a user who has the role, and no other."""
    text = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()
    role = json.loads(text.partition("```json\n")[2].partition("```")[0])
    parsed = parse_uri(database_url)
    name = f"pod_{SystemIds().ulid().lower()}"
    for privilege in role["privileges"]:
        privilege["resource"]["db"] = parsed["database"]
    with MongoClient[dict[str, Any]](database_url) as owner:
        owner.admin.command({**role, "createRole": name})
        owner.admin.command("createUser", name, pwd="of-the-test", roles=[{"role": name, "db": "admin"}])
        yield database_url.replace(f"{parsed['username']}:{parsed['password']}@", f"{name}:of-the-test@")
        owner.admin.command("dropUser", name)
        owner.admin.command("dropRole", name)


def test_the_role_of_the_documents_is_enough_for_a_pod_and_for_nothing_else(
    fleet: Any, restricted_url: str
) -> None:
    run_id = fleet.submit(spec={"seconds": 0.2, "events": 3, "artifact_bytes": 100})
    worker = fleet.start_worker("--max-runs", "1", MONGODB_URL=restricted_url)
    assert fleet.wait_for(run_id, "COMPLETED", "FAILED")["status"] == "COMPLETED"
    assert worker.wait(60) == 0
    with MongoClient[dict[str, Any]](restricted_url) as client:
        db = client.get_default_database()
        assert db.pods.find_one() is not None
        assert db.pod_telemetry.find_one() is not None
        for what, attempt in FORBIDDEN.items():
            with pytest.raises(OperationFailure) as caught:
                attempt(db)
            assert caught.value.code == DENIED, what
