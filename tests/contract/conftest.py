"""The real servers, for suites that hold a double against them."""

from __future__ import annotations

from tests.integration.conftest import database, database_url, mongo_url, mongod, s3

__all__ = ["database", "database_url", "mongo_url", "mongod", "s3"]
