"""An attempt has URLs signed for so many bytes, and not more."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import pytest

from control_plane.files.uploads.upload_budget import UploadBudget
from control_plane.store import database as store
from control_plane.store.log.byte_counts import ByteCounts
from control_plane.store.schema import migrate
from events.delivery.control_plane_client import bearer
from events.runtime.clock import SystemClock
from events.runtime.errors import Rejected

pytestmark = pytest.mark.common_fleet
RUN = "01K00000000000000000000001"
PUT = (f"runs/{RUN}/a1/0/a", 60)


def test_what_is_signed_again_is_counted_once_and_what_does_not_fit_leaves_nothing(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        client = store.connect(database_url)
        try:
            db = store.database(client, database_url)
            await migrate(db)
            counts = ByteCounts(db)
            budgets = [UploadBudget(counts, SystemClock(), 100) for _ in range(2)]  # of two replicas

            told: set[str] = set()

            async def refused(attempt: int, *puts: tuple[str, int]) -> bool:
                try:
                    await budgets[len(puts) % 2].take(RUN, attempt, puts)
                except Rejected as error:
                    told.add(error.message.rpartition(":")[0])
                    return True
                return False

            for _ in range(3):
                assert not await refused(1, PUT, PUT)
            assert not await refused(1, ("b", 40))  # exactly the rest
            assert await refused(1, ("c", 1))
            assert await refused(1, ("c", 1))  # it was not counted the first time
            assert await refused(1, PUT, ("c", 1))
            assert await refused(1, (PUT[0], 61))  # the same key, for more bytes
            assert not await refused(1, PUT)
            assert not await refused(1, ("d", 0))
            monkeypatch.setattr("control_plane.files.uploads.upload_budget.FILES_MAX", 3)
            assert await refused(1, ("d2", 0))
            monkeypatch.undo()
            assert not await refused(2, ("e", 100))
            assert await refused(1, ("f", 101))
            assert await db.byte_counts.find({}, {"_id": 1, "artifacts": 1}).sort("_id").to_list() == [
                {"_id": f"{RUN}/a1", "artifacts": 100},
                {"_id": f"{RUN}/a2", "artifacts": 100},
            ]
            done = await asyncio.gather(*(refused(1, (f"g{n}", 1)) for n in range(20)))
            assert all(done)
            assert {each.partition(" are")[0] for each in told} == {
                *(f"1 more files of {n} bytes" for n in (0, 1, 61, 101))
            }  # fmt: skip
            assert {each.partition("may keep ")[2] for each in told} == {
                "200,000 of 100 bytes", "3 of 100 bytes",
            }  # fmt: skip
        finally:
            await client.close()

    asyncio.run(scenario())


def test_a_first_file_beyond_the_budget_is_refused(database_url: str) -> None:
    async def scenario() -> None:
        client = store.connect(database_url)
        try:
            budget = UploadBudget(ByteCounts(store.database(client, database_url)), SystemClock(), 100)
            with pytest.raises(Rejected, match="1 more files of 101 bytes are too many"):
                await budget.take(RUN, 7, [("x", 101)])
            await budget.take(RUN, 7, [("x", 100)])
        finally:
            await client.close()

    asyncio.run(scenario())


def test_every_way_to_a_url_is_counted(fleet: Any, by_hand: Any, database: Any) -> None:
    fleet.submit()
    claim = by_hand("runs", "probe/cpu/any").claim
    path = f"/api/runs/{claim.run_id}/artifacts/presign"

    def ask(action: str, body: dict[str, Any]) -> int:
        answer = fleet.client.post(f"{path}{action}", json=body, headers=bearer(claim.run_token))
        assert answer.status_code == 200, answer.text
        return int(database.byte_counts.find_one({"_id": f"{claim.run_id}/a1"})["artifacts"])

    small = {"name": "a", "size": 10, "sha256": hashlib.sha256(b"a").hexdigest()}
    large = {"name": "b", "size": 11 << 20, "upload": "01K00000000000000000000002", "parts": 2}
    for _ in range(2):
        assert ask("", small) == 10
        assert ask("/many", {"files": [small, {**small, "name": "c"}]}) == 20
        assert ask("", large) == 20 + (11 << 20)
        database.byte_counts.update_one({}, {"$inc": {"artifacts": -10 - (11 << 20)}})
        database.signed_puts.delete_many({"_id": {"$regex": "/c:|/b:"}})
