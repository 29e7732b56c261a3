"""The embedded MongoDB and S3 server, for real."""

from __future__ import annotations

from typing import Any

import httpx
from minio import Minio
from pymongo.database import Database


def test_the_embedded_mongodb_takes_majority_writes_and_has_change_streams(database: Database[Any]) -> None:
    with database.watch(max_await_time_ms=100) as stream:
        database.things.insert_one({"_id": "a"})
        change = stream.next()
    assert change["documentKey"] == {"_id": "a"}


def test_the_embedded_s3_takes_presigned_puts_and_refuses_the_unsigned(s3: Any) -> None:
    client = Minio(s3.endpoint, s3.access_key, s3.secret_key, secure=False, region=s3.region)
    put = httpx.put(client.presigned_put_object(s3.bucket, "servers/a.txt"), content=b"hello")
    assert put.status_code == 200
    assert httpx.get(client.presigned_get_object(s3.bucket, "servers/a.txt")).text == "hello"
    assert httpx.get(f"http://{s3.endpoint}/{s3.bucket}/servers/a.txt").status_code in {400, 403}
