"""Which errors of the driver mean: try again later."""

from __future__ import annotations

import pytest
from pymongo.errors import (
    AutoReconnect,
    DuplicateKeyError,
    ExecutionTimeout,
    NetworkTimeout,
    NotPrimaryError,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
    WriteConcernError,
    WTimeoutError,
)

from control_plane.store.database import answers
from events.runtime.errors import NotFound, Transient


@answers()
async def query(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    "error",
    [AutoReconnect("x"), NetworkTimeout("x"), NotPrimaryError("x"), ServerSelectionTimeoutError("x"),
     ExecutionTimeout("x", 50), WTimeoutError("x", 64), WriteConcernError("x", 100),
     OperationFailure("cursor killed", 237)],
)  # fmt: skip
async def test_an_outage_is_transient(error: PyMongoError) -> None:
    with pytest.raises(Transient):
        await query(error)


@pytest.mark.parametrize(
    "error", [OperationFailure("bad field path", 16410), DuplicateKeyError("x", 11000), NotFound("c", "m")]
)
async def test_a_refused_command_and_an_error_of_ours_stay_what_they_are(error: Exception) -> None:
    with pytest.raises(type(error)) as caught:
        await query(error)
    assert caught.value is error
