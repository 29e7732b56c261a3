"""Unique and partial indexes, as the product's own schema declares them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from pymongo import IndexModel

from testing.simulation.store.matching import matches
from testing.simulation.store.order import MISSING, key
from testing.simulation.store.paths import evaluated

DUPLICATE_KEY: Final = 11000


@dataclass(frozen=True, slots=True)
class Collision:
    """Which unique index a document violates, and with which values."""

    index: str
    pattern: Mapping[str, Any]
    values: Mapping[str, Any]

    def details(self, collection: str) -> dict[str, Any]:
        """Return it as the server words it."""
        message = f"E11000 duplicate key error collection: {collection} index: {self.index} dup key"
        return {
            "code": DUPLICATE_KEY,
            "errmsg": f"{message}: {dict(self.values)!r}",
            "keyPattern": dict(self.pattern),
            "keyValue": dict(self.values),
        }


@dataclass(frozen=True, slots=True)
class UniqueIndex:
    """One unique index, and which document holds which key."""

    name: str
    paths: tuple[str, ...]
    partial: Mapping[str, Any] | None
    held: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    def keys(self, document: Mapping[str, Any], now: datetime) -> list[Any]:
        """Return the values under which the document stands in the index; none where it is left out."""
        if self.partial is not None and not matches(document, self.partial, now):
            return []
        values = [evaluated(document, path.split(".")) for path in self.paths]
        if any(isinstance(each, list) for each in values):
            raise NotImplementedError(f"an array in the unique index {self.name}")
        return [None if each is MISSING else each for each in values]


def unique_indexes(models: Sequence[IndexModel]) -> list[UniqueIndex]:
    """Return the unique ones of a collection's indexes."""
    return [
        UniqueIndex(
            model.document["name"],
            tuple(model.document["key"]),
            model.document.get("partialFilterExpression"),
        )
        for model in models
        if model.document.get("unique")
    ]


@dataclass(frozen=True, slots=True)
class Uniqueness:
    """Every unique index of a collection; `_id` is kept by the documents themselves."""

    indexes: Sequence[UniqueIndex]

    def collision(self, document: Mapping[str, Any], now: datetime) -> Collision | None:
        """Return what another document holds already."""
        for index, values in self._places(document, now):
            holder = index.held.get(key(values), MISSING)
            if holder is not MISSING and holder != document["_id"]:
                return Collision(
                    index.name,
                    dict.fromkeys(index.paths, 1),
                    dict(zip(index.paths, values, strict=True)),
                )
        return None

    def add(self, document: Mapping[str, Any], now: datetime) -> None:
        """Take the document's keys."""
        for index, values in self._places(document, now):
            index.held[key(values)] = document["_id"]

    def drop(self, document: Mapping[str, Any], now: datetime) -> None:
        """Let the document's keys go."""
        for index, values in self._places(document, now):
            index.held.pop(key(values), None)

    def _places(self, document: Mapping[str, Any], now: datetime) -> Iterator[tuple[UniqueIndex, list[Any]]]:
        for index in self.indexes:
            values = index.keys(document, now)
            if values:
                yield index, values
