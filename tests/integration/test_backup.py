"""A backup brings a store back as it was at one moment, and a damaged one changes nothing."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bson
import pytest
from pymongo import MongoClient

from control_plane.store import database as store
from control_plane.store import schema, state
from control_plane.store.verify.dumps import Dumps, draft_of
from control_plane.upkeep.backup.backup import Backup
from control_plane.upkeep.backup.folder import Folder
from control_plane.upkeep.backup.restore import Restore
from events.runtime.clock import SystemClock, SystemIds
from events.runtime.errors import ConfigError
from events.runtime.guarantees import STATE
from podfleet.commands.maintenance.restore import catch_up
from podfleet.connection import EXIT_WRONG_USE
from podfleet.embedded.mongod import Mongod
from tests.fork_server import run_program
from tests.integration.command_line import PROGRAM
from tests.integration.test_old_store import contents, open_store
from tests.servers import S3Server, own_database

pytestmark = pytest.mark.slow("real servers and processes")

PASSPHRASE = "a passphrase of the tests"
Json = dict[str, Any]


@pytest.fixture
def target_url(mongod: Mongod) -> Iterator[str]:
    """A database to restore into, which has nothing."""
    with own_database(mongod) as url:
        yield url


def command(url: str, s3: S3Server | None, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    storage = {} if s3 is None else s3.environment
    environment = {"PATH": os.defpath, "MONGODB_URL": url, **storage, **more}
    return run_program([*PROGRAM, *arguments], env=environment, cwd=Path("/"))


def stored(url: str) -> dict[str, list[bytes]]:
    """Return all documents but the record of the schema, by their collections."""
    return {name: found for name, found in contents(url).items() if found and name != STATE}


async def caught_up(url: str) -> None:
    """Apply what the log of a store has and its documents not yet."""
    client = store.connect(url)
    try:
        await catch_up(store.database(client, url))
    finally:
        await client.close()


@pytest.mark.slow("the command line three times, and every run of a store replayed")
def test_a_store_comes_back_byte_for_byte(emptied_url: str, target_url: str, tmp_path: Path) -> None:
    open_store(emptied_url)
    done = command(emptied_url, None, "migrate")  # as a restore does
    assert done.returncode == 0, done.stderr
    asyncio.run(caught_up(emptied_url))  # the same
    none = ("--storage", "none")
    done = command(emptied_url, None, "backup", str(tmp_path / "b"), *none)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "PODFLEET_SECRETS_KEY" in done.stderr
    done = command(emptied_url, None, "backup", str(tmp_path / "b"), *none)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    done = command(target_url, None, "restore", str(tmp_path / "b"))
    assert done.returncode == 0, done.stderr
    assert "\n0 findings\n" in done.stderr
    assert stored(target_url) == stored(emptied_url)
    assert len([*(tmp_path / "b").glob("dump-*")]) == 1, "only the latest one is kept"
    assert {each.stat().st_mode & 0o077 for each in (tmp_path / "b").rglob("*")} == {0}


class Interrupting(Dumps):
    """Lets a test change the store at the worst moments: behind each batch, and between two collections."""

    def __init__(self, db: Any, change: Any) -> None:
        super().__init__(db)
        self.change = change

    async def documents(self, name: str) -> Any:
        async for batch in super().documents(name):
            yield batch
            await self.change()
        await self.change()


async def test_what_changes_while_it_is_dumped_is_there_as_of_its_end(
    database_url: str, target_url: str, tmp_path: Path
) -> None:
    source, target = store.connect(database_url), store.connect(target_url)
    try:
        db, into = store.database(source, database_url), store.database(target, target_url)
        step = 0
        await db.runs.insert_many(
            [{"_id": n, "n": 0, "tags": [1, 2, 3], "deep": {"a": {"b": 1}}} for n in range(50)]
        )
        await db.stages.insert_one({"_id": "s", "n": bson.Int64(1), "at": bson.DatetimeMS(1 << 50)})
        await db.gone.insert_one({"_id": 1})

        async def change() -> None:
            nonlocal step
            step += 1
            each = step % 10
            await db.runs.update_one(
                {"_id": each, "n": {"$exists": True}}, {"$inc": {"n": 1}, "$push": {"tags": step}}
            )
            await db.runs.update_one(
                {"_id": each}, {"$set": {"deep.a.c": [step, {"x": 1}]}, "$unset": {"no": 1}}
            )
            await db.runs.update_one(
                {"_id": each}, {"$set": {"deep.a.c.1.x": step}, "$unset": {"deep.a.b": 1}}
            )
            await db.runs.update_one({"_id": each + 1}, [{"$set": {"tags": {"$slice": ["$tags", 1]}}}])
            await db.runs.replace_one({"_id": each + 2}, {"whole": step})
            await db.runs.delete_one({"_id": 19 - step % 9})
            await db.runs.insert_one({"_id": 100 + step, "late": True})
            await db.born.insert_one({"_id": step})
            async with source.start_session() as session, await session.start_transaction():
                await db.runs.update_one({"_id": 45}, {"$inc": {"n": 1}}, session=session)
                await db.stages.update_one({"_id": "s"}, {"$inc": {"n": 1}}, session=session)
            await db.gone.drop()

        made = await backup_of(db, tmp_path, Interrupting(db, change)).run_once()
        at_the_end = stored(database_url)
        await db.runs.delete_many({})  # what comes later is not in it
        await Restore(into, Dumps(into), None, Folder.of(tmp_path, None), SystemClock()).run_once()
        assert stored(target_url) == at_the_end
        assert step > 3
        assert made[0].changes.documents > 3 * step
    finally:
        await source.close()
        await target.close()


def backup_of(db: Any, folder: Path, dumps: Dumps | None = None, passphrase: str | None = None) -> Backup:
    return Backup(
        dumps or Dumps(db),
        None,
        Folder.begun(folder, passphrase),
        SystemClock(),
        SystemIds(),
        database=db.name,
        program="test",
        schema=state.VERSION,
        storage="none",
        say=lambda _: None,
    )


def small(db: Any) -> Any:
    return db.runs.insert_many([{"_id": number, "text": "x" * 100} for number in range(5)])


@pytest.fixture
def backed_up(database_url: str, tmp_path: Path) -> Path:
    """A folder with the backup of a store of five documents."""

    async def take() -> None:
        client = store.connect(database_url)
        try:
            db = store.database(client, database_url)
            await small(db)
            await backup_of(db, tmp_path / "b").run_once()
        finally:
            await client.close()

    asyncio.run(take())
    return tmp_path / "b"


@pytest.mark.parametrize("name", ["runs.bson.zst", "+changes.bson.zst"])
def test_a_damaged_backup_changes_nothing(backed_up: Path, target_url: str, name: str) -> None:
    (file,) = backed_up.glob(f"dump-*/{name}")
    file.write_bytes(file.read_bytes() + b"more")
    done = command(target_url, None, "restore", str(backed_up))
    assert done.returncode == EXIT_WRONG_USE
    assert "is corrupt" in done.stderr
    assert contents(target_url) == {}


def test_a_database_with_documents_is_left_alone_until_it_may_be_replaced(
    backed_up: Path, target_url: str
) -> None:
    with MongoClient[Json](target_url) as client:
        client.get_default_database().hypotheses.insert_one({"_id": "mine"})
    done = command(target_url, None, "restore", str(backed_up))
    assert done.returncode == EXIT_WRONG_USE
    assert "hypotheses 1; --replace drops them" in done.stderr
    assert [*stored(target_url)] == ["hypotheses"]
    asked = command(target_url, None, "restore", str(backed_up), "--replace")
    assert asked.returncode != 0, "nobody answered"
    assert [*stored(target_url)] == ["hypotheses"]
    command(target_url, None, "restore", str(backed_up), "--replace", "--yes")
    assert [*stored(target_url)] == ["runs"]


async def test_a_restore_that_was_cut_off_is_refused_by_control_planes_and_repeated(
    backed_up: Path, target_url: str
) -> None:
    class Cut(Dumps):
        async def load(self, name: str, documents: Any) -> None:
            await super().load(name, documents[:2])
            raise KeyboardInterrupt

    client = store.connect(target_url)
    try:
        db = store.database(client, target_url)
        await schema.migrate(db)
        with pytest.raises(KeyboardInterrupt):
            await Restore(db, Cut(db), None, Folder.of(backed_up, None), SystemClock()).run_once()
        assert await db.runs.count_documents({}) == 0, "no pod finds a run of a store that is not whole"
        assert await db[draft_of("runs")].count_documents({}) == 2
        with pytest.raises(ConfigError, match="being restored"):
            await schema.verify(db)
        await Restore(db, Dumps(db), None, Folder.of(backed_up, None), SystemClock()).run_once()
        await schema.verify(db)
        assert await db.runs.count_documents({}) == 5
    finally:
        await client.close()


async def test_an_oplog_that_went_past_is_named_with_the_cure(database_url: str, tmp_path: Path) -> None:
    client = store.connect(database_url)
    try:
        db = store.database(client, database_url)
        await small(db)

        class Late(Dumps):
            async def now(self) -> tuple[int, int]:
                seconds, within = await super().now()
                return seconds - 10_000_000, within

        with pytest.raises(ConfigError, match="replSetResizeOplog"):
            await backup_of(db, tmp_path, Late(db)).run_once()
        assert not (tmp_path / "manifest.json").exists()
    finally:
        await client.close()


async def test_a_store_that_is_newer_than_the_program_is_refused(database_url: str, backed_up: Path) -> None:
    client = store.connect(database_url)
    try:
        db = store.database(client, database_url)
        await schema.migrate(db)
        await schema.verify(db)
        await state.record(db, state.VERSION + 1, state.VERSION)
        await schema.verify(db)  # whose newer programs say that this one may work beside them
        await schema.migrate(db)
        assert await state.version(db) == state.VERSION + 1, "it never goes back"
        await state.record(db, state.VERSION + 1, state.VERSION + 1)
        for refused in (schema.verify, schema.migrate):
            with pytest.raises(ConfigError, match="install a newer podfleet"):
                await refused(db)
    finally:
        await client.close()


async def test_a_migration_that_was_cut_off_goes_on_where_it_was(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[int] = []

    async def first(db: Any) -> None:
        done.append(2)

    async def second(db: Any) -> None:
        done.append(3)
        if done.count(3) == 1:
            raise KeyboardInterrupt

    steps = (schema.Step(2, 1, first), schema.Step(3, 2, second))
    client = store.connect(database_url)
    try:
        db = store.database(client, database_url)
        with pytest.raises(KeyboardInterrupt):
            await schema.migrate(db, steps)
        with pytest.raises(ConfigError, match="newer"):
            await schema.verify(db)  # of a program that would misread what is being changed
        monkeypatch.setattr(state, "VERSION", 3)
        await schema.migrate(db, steps)
        assert done == [2, 3, 3]
        await schema.verify(db)
        await schema.migrate(db, steps)
        assert done == [2, 3, 3]
    finally:
        await client.close()


@pytest.mark.slow("the command line four times")
def test_encrypted_and_back_by_the_command_line(database_url: str, target_url: str, tmp_path: Path) -> None:
    with MongoClient[Json](database_url) as client:
        client.get_default_database().boards.insert_one({"_id": "a-board-of-the-tests"})
    (tmp_path / "passphrase").write_text(f"{PASSPHRASE}\n")
    with_it = {"PODFLEET_BACKUP_PASSPHRASE_FILE": str(tmp_path / "passphrase")}
    words = ("backup", str(tmp_path / "b"), "--storage", "none", "--encrypt")
    assert "needs PODFLEET_BACKUP_PASSPHRASE" in command(database_url, None, *words).stderr
    done = command(database_url, None, *words, **with_it)
    assert done.returncode == 0, done.stderr
    assert "is encrypted" in command(target_url, None, "restore", str(tmp_path / "b")).stderr
    done = command(target_url, None, "restore", str(tmp_path / "b"), **with_it)
    assert done.returncode == 0, done.stderr
    assert [*stored(target_url)] == ["boards"]
