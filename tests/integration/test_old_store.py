"""A store from before kinds had packages of their own is opened, shown and verified as it is.

`stores/before_kinds.bson.xz` is what commit 300d2d5 left: an experiment, an ideation, probes with each end,
and what `testing.seed` made; one BSON document `{collection, document}` after the other.
"""

from __future__ import annotations

import lzma
from collections import Counter
from pathlib import Path
from typing import Any

import bson
import httpx
import pytest
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient

from control_plane.access import auth
from control_plane.config import read_settings
from control_plane.server.app import create_app
from control_plane.server.deps import wire
from control_plane.store import database as store
from control_plane.store import schema
from control_plane.store.verify.queries import VerifyReads
from control_plane.verify.verifier import Verifier
from events.runtime.clock import SystemClock, SystemIds

STORE = Path(__file__).parent / "stores" / "before_kinds.bson.xz"
RAW: Any = CodecOptions(document_class=RawBSONDocument)


def open_store(url: str) -> Counter[str]:
    """Fill an empty database with the store, byte for byte; return how many documents each collection has."""
    documents: dict[str, list[Any]] = {}
    for each in bson.decode_all(lzma.decompress(STORE.read_bytes()), RAW):
        documents.setdefault(each["collection"], []).append(each["document"])
    with MongoClient[Any](url) as client:
        for name, found in documents.items():
            client.get_default_database()[name].insert_many(found)
    return Counter({name: len(found) for name, found in documents.items()})


def contents(url: str) -> dict[str, list[bytes]]:
    with MongoClient[Any](url) as client:
        db = client.get_default_database()
        return {
            name: [bytes(each.raw) for each in db.get_collection(name, codec_options=RAW).find().sort("_id")]
            for name in sorted(db.list_collection_names())
        }


async def test_it_is_verified_and_shown_and_stays_as_it_is(
    emptied_url: str, s3: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "user_of", lambda *_: None)  # in process: no socket has an owner
    held = open_store(emptied_url)
    assert min(held[name] for name in ("runs", "events", "ideas", "hypotheses", "validations")) > 1
    old = contents(emptied_url)
    client = store.connect(emptied_url)
    try:
        db = store.database(client, emptied_url)
        await schema.migrate(db)
        before = contents(emptied_url)
        changed = {name for name in before if before[name] != old.get(name, [])}
        assert changed == {"hypotheses", "store_state"}, "a field that they lack, and the version"
        await schema.migrate(db)
        await schema.verify(db)
        assert [each async for each in Verifier(VerifyReads(db)).audit(rebuilds=True)] == []
        values = {"MONGODB_URL": emptied_url, **s3.environment}
        settings = read_settings(values, host="127.0.0.1", port=8700, keyless=True)
        deps = wire(settings, db, SystemClock(), SystemIds())
        app = create_app(deps)
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:8700"
        ) as reader:
            for path in await addresses(db):
                answer = await reader.get(path)
                assert answer.status_code == httpx.codes.OK, (path, answer.text)
        await deps.close()
    finally:
        await client.close()
    after = contents(emptied_url)
    assert {name: after[name] for name in before} == before


async def addresses(db: Any) -> list[str]:
    """Return the pages and answers of one run of each kind and status, and of every hypothesis."""
    found = {}
    for collection in ("runs", "ideation_requests"):
        async for run in db[collection].find({}, {"kind": 1, "status": 1}):
            found[run["kind"], run["status"]] = run["_id"]
    runs = [f"{where}/runs/{run_id}" for run_id in found.values() for where in ("", "/api")]
    hypotheses = [f"/hypotheses/{each['_id']}" async for each in db.hypotheses.find({}, {"_id": 1})]
    return ["/", "/runs", "/hypotheses", "/reviews", *runs, *hypotheses]
