"""The guarantees that the store must give before it is used, pure.

Law: an acknowledged write survives the loss of any minority, and a claim's token exists once. The code
requests a majority by itself. A URL, a default or a replica set that weakens this is refused all the same,
because the next program on this database may rely on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

DATABASE_DEFAULT: Final = "podfleet"  # where the URL names none
# A cursor or plan that a fail-over killed; the driver names every other case by its class.
KILLED: Final = frozenset({43, 175, 237, 262})
OLDEST_WIRE_VERSION: Final = 17  # MongoDB 6.0
OLDEST: Final = "6.0"
MAJORITY: Final = "majority"

# The index that keeps a claim from landing twice; both sides of the fleet insist on it.
TOKEN_INDEX: Final = "token"  # noqa: S105 - the name of an index
TOKEN_KEY: Final = (("lease.tokenHash", 1),)
TOKEN_CONDITION: Final[Mapping[str, Any]] = {"lease.tokenHash": {"$type": "string"}}

# The record by which a store says that it is being restored: until it is gone nobody claims from it.
STATE: Final = "store_state"
RESTORE: Final = "restore"


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """The configuration that servers report; None where they do not report it.

    `voters` and `data_voters` count the members that vote, and those among them that hold data.
    """

    is_standalone: bool
    wire_version: int
    default_write: str | int | None
    voters: int
    data_voters: int
    is_journaled: bool | None


def deployment_of(
    hello: Mapping[str, Any], defaults: Mapping[str, Any] | None, config: Mapping[str, Any] | None
) -> Deployment:
    """Read the answers to `hello`, `getDefaultRWConcern` and `replSetGetConfig` (None: not allowed)."""
    is_router = hello.get("msg") == "isdbgrid"
    arbiters = len(hello.get("arbiters", ()))
    data_voters = len(hello.get("hosts", ())) + len(hello.get("passives", ()))
    voters = data_voters + arbiters
    is_journaled: bool | None = None
    if config is not None:
        voting = [member for member in config["members"] if member.get("votes", 1)]
        voters = len(voting)
        data_voters = sum(not member.get("arbiterOnly", False) for member in voting)
        is_journaled = bool(config.get("writeConcernMajorityJournalDefault", True))
    return Deployment(
        is_standalone="setName" not in hello and not is_router,
        wire_version=int(hello.get("maxWireVersion", 0)),
        default_write=((defaults or {}).get("defaultWriteConcern") or {}).get("w"),
        voters=voters,
        data_voters=data_voters,
        is_journaled=is_journaled,
    )


def weaknesses(found: Deployment) -> list[str]:
    """Return why these servers cannot keep the promises, each with what to do; empty when they can."""
    if found.is_standalone:
        return [
            "MONGODB_URL names a stand-alone server; podfleet needs a replica set "
            "(one node is enough: start mongod with --replSet and run rs.initiate())"
        ]
    problems = []
    if found.wire_version < OLDEST_WIRE_VERSION:
        problems.append(f"MONGODB_URL names a server that is older than {OLDEST}: upgrade it")
    if found.voters > found.data_voters and found.data_voters <= found.voters // 2 + 1:
        arbiters = found.voters - found.data_voters
        problems.append(
            f"the replica set has {arbiters} arbiter(s) among {found.voters} voters and only "
            f"{found.data_voters} members with data, so that a majority hangs on each of them: "
            "replace every arbiter by a member that holds data"
        )
    if found.default_write not in (None, MAJORITY):
        problems.append(
            f"the server's default write concern is w: {found.default_write!r}; set it to a majority: "
            'db.adminCommand({setDefaultRWConcern: 1, defaultWriteConcern: {w: "majority"}})'
        )
    if found.is_journaled is False:
        problems.append(
            "the replica set acknowledges before the journal is written "
            "(writeConcernMajorityJournalDefault is false): set it to true with rs.reconfig()"
        )
    return problems


def weak_options(options: Mapping[str, Any]) -> list[str]:
    """Return which options of a connection string weaken what is asked for, each with what to do.

    `options` are the driver's, by lower-case name.
    """
    found = {str(name).lower(): value for name, value in options.items()}
    wanted: list[tuple[str, bool, str]] = [
        ("w", found.get("w", MAJORITY) != MAJORITY, "a write is safe only on a majority"),
        ("journal", found.get("journal", True) is False, "a write is safe only in the journal"),
        ("wtimeoutms", bool(found.get("wtimeoutms")), "a write that stopped waiting is not undone"),
        ("retrywrites", found.get("retrywrites", True) is False, "a fail-over would surface as an error"),
        (
            "readconcernlevel",
            found.get("readconcernlevel", MAJORITY) not in (MAJORITY, "linearizable"),
            "a decision may not rest on what is rolled back later",
        ),
        (
            "readpreference",
            str(found.get("readpreference", "primary")).lower() != "primary",
            "a decision reads from the primary",
        ),
    ]
    return [
        f"MONGODB_URL says {name}={found[name]}: {why}; take the option out"
        for name, is_weak, why in wanted
        if is_weak
    ]


def weak_token_index(indexes: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Return what is wrong with the index on claim tokens of a collection, None when nothing is."""
    index = indexes.get(TOKEN_INDEX)
    if index is None:
        return f"the unique index {TOKEN_INDEX!r} is missing"
    is_right = (
        tuple(tuple(pair) for pair in index["key"]) == TOKEN_KEY
        and index.get("unique") is True
        and index.get("partialFilterExpression") == TOKEN_CONDITION
    )
    return None if is_right else f"the index {TOKEN_INDEX!r} is not the unique one that podfleet makes"
