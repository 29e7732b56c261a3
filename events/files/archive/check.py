"""Reads an archive of a run from its begin to its end, and checks all of it without a fleet.

The archive is hostile until it has passed: each head is compared with the only one that it may be, no name
leads anywhere, nothing is executed or decompressed, and no more than one part is held.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final, Protocol

from events.files.archive import event_lines, extended_json, manifest, tape
from events.files.archive.attempt_logs import AttemptLogs
from events.files.archive.manifest import AttemptLog, Manifest, Member
from events.record_digest import NO_LINES
from events.runtime.errors import Conflict, Rejected

PART_BYTES: Final = 1024 * 1024  # a part ends with the line that reaches this
LINE_BYTES_MAX: Final = 20 * 1024 * 1024  # a stored document has 16 MiB at most, and grows as text
PART_BYTES_MAX: Final = PART_BYTES + LINE_BYTES_MAX
PIECE_BYTES: Final = 1024 * 1024
ARTIFACT_BYTES_MAX: Final = 5 * 1024**4  # what storages take as one object
FOUND_MAX: Final = 100  # what is told of one archive
NUMBERED: Final = "a"
DIGEST_CHARS: Final = 64


class Receiver(Protocol):
    """Takes what is read of an archive; nothing of it is to be believed before the end is reached."""

    def document(self, listed: str, document: Mapping[str, Any]) -> None:
        """Take a document of a list, the run before all others."""
        ...

    def event(self, event: Mapping[str, Any]) -> None:
        """Take an event that is no decision, as the log keeps it."""
        ...

    def artifact(self, name: str, size: int, at: int) -> None:
        """Take where the content of an artifact begins in the file."""
        ...


@dataclass(frozen=True, slots=True)
class Checked:
    """What an archive says, and what is wrong with what it says; nothing is wrong with its form."""

    manifest: Manifest
    run: Mapping[str, Any]
    documents: int
    events: int
    artifacts: int
    findings: list[str]
    notes: list[str]


def checked(file: BinaryIO, receiver: Receiver | None = None) -> Checked:
    """Return what an archive says. Raises `Rejected` for the first thing that is wrong with its form."""
    return _Reading(file, receiver).whole()


@dataclass(slots=True)
class _Reading:
    file: BinaryIO
    receiver: Receiver | None
    run: Mapping[str, Any] = field(default_factory=dict)
    members: dict[str, Member] = field(default_factory=dict)
    logs: AttemptLogs = field(default_factory=AttemptLogs)
    registered: dict[str, tuple[int, str]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=lambda: {"documents": 0, "events": 0, "artifacts": 0})
    at: int = 0

    def whole(self) -> Checked:
        """Read member after member; the manifest is the last."""
        while True:
            name, size = tape.read_head(self._exactly(tape.BLOCK_BYTES))
            if not self.members and name != tape.RUN:
                raise Rejected("missing_member", f"it begins with {name}, and not with {tape.RUN}")
            if name in self.members:
                raise Rejected("repeated_member", f"it has more than one member {name}")
            if len(self.members) > manifest.MEMBERS_MAX:
                raise Rejected("too_many_members", f"it has over {manifest.MEMBERS_MAX:,} members")
            if name == tape.MANIFEST:
                return self._ended(size)
            self.members[name] = self._member(name, size)

    def _ended(self, size: int) -> Checked:
        content = self._small(tape.MANIFEST, size, manifest.MANIFEST_BYTES_MAX)
        if self._exactly(len(tape.END)) != tape.END or self.file.read(1):
            raise Rejected(tape.BAD, "there is something behind its end, or the end is cut off")
        said = manifest.decoded(content)
        self._require_members(said)
        logs = self.logs.closed()
        findings = [*self._wrong_of_run(said, logs), *self._wrong_of_artifacts(said)]
        gaps, notes = self._gaps(logs)
        notes += [f"{name} is not in it: the storage did not have it as registered" for name in said.left_out]
        return Checked(
            said, self.run, **self.counts, findings=[*findings, *gaps][:FOUND_MAX], notes=notes[:FOUND_MAX]
        )

    def _require_members(self, said: Manifest) -> None:
        listed = {each.name: each for each in said.members}
        if len(listed) < len(said.members):
            raise Rejected("bad_manifest", "its manifest names a member twice")
        if missing := sorted(listed.keys() - self.members.keys()):
            raise Rejected("missing_member", f"it lacks {missing[0]}, which its manifest names")
        if foreign := sorted(self.members.keys() - listed.keys()):
            raise Rejected("foreign_member", f"it has {foreign[0]}, which its manifest does not name")
        for name, member in self.members.items():
            if member != listed[name]:
                raise Rejected("changed_member", f"{name} was changed: its size or SHA-256 is another one")

    def _member(self, name: str, size: int) -> Member:
        if tape.is_artifact(name):
            return self._artifact(name, size)
        content = self._small(name, size, PART_BYTES_MAX)
        if name == tape.RUN:
            self._take_run(content.removesuffix(b"\n"))
        else:
            self._take_lines(name, content)
        return Member(name, size, hashlib.sha256(content).hexdigest())

    def _artifact(self, name: str, size: int) -> Member:
        if size > ARTIFACT_BYTES_MAX:
            raise Rejected("too_large", f"{name} has more bytes than any storage takes")
        if self.receiver is not None:
            self.receiver.artifact(name, size, self.at)
        digest, left = hashlib.sha256(), size
        while left:
            piece = self._exactly(min(left, PIECE_BYTES))
            digest.update(piece)
            left -= len(piece)
        self._pad(name, size)
        self.counts["artifacts"] += 1
        return Member(name, size, digest.hexdigest())

    def _take_run(self, line: bytes) -> None:
        self.run = extended_json.decoded(line)
        if not isinstance(self.run.get("_id"), str):
            raise Rejected("bad_document", f"{tape.RUN} has no id")
        for name in ("sealed", "settled"):
            if (mark := _mark(self.run, name)) is not None:
                self.logs.marks[mark] = NO_LINES
        self._tell(lambda receiver: receiver.document("run", self.run))

    def _take_lines(self, name: str, content: bytes) -> None:
        """Take the lines of a member. Raises `Rejected`, which names the member."""
        try:
            self._take_each(name, content)
        except Conflict:
            raise  # of who takes it, and not of what is read
        except Rejected as error:
            raise Rejected(error.code, f"{name}: {error.message}") from error

    def _take_each(self, name: str, content: bytes) -> None:
        place = tape.list_of(name)
        assert place is not None, name
        folder, listed = place
        lines = content.split(b"\n")
        if not content or lines.pop():
            raise Rejected(tape.BAD, "it does not end with the end of a line")
        for line in lines:
            if folder == "events":
                self._take_event(listed, event_lines.decoded(line, str(self.run["_id"])))
            else:
                self._take_document(listed, extended_json.decoded(line))

    def _take_event(self, listed: str, event: Mapping[str, Any]) -> None:
        number = event.get("sequence")
        if listed != ("others" if number is None else f"{NUMBERED}{event['attempt']}"):
            raise Rejected("bad_order", f"event {event['ceId'][:80]!r} is in the list {listed}")
        if number is not None:
            self.logs.add(event)
        self.counts["events"] += 1
        self._tell(lambda receiver: receiver.event(event))

    def _take_document(self, listed: str, document: Mapping[str, Any]) -> None:
        self.counts["documents"] += 1
        if listed == "artifacts":
            name = member_of(str(self.run["_id"]), document)
            if name in self.registered or len(self.registered) > manifest.MEMBERS_MAX:
                raise Rejected("bad_document", f"it registers {name} twice, or too many files")
            self.registered[name] = (document["size"], document["sha256"])
        self._tell(lambda receiver: receiver.document(listed, document))

    def _tell(self, what: Callable[[Receiver], None]) -> None:
        if self.receiver is not None:
            what(self.receiver)

    def _wrong_of_run(self, said: Manifest, logs: list[AttemptLog]) -> list[str]:
        found = []
        for name, told in (("_id", said.run_id), ("kind", said.kind), ("status", said.status)):
            if self.run.get(name) != told:
                found.append(f"its run has {name} {self.run.get(name)!r}, its manifest says {told!r}")
        if logs != said.attempts:
            found.append("the roots or gaps of its events are not those that its manifest says")
        for name, is_sealed in (("sealed", True), ("settled", False)):
            mark = _mark(self.run, name)
            if mark is None or (name == "settled" and self.run.get("lostEvents")):
                continue
            roots, wanted = self.logs.marks[mark], self.run[name]["root"]
            root = roots.stored if is_sealed else roots.said
            is_reached = is_sealed or self.run.get("lastEventSeq", 0) >= mark[1]
            if root != wanted and is_reached:
                found.append(
                    f"events 1 to {mark[1]} of attempt {mark[0]} are not those that were {name}: their root "
                    f"is {root or 'none'}, and was {wanted or 'none'}"
                )
        return found

    def _wrong_of_artifacts(self, said: Manifest) -> list[str]:
        if not said.has_artifacts:
            return (
                ["it has files, and its manifest says that it has none"] if self.counts["artifacts"] else []
            )
        held = {
            name: (each.size, each.sha256) for name, each in self.members.items() if tape.is_artifact(name)
        }
        lacks = self.registered.keys() - held.keys() - {*said.left_out}
        found = [f"{name} is registered, and is not in it" for name in sorted(lacks)]
        found += [
            f"{name} is in it, and no file is registered so"
            for name in sorted(held.keys() - self.registered.keys())
        ]
        found += [
            f"{name} is not the file that was registered"
            for name in sorted(held.keys() & self.registered.keys())
            if held[name] != self.registered[name]
        ]
        return found

    def _gaps(self, logs: list[AttemptLog]) -> tuple[list[str], list[str]]:
        """Return the gaps that nothing tells of, and those that the run is marked with."""
        findings, notes = list[str](), list[str]()
        mark = self.run.get("logIncomplete")
        for log in logs:
            for begin, end in log.gaps:
                words = f"events {begin}–{end} of attempt {log.attempt} are missing"
                is_marked = (
                    log.attempt == self.run.get("attempt")
                    and isinstance(mark, dict)
                    and mark.get("from", 0) <= begin
                    and end <= mark.get("to", 0)
                )
                (notes if is_marked else findings).append(words)
        if mark is not None and not notes:
            notes.append("its log is marked as incomplete")
        return findings, notes

    def _small(self, name: str, size: int, most: int) -> bytes:
        if size > most:
            raise Rejected("too_large", f"{name} has more than {most:,} bytes")
        content = self._exactly(size)
        self._pad(name, size)
        return content

    def _pad(self, name: str, size: int) -> None:
        if self._exactly(len(tape.padding(size))) != tape.padding(size):
            raise Rejected(tape.BAD, f"there is something behind {name}")

    def _exactly(self, size: int) -> bytes:
        content = self.file.read(size)
        if len(content) < size:
            raise Rejected(tape.BAD, "it is cut off")
        self.at += size
        return content


def member_of(run_id: str, artifact: Mapping[str, Any]) -> str:
    """Return the name under which the content of a registered file is in the archive. Raises `Rejected`."""
    identity, size, digest = (artifact.get(name) for name in ("_id", "size", "sha256"))
    is_sound = isinstance(identity, str) and identity.startswith(f"{run_id}/")
    is_sound = is_sound and isinstance(size, int) and isinstance(digest, str) and len(digest) == DIGEST_CHARS
    name = f"{tape.ARTIFACTS}{str(identity).removeprefix(f'{run_id}/')}"
    if not is_sound or not tape.is_name(name) or not tape.is_artifact(name):
        raise Rejected("bad_document", f"a file is registered as {identity!r}"[:200])
    return name


def _mark(run: Mapping[str, Any], name: str) -> tuple[int, int] | None:
    """Return attempt and position of a root that the run tells, None where it tells none."""
    told = run.get(name)
    if not isinstance(told, dict) or not isinstance(told.get("root"), str):
        return None
    attempt, last = told.get("attempt", run.get("attempt")), told.get("last")
    return (attempt, last) if isinstance(attempt, int) and isinstance(last, int) else None
