"""An archive taken apart and put together again: a test lies in one place and is right in all others."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from typing import Any, cast

from events.envelope import SUBJECT_PREFIX, hash_of
from events.files.archive import tape
from events.files.archive.attempt_logs import AttemptLogs
from events.files.archive.event_lines import decoded
from events.files.archive.extended_json import decoded as document_of
from events.runtime.errors import Rejected
from events.text.attempt_id import AttemptId

Json = Any
Members = dict[str, bytes]


class Parts:
    """The members of an archive, in their order, as they can be changed."""

    def __init__(self, content: bytes) -> None:
        with tarfile.open(fileobj=io.BytesIO(content)) as ordinary:
            self.members: Members = {
                name: cast("io.BufferedReader", ordinary.extractfile(name)).read()
                for name in ordinary.getnames()
            }
        self.manifest: Json = json.loads(self.members.pop(tape.MANIFEST))

    def part(self, listed: str) -> str:
        """Return the name of the first part of a list."""
        return next(name for name in self.members if name.rpartition("/")[2].startswith(f"{listed}-"))

    def lines(self, listed: str) -> list[Json]:
        """Return the documents or events of a list, as JSON."""
        return [json.loads(line) for line in self.members[self.part(listed)].splitlines()]

    def put(self, listed: str, lines: list[Json]) -> None:
        """Put other lines in the place of a list."""
        self.members[self.part(listed)] = b"".join(json.dumps(each).encode() + b"\n" for each in lines)

    @property
    def run(self) -> Json:
        """The run, as JSON."""
        return json.loads(self.members[tape.RUN])

    def set_run(self, **fields: Json) -> None:
        """Change fields of the run."""
        self.members[tape.RUN] = json.dumps({**self.run, **fields}).encode() + b"\n"

    def change(self, listed: str, number: int, **fields: Json) -> None:
        """Change fields of one line of a list."""
        lines = self.lines(listed)
        lines[number] |= fields
        self.put(listed, lines)

    def change_event(self, number: int, **data: Json) -> None:
        """Change the data of an event of the first attempt, with the digest that it then has."""
        lines = self.lines("a1")
        line = lines[number]
        line["data"] |= data
        place = AttemptId(line["subject"].removeprefix(SUBJECT_PREFIX), line["attempt"])
        line["hash"] = hash_of(line["type"], place, int(line["sequence"]), line["time"], line["data"])
        self.put("a1", lines)

    def packed(self) -> bytes:
        """Return the archive, with a manifest that is right about all of it."""
        logs, run_id = AttemptLogs(), str(self.run["_id"])
        members = []
        for name, content in self.members.items():
            members.append(
                {"name": name, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            )
            if name.startswith("events/a"):
                for line in content.splitlines():
                    try:
                        logs.add(decoded(line, run_id))
                    except Rejected:
                        break  # the reader does not come so far either
        attempts = [
            {
                "attempt": each.attempt, "lines": each.lines, "last": each.last, "gaps": each.gaps,
                "stored": each.stored, "said": each.said,
            }
            for each in logs.closed()
        ]  # fmt: skip
        said = {**self.manifest, "members": members, "attempts": attempts, "status": self.run["status"]}
        whole = [*self.members.items(), (tape.MANIFEST, json.dumps(said).encode())]
        return b"".join(_member(name, content) for name, content in whole) + tape.END


def _member(name: str, content: bytes) -> bytes:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), 0o644
    return member.tobuf(tarfile.GNU_FORMAT) + content + tape.padding(len(content))


def lied(content: bytes, lie: Callable[[Parts], None]) -> bytes:
    """Return an archive with a lie in it."""
    parts = Parts(content)
    lie(parts)
    return parts.packed()


def run_of(content: bytes) -> Json:
    """Return the run of an archive as a document."""
    return document_of(Parts(content).members[tape.RUN])
