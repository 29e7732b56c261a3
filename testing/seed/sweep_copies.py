"""The other runs of a sweep: the same history on the same minute, under names of their own.

A told life costs a millisecond, an echo a tenth of it. Ids have one length, so they are exchanged in
the encoded documents; hashes and storage ids are the product's own, made anew.
"""

from __future__ import annotations

from typing import Final

import msgspec

from events.envelope import content_hash, storage_id
from testing.seed.life import Life, Line, digest

Documents = dict[str, list[bytes]]
NUMBER_DIGITS: Final = 7


def numbered(number: int) -> str:
    """Return a number in the form in which titles hold it, always as long."""
    return f"{number:0{NUMBER_DIGITS}d}"


def echo(life: Life, original: Documents, number: int, other: int, new_id: str) -> Documents:
    """Return the documents of run `other`, to which the same happened as to run `number`."""
    old, new = life.id.encode(), new_id.encode()
    found = {name: [each.replace(old, new) for each in documents] for name, documents in original.items()}
    lines = zip(life.log, found["events"], strict=True)
    found["events"] = [_line(life, line, each, new_id) for line, each in lines]
    (run,), (spec,) = found[life.collection], found["run_specs"]
    if life.run["lease"] is not None:
        known = life.run["lease"]["tokenHash"]
        run = run.replace(known.encode(), digest(new_id, known).encode())
    found[life.collection] = [_renumbered(run, number, other)]
    found["run_specs"] = [_renumbered(spec, number, other)]
    return found


def _line(life: Life, line: Line, document: bytes, new_id: str) -> bytes:
    known = line.event
    if known is None:
        return document
    source, data = known.source.replace(life.id, new_id), renamed(known.data, life.id, new_id)
    event = msgspec.structs.replace(known, source=source, run_id=new_id, data=data, traceparent=None)
    key = storage_id(new_id, event.source, event.id).rpartition("/")[2]
    return document.replace(line.key, key.encode()).replace(line.hash, content_hash(event).encode())


def renamed(data: dict[str, object], old: str, new: str) -> dict[str, object]:
    """Return an event's data with another run's id, where it names its own."""
    return {name: each.replace(old, new) if isinstance(each, str) else each for name, each in data.items()}


def _renumbered(document: bytes, number: int, other: int) -> bytes:
    """Exchange the number that a title, an idea's name and the words of a title hold."""
    old, new = numbered(number).encode(), numbered(other).encode()
    word = (NUMBER_DIGITS + 1).to_bytes(4, "little")  # the length of a BSON string that is the number alone
    for before in (b"#", b"_", word):
        document = document.replace(before + old, before + new)
    return document
