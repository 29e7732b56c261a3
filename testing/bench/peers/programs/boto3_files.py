"""boto3: sends files to storage, several at once; its address and keys come from the environment."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from testing.bench.peers.programs.orders import obey


def send(client: Any, order: dict[str, Any]) -> None:
    """Send all files of an order."""

    def one(file: str) -> None:
        client.upload_file(file, order["bucket"], f"{order['where']}/{Path(file).name}")

    with ThreadPoolExecutor(order["transfers"]) as threads:
        list(threads.map(one, order["files"]))


def main() -> None:
    """Send files as told."""
    config = Config(
        max_pool_connections=16,
        s3={"addressing_style": "path"},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )
    client = boto3.client("s3", endpoint_url=os.environ["ENDPOINT"], config=config)
    obey(partial(send, client))


if __name__ == "__main__":
    main()
