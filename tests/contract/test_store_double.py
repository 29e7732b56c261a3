"""The store double against a real mongod: the same operations, the same answers, the same documents."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from bson import encode
from bson.raw_bson import RawBSONDocument
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymongo import InsertOne, MongoClient, ReturnDocument, UpdateOne
from pymongo.errors import BulkWriteError, OperationFailure

from control_plane.store import database as store
from control_plane.store import schema
from events.lifecycle import Cause, Status
from events.queue.journal import Decision, Expression, ServerTime, creation, update
from events.queue.looks import classes_of, heads, heads_of
from events.runtime.clock import SystemClock, SystemIds
from podfleet.embedded.mongod import Mongod
from testing.simulation.store.driver import sync_database
from testing.simulation.store.replica_set import ReplicaSet

pytestmark = pytest.mark.xdist_group("store double")

COLLECTIONS = ("runs", "events", "attempts")
CLOCK_SLACK = timedelta(seconds=20)
LONG_AGO = datetime(2020, 2, 3, 4, 5, 6, 789_000, UTC)


@dataclass
class Pair:
    """One database of a real server, and the double that shall equal it."""

    real: Any
    double: Any

    def both(self, ask: Callable[[Any], Any]) -> Any:
        """Ask both; return the answer on which they agree."""
        real, double = _outcome(ask, self.real), _outcome(ask, self.double)
        assert _same(real, double), f"the server answers {real!r}, the double {double!r}"
        for name in COLLECTIONS:
            stored = [list(each[name].find({}).sort("_id")) for each in (self.real, self.double)]
            assert _same(*stored), f"{name}: the server has {stored[0]!r}, the double {stored[1]!r}"
        return double

    def clear(self) -> None:
        for name in COLLECTIONS:
            self.real[name].delete_many({})
        self.double = sync_database(ReplicaSet(SystemClock().now), "test")


@pytest.fixture(scope="module")
def pair(mongod: Mongod) -> Iterator[Pair]:
    """A real database with the product's indexes, and an empty double."""
    name = f"double_{SystemIds().ulid().lower()}"
    url = mongod.url(name)

    async def migrate() -> None:
        client = store.connect(url)
        await schema.migrate(store.database(client, url))
        await client.close()

    asyncio.run(migrate())
    with MongoClient[dict[str, Any]](url, tz_aware=True, tzinfo=UTC) as client:
        yield Pair(client.get_default_database(), None)
        client.drop_database(name)


@pytest.fixture(autouse=True)
def _fresh(pair: Pair) -> None:
    pair.clear()


def _outcome(ask: Callable[[Any], Any], database: Any) -> Any:
    try:
        return _plain(ask(database))
    except BulkWriteError as error:
        details = dict(error.details or {})
        problems = [
            (each["index"], each["code"], each.get("keyValue")) for each in details.pop("writeErrors")
        ]
        return "bulk", problems, details["nInserted"], details["nMatched"], details["nModified"]
    except OperationFailure as error:
        return type(error).__name__, error.code, (error.details or {}).get("keyValue")


def _plain(answer: Any) -> Any:
    if hasattr(answer, "bulk_api_result"):
        return (
            answer.bulk_api_result["nInserted"],
            answer.matched_count,
            answer.modified_count,
            answer.upserted_ids,
        )
    if hasattr(answer, "matched_count"):
        return answer.matched_count, answer.modified_count, answer.upserted_id
    for name in ("deleted_count", "inserted_id", "inserted_ids"):
        if hasattr(answer, name):
            return getattr(answer, name)
    return answer if answer is None or isinstance(answer, Mapping | int) else list(answer)


def _same(one: Any, other: Any) -> bool:
    """Compare as BSON does: types count, and two clocks differ a little."""
    match one, other:
        case datetime(), datetime():
            return abs(one - other) < CLOCK_SLACK
        case Mapping(), Mapping():
            return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
        case (list(), list()) | (tuple(), tuple()):
            return len(one) == len(other) and all(map(_same, one, other))
    # The server's long integers are the same numbers as its short ones.
    return (isinstance(one, float), isinstance(one, bool)) == (
        isinstance(other, float),
        isinstance(other, bool),
    ) and (one == other)


NOT_BEFORE = ServerTime(3.5)
DECIDE = Decision(
    Cause.CLAIM,
    Status.SCHEDULED,
    "pod#a1",
    sets={
        "attempt": Expression({"$add": ["$attempt", 1]}),
        "at": ServerTime(),
        "later": NOT_BEFORE,
        "error": None,
    },
    silent={
        "lease": {"tokenHash": "t", "until": ServerTime(60.0), "renewals": 0},
        "view": {"a": {"b": "$x"}},
    },
)
NEW_RUN = {
    "kind": "probe", "status": "QUEUED", "classKey": "c", "priority": 1, "queuedAt": Expression("$$NOW"),
    "notBefore": None, "queueDeadline": None, "maxAttempts": 3,
    "labels": Expression({"$literal": {"a.b": "$c"}}),
}  # fmt: skip
RENEWED = {"until": "$$NOW", "renewals": {"$add": ["$lease.renewals", 1]}}
KEPT = {"$filter": {"input": "$journal", "cond": {"$gt": ["$$this.n", 1]}}}
OVER = {"$expr": {"$lt": ["$lease.until", "$$NOW"]}}


def _submit(database: Any, identity: str, **fields: Any) -> Any:
    return database.runs.update_one({"_id": identity}, creation({**NEW_RUN, **fields}, by="me"), upsert=True)


def test_a_run_is_created_once_claimed_in_order_renewed_and_let_go(pair: Pair) -> None:
    for identity, priority in (("b", 1), ("a", 1), ("c", 9)):
        pair.both(lambda each, i=identity, p=priority: _submit(each, i, priority=p))
    pair.both(lambda each: _submit(each, "a"))  # again: the pipeline is applied to what is there
    order = [("priority", -1), ("queuedAt", 1), ("_id", 1)]
    after = {"sort": order, "return_document": ReturnDocument.AFTER}
    taken = pair.both(
        lambda each: each.runs.find_one_and_update(
            {"status": "QUEUED", "classKey": "c"}, update(DECIDE), **after
        )
    )
    assert taken["_id"] == "c"
    again = pair.both(
        lambda each: each.runs.find_one_and_update(
            {"status": "QUEUED", "classKey": "c"}, update(DECIDE), **after
        )
    )
    assert again[0] == "DuplicateKeyError"
    renew = [{"$set": {"lease": {"$mergeObjects": ["$lease", RENEWED]}}}]
    owned = {"_id": "c", "attempt": 1, "lease.tokenHash": "t", "status": {"$in": ["SCHEDULED"]}}
    pair.both(lambda each: each.runs.find_one_and_update(owned, renew, projection={"status": 1}))
    pair.both(lambda each: each.runs.update_one({"_id": "c"}, [{"$set": {"journal": KEPT}}, *update(DECIDE)]))
    pair.both(lambda each: each.runs.update_one({"_id": "c"}, {"$pull": {"journal": {"n": {"$lte": 2}}}}))
    pair.both(lambda each: list(each.runs.find({"journal.n": {"$gte": 0}}, {"_id": 1}).sort("_id").limit(2)))
    pair.both(lambda each: list(each.runs.find({"lease.until": {"$type": "date"}, **OVER}).sort("_id")))
    looked = {"renewals": "$lease.renewals", "isExpired": {"$lt": ["$lease.until", "$$NOW"]}}
    pair.both(
        lambda each: sorted(each.runs.aggregate([{"$project": looked}]), key=lambda found: found["_id"])
    )


def test_the_looks_of_a_pod_find_the_same_classes(pair: Pair) -> None:
    classes = ("c", "c/gpu=h100", "~pod-1/c", "~pod-10/c", "~pod-2/c", "d")
    for number, class_key in enumerate(2 * classes):
        given = {"classKey": class_key, "priority": number}
        pair.both(lambda each, i=str(number), found=given: _submit(each, i, **found))
    for pipeline in (
        heads("runs"),
        heads("runs", "pod-1"),
        heads("runs", "pod-1", after="c"),
        heads_of(["c", "~pod-2/c", "nothing"]),
    ):
        found = pair.both(
            lambda each, asked=pipeline: [
                (one.class_key, one.priority) for one in classes_of("runs", each.runs.aggregate(asked))
            ]
        )
        assert ("~pod-10/c", 9) not in found


def test_a_guarded_upsert_takes_only_what_is_newer(pair: Pair) -> None:
    def guarded(seq: int, **fields: Any) -> UpdateOne:
        query = {"_id": "a", "seq": {"$not": {"$gte": seq}}}
        return UpdateOne(query, {"$set": {**fields, "seq": seq}}, upsert=True)

    for operations in ([guarded(3, x=1)], [guarded(2, x=2), guarded(4, y=1)], [guarded(4, z=1)]):
        pair.both(lambda each, given=operations: each.attempts.bulk_write(given, ordered=False))


def test_an_event_is_stored_once_under_its_id_and_its_position(pair: Pair) -> None:
    def event(identity: str, **fields: Any) -> RawBSONDocument:
        return RawBSONDocument(encode({"_id": identity, "runId": "r", "attempt": 1, **fields}))

    batch = [event("a", sequence=1), event("b", sequence=2), event("c", revision=1), event("d")]
    pair.both(lambda each: each.events.insert_many(batch, ordered=False))
    second = [event("a", sequence=1), event("e", sequence=2), event("f", sequence=3), event("g", revision=1)]
    pair.both(lambda each: each.events.insert_many(second, ordered=False))
    pair.both(lambda each: each.events.count_documents({"sequence": {"$exists": True}}, limit=2))
    pair.both(
        lambda each: each.events.update_many({"sequence": {"$exists": True}}, {"$unset": {"sequence": ""}})
    )
    first = {"$firstN": {"input": "$_id", "n": 2}}
    stages = [{"$sort": {"_id": 1}}, {"$group": {"_id": "$runId", "ids": first, "count": {"$sum": 1}}}]
    pair.both(lambda each: list(each.events.aggregate(stages)))
    pair.both(lambda each: list(each.get_collection("events").find({}).sort("_id", -1).batch_size(2)))
    pair.both(lambda each: each.events.delete_one({"_id": "a"}))
    pair.both(lambda each: each.events.delete_many({"_id": {"$in": ["b", "c", "nobody"]}}))


def test_a_moment_is_cut_to_milliseconds_and_an_integer_stays_one(pair: Pair) -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 678_999, UTC)
    document = {"_id": "a", "at": moment, "n": 1, "x": 1.0, "big": 2**40, "list": (1, 2), "no": None}
    found = pair.both(
        lambda each: each.attempts.insert_one(dict(document)) and each.attempts.find_one({"_id": "a"})
    )
    assert found["at"].microsecond == 678_000
    pair.both(lambda each: each.attempts.find_one({"n": 1.0, "x": 1}))
    pair.both(lambda each: each.attempts.find_one({"n": True}))
    fresh = {
        "$set": {"s": 1},
        "$max": {"at": moment},
        "$currentDate": {"now": True},
        "$setOnInsert": {"i": {"j": 1}},
    }
    for identity in ("a", "b"):
        pair.both(
            lambda each, i=identity: each.attempts.find_one_and_update(
                {"_id": i}, fresh, upsert=True, return_document=ReturnDocument.AFTER
            )
        )


def test_a_list_grows_at_its_end_and_begins_with_the_document(pair: Pair) -> None:
    def sample(each: Any, memory: float) -> Any:
        update = {"$push": {"samples": {"memoryMib": memory}}, "$setOnInsert": {"podId": "p"}}
        return each.attempts.update_one({"_id": "p/hour"}, update, upsert=True)

    for memory in (1.0, 2.0):
        pair.both(lambda each, given=memory: sample(each, given))
    found = pair.both(lambda each: each.attempts.find_one({"_id": "p/hour"}))
    assert found["samples"] == [{"memoryMib": 1.0}, {"memoryMib": 2.0}]


def test_a_list_keeps_its_last_values(pair: Pair) -> None:
    for number in range(4):
        update = {"$push": {"samples": {"$each": [number], "$slice": -2}}}
        pair.both(lambda each, given=update: each.attempts.update_one({"_id": "p"}, given, upsert=True))
    assert pair.both(lambda each: each.attempts.find_one({"_id": "p"}))["samples"] == [2, 3]


def test_what_the_double_does_not_know_it_refuses_by_name() -> None:
    double = sync_database(ReplicaSet(SystemClock().now), "test")
    double.runs.insert_one({"_id": "a", "list": [1]})
    for ask, named in (
        (lambda: double.runs.find_one({"a": {"$regex": "x"}}), "$regex"),
        (lambda: double.runs.update_one({}, {"$push": {"a": {"$each": [1]}}}), "$push"),
        (lambda: double.runs.update_one({}, [{"$set": {"a": {"$zip": {}}}}]), "$zip"),
        (lambda: double.runs.update_one({}, [{"$replaceWith": {}}]), "$replaceWith"),
        (lambda: double.runs.aggregate([{"$lookup": {}}]), "$lookup"),
        (lambda: double.runs.aggregate([{"$unionWith": {"coll": "pods", "pipeline": []}}]), "a union"),
        (lambda: double.runs.insert_one({"a": 1}), "_id"),
    ):
        with pytest.raises(NotImplementedError, match=named.replace("$", r"\$")):
            ask()


VALUES = st.one_of(
    st.none(),
    st.integers(-2, 3),
    st.sampled_from([0.5, 1.0, 2**40]),
    st.booleans(),
    st.sampled_from(["", "x", "y", "$x", "$$NOW"]),
    st.just(LONG_AGO),
    st.lists(st.integers(0, 3), max_size=2),
    st.lists(st.fixed_dictionaries({"n": st.integers(0, 3)}), max_size=3),
    st.dictionaries(st.sampled_from(["x", "y"]), st.integers(0, 2) | st.none(), max_size=2),
)
IDS = st.sampled_from(["a", "b", "c", "d"])
NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.sampled_from(["a", "b", "c", "a.x", "b.n"])
DOCUMENTS = st.builds(
    lambda identity, fields, hashed: {
        "_id": identity,
        **fields,
        **({"lease": {"tokenHash": hashed}} if hashed else {}),
    },
    IDS,
    st.dictionaries(NAMES, VALUES, max_size=3),
    st.sampled_from([None, None, "t", "u"]),
)
SIMPLE = st.one_of(st.integers(-2, 3), st.sampled_from([1.0, "x", LONG_AGO, True]))
CONDITIONS = st.one_of(
    VALUES,
    st.builds(
        lambda operator, value: {operator: value},
        st.sampled_from(["$gt", "$gte", "$lt", "$lte", "$ne", "$eq"]),
        SIMPLE,
    ),
    st.builds(lambda value: {"$not": {"$gte": value}}, SIMPLE),
    st.builds(lambda values: {"$in": values}, st.lists(SIMPLE, max_size=2)),
    st.builds(lambda value: {"$exists": value}, st.booleans()),
    st.builds(
        lambda value: {"$type": value},
        st.sampled_from(["date", "string", "number", "null", "array", "object"]),
    ),
)
OPERATORS = st.sampled_from(["$lt", "$lte", "$gt", "$gte", "$eq", "$max", "$ifNull", "$and"])


def _shift(milliseconds: int) -> dict[str, Any]:
    return {"$dateAdd": {"startDate": "$$NOW", "unit": "millisecond", "amount": milliseconds}}


def _larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(lambda left, right: {"$mergeObjects": [{"x": left, "y": right}]}, inner, inner),
        st.builds(lambda each: [each], inner),
        st.builds(lambda operator, left, right: {operator: [left, right]}, OPERATORS, inner, inner),
        st.builds(lambda each: {"$cond": [each, 1, "$a"]}, inner),
        st.builds(_shift, st.integers(0, 5)),
    )


PLAIN = st.sampled_from(["$a", "$b", "$c", "$a.x", "$b.n", "$$NOW"]) | VALUES.map(
    lambda value: {"$literal": value}
)
EXPRESSIONS: st.SearchStrategy[Any] = st.recursive(PLAIN, _larger, max_leaves=4)
QUERIES = st.one_of(
    st.builds(lambda identity: {"_id": identity}, IDS),
    st.dictionaries(PATHS, CONDITIONS, max_size=2),
    st.builds(
        lambda left, right: {"$or": [left, right]},
        *[st.dictionaries(PATHS, CONDITIONS, min_size=1, max_size=1)] * 2,
    ),
    st.builds(lambda left: {"$nor": [left]}, st.dictionaries(PATHS, CONDITIONS, min_size=1, max_size=1)),
    st.builds(lambda expression: {"$expr": expression}, EXPRESSIONS),
)
CLASSIC = st.one_of(
    st.builds(lambda fields: {"$set": fields}, st.dictionaries(NAMES, VALUES, min_size=1, max_size=2)),
    st.builds(lambda name, value: {"$max": {name: value}}, NAMES, SIMPLE),
    st.builds(lambda path: {"$unset": {path: ""}}, NAMES),
    st.builds(lambda name, number: {"$pull": {name: {"n": {"$lte": number}}}}, NAMES, st.integers(0, 3)),
    st.builds(lambda name, value: {"$setOnInsert": {name: value}}, NAMES, VALUES),
    st.builds(lambda hashed: {"$set": {"lease": {"tokenHash": hashed}}}, st.sampled_from(["t", "u", None])),
)
STAGES = st.builds(
    lambda fields: {"$set": fields},
    st.dictionaries(
        NAMES, EXPRESSIONS | st.builds(lambda each: {"x": each}, EXPRESSIONS), min_size=1, max_size=2
    ),
)
UPDATES = CLASSIC | st.lists(STAGES, min_size=1, max_size=2)


def _insert(documents: list[dict[str, Any]]) -> Callable[[Any], Any]:
    return lambda each: each.runs.insert_many(
        [RawBSONDocument(encode(one)) for one in documents], ordered=False
    )


def _bulk(documents: list[dict[str, Any]], identity: str, change: Any) -> Callable[[Any], Any]:
    def ask(each: Any) -> Any:
        operations = [InsertOne(dict(one)) for one in documents]
        return each.runs.bulk_write(
            [*operations, UpdateOne({"_id": identity}, change, upsert=True)], ordered=False
        )

    return ask


def _take(query: dict[str, Any], change: Any, order: list[tuple[str, int]]) -> Callable[[Any], Any]:
    return lambda each: each.runs.find_one_and_update(
        query, change, sort=[*order, ("_id", 1)], return_document=ReturnDocument.AFTER
    )


ORDERS = st.lists(st.tuples(NAMES, st.sampled_from([1, -1])), max_size=1)


def _update_one(identity: str, change: Any, upsert: bool) -> Callable[[Any], Any]:
    return lambda each: each.runs.update_one({"_id": identity}, change, upsert=upsert)


def _update_many(query: dict[str, Any], stage: Any) -> Callable[[Any], Any]:
    return lambda each: each.runs.update_many(query, [stage])


def _find(query: dict[str, Any], order: list[tuple[str, int]], most: int, shown: Any) -> Callable[[Any], Any]:
    return lambda each: each.runs.find(query, shown).sort([*order, ("_id", 1)]).limit(most)


def _aggregate(query: dict[str, Any], value: Any) -> Callable[[Any], Any]:
    stages = [{"$match": query}, {"$sort": {"_id": 1}}, {"$project": {"v": value, "a": 1}}, {"$limit": 3}]
    return lambda each: each.runs.aggregate(stages)


def _count(query: dict[str, Any]) -> Callable[[Any], Any]:
    return lambda each: each.runs.count_documents(query)


def _delete(identity: str) -> Callable[[Any], Any]:
    return lambda each: each.runs.delete_one({"_id": identity})


SHOWN = st.sampled_from([None, {"a": 1, "b": 1}, {"a": 0}, {"_id": 1}])
OPERATIONS = st.one_of(
    st.builds(_insert, st.lists(DOCUMENTS, min_size=1, max_size=4)),
    st.builds(_bulk, st.lists(DOCUMENTS, max_size=2), IDS, UPDATES),
    st.builds(_update_one, IDS, UPDATES, st.booleans()),
    st.builds(_update_many, QUERIES, STAGES),
    st.builds(_take, QUERIES, UPDATES, ORDERS),
    st.builds(_find, QUERIES, ORDERS, st.integers(0, 2), SHOWN),
    st.builds(_count, QUERIES),
    st.builds(_delete, IDS),
    st.builds(_aggregate, QUERIES, EXPRESSIONS),
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(operations=st.lists(OPERATIONS, min_size=2, max_size=8))
def test_any_sequence_of_operations_ends_alike(pair: Pair, operations: list[Callable[[Any], Any]]) -> None:
    pair.clear()
    for operation in operations:
        pair.both(operation)
