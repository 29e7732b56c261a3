"""Loads the items of a suite: local files first, else an installed package, else the hub.

Law: every item of a suite has an id of its own, safe as a key of a result. A record that is no item refuses
the data set: a score over what happened to be readable would be another score.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Final

from stages.kinds.benchmark.suites.data.hub import fetched
from stages.kinds.benchmark.suites.data.local import local_files, named_file, packaged_file
from stages.kinds.benchmark.suites.data.records import read_records
from stages.kinds.benchmark.suites.data.sources import DataRefused, DataSources, NeedsSetup
from stages.kinds.benchmark.suites.item import ID_BYTES_MAX, Item, Suite, Unfit

ITEMS_MAX: Final = 100_000
PROMPT_BYTES_MAX: Final = 1 << 20

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:+@-]*")


def load(suite: Suite, sources: DataSources) -> list[Item]:
    """Return the items of a suite, in the order of its files. Raises `NeedsSetup` and `DataRefused`."""
    items: dict[str, Item] = {}
    for item in _items(suite, _files(suite, sources)):
        if len(items) >= ITEMS_MAX:
            raise DataRefused(f"{suite.title} has more than {ITEMS_MAX} items")
        if len(item.id.encode()) > ID_BYTES_MAX or not _ID.fullmatch(item.id):
            raise DataRefused(f"{suite.title}: {item.id[:80]!r} is no id that can be shown")
        if item.id in items:
            raise DataRefused(f"{suite.title}: two items have the id {item.id}")
        if len(item.prompt.encode(errors="replace")) > PROMPT_BYTES_MAX:
            raise DataRefused(
                f"{suite.title}: the prompt of {item.id} has more than {PROMPT_BYTES_MAX} bytes"
            )
        items[item.id] = item
    if not items:
        raise DataRefused(f"{suite.title} has no items")
    return list(items.values())


def _files(suite: Suite, sources: DataSources) -> list[Path]:
    if suite.own_file:
        return named_file(suite.own_file, sources)
    if local := local_files(suite, sources.folders):
        return local
    if suite.package and (packaged := packaged_file(*suite.package)):
        return [packaged]
    if not suite.sources:
        raise NeedsSetup(f"{suite.title} has no data on this pod")
    return [file for source in suite.sources for file in fetched(source, sources)]


def _items(suite: Suite, files: list[Path]) -> Iterator[Item]:
    place = count()
    for file in files:
        for record in read_records(file):
            try:
                item = suite.adapt(replace(record, number=next(place)))
            except Unfit as error:
                raise DataRefused(
                    f"{suite.title}: {file.name}, record {record.number + 1}: {error}"
                ) from error
            if item is not None:
                yield item
