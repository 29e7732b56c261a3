"""Reads an archive that comes from elsewhere, and decides whether this fleet takes it; it stores nothing.

Law: nothing of an archive is believed. Its form is what a writer makes, each document has its types, and all
of them together are what a replay of its own log makes, as `podfleet verify` judges a run of this fleet. So
what is refused here would be a finding there. What is held has the bound that a run has there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, BinaryIO, Final

from control_plane.model.projection import LANES, RESULTS
from control_plane.store.verify.collecting import HAND_MADE, Collected, Unjudged
from control_plane.store.verify.evidence import Evidence
from control_plane.store.verify.shapes import problem
from control_plane.upkeep.archives.imported import (
    BAD,
    Origin,
    require_beside,
    require_decision,
    require_event,
    require_run,
    require_spec,
    stored_run,
    with_origin,
)
from control_plane.upkeep.archives.imported_rows import ImportedRows
from control_plane.verify.invariants import Case
from control_plane.verify.replay import replay
from control_plane.verify.result_rows import reaches_of
from control_plane.verify.verifier import judge
from events.files.archive import manifest as manifests
from events.files.archive import tape
from events.files.archive.check import Checked, checked, member_of
from events.files.archive.manifest import Member
from events.files.checkpoints import checkpoint_of
from events.kinds import DOCUMENTS
from events.kinds.declaring.queues import RUNS
from events.runtime.errors import Rejected

SPECS: Final = "run_specs"
OTHERS_MAX: Final = 100_000  # events without a number
WRONG: Final = "not_of_its_log"
SHOWN_CHARS_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class File:
    """A registered file whose content the archive has: `at` is where that begins, in bytes."""

    key: str
    size: int
    at: int


@dataclass(frozen=True, slots=True)
class Admitted:
    """An archive that is taken: its run and specification as they are stored, and where its files are."""

    run_id: str
    run: Mapping[str, Any]
    spec: Mapping[str, Any]
    files: list[File]
    members: list[Member]  # but those of files
    digest: str  # of the whole archive, in hexadecimal


def admitted(file: BinaryIO, origin: Origin, now: datetime) -> Admitted:
    """Read an archive that was received whole. Raises `Rejected`, which names what is wrong.

    `now` is the store's clock.
    """
    reading = _Reading()
    found = checked(file, reading)
    if found.findings:
        raise Rejected("archive_broken", _told(found.findings))
    try:
        wrong = list(reading.wrong(now))
    except HAND_MADE as error:
        raise Rejected(BAD, f"a field is missing or of another type: {error!r}"[:SHOWN_CHARS_MAX]) from error
    if wrong:
        raise Rejected(WRONG, _told(wrong))
    return reading.admitted(found, origin)


def _told(wrong: list[str]) -> str:
    more = f", and {len(wrong) - 1} more things are wrong" if len(wrong) > 1 else ""
    return f"{wrong[0][:SHOWN_CHARS_MAX]}{more}"


@dataclass(slots=True)
class _Reading:
    """Takes what an archive holds, in its order; each document is checked as it comes."""

    run: Mapping[str, Any] = field(default_factory=dict)
    spec: Mapping[str, Any] = field(default_factory=dict)
    held: Collected = field(default_factory=lambda: Collected({}))
    rows: ImportedRows = field(default_factory=lambda: ImportedRows(""))
    places: dict[str, tuple[int, int]] = field(default_factory=dict)
    files: dict[str, Mapping[str, Any]] = field(default_factory=dict)  # by their members
    has_events: bool = False
    others: int = 0

    def document(self, listed: str, document: Mapping[str, Any]) -> None:
        """Take a document of a list, the run before all others. Raises `Rejected`."""
        try:
            self._take(listed, document)
        except Unjudged as error:
            raise Rejected("too_large", error.message) from error
        except HAND_MADE as error:
            raise Rejected(BAD, f"{listed}: a field has another type: {error!r}"[:SHOWN_CHARS_MAX]) from error

    def _take(self, listed: str, document: Mapping[str, Any]) -> None:
        if listed == "run":
            require_run(document)
            self.run = document
            run = stored_run(document)
            if (wrong := problem(RUNS.collection, run)) is not None:
                raise Rejected(BAD, f"{tape.RUN}: {wrong}")
            self.held, self.rows = Collected(run), ImportedRows(str(document["kind"]))
            self.held.add(RUNS.collection, run, 0)
        elif listed == SPECS:
            if self.spec:
                raise Rejected(BAD, f"it has more than one document of {SPECS}")
            require_spec(document, self.run)
            self.spec = document
        elif listed == tape.DECISIONS:
            self.held.add_decision(document, require_decision(document, self.run))
        else:
            self._take_beside(listed, document)

    def _take_beside(self, listed: str, document: Mapping[str, Any]) -> None:
        size = require_beside(listed, document, self.run)
        if self.has_events:
            raise Rejected("bad_order", f"{listed} come behind the events that made them")
        if listed == RESULTS:
            self.rows.add(document)
            return
        if listed == "artifacts":
            self.files[member_of(str(self.run["_id"]), document)] = document
        self.held.add(listed, document, size)

    def event(self, event: Mapping[str, Any]) -> None:
        """Take an event that is no decision. Raises `Rejected`."""
        size = require_event(event, self.run)
        if "sequence" not in event:
            self.others += 1
            if self.others > OTHERS_MAX:
                raise Rejected("too_large", f"it has over {OTHERS_MAX:,} events without a number")
            return
        self.has_events = True
        self.rows.note(event)
        try:
            self.held.add_event(event, size)
        except Unjudged as error:
            raise Rejected("too_large", error.message) from error

    def artifact(self, name: str, size: int, at: int) -> None:
        """Take where the content of a file begins."""
        self.places[name] = (size, at)

    def wrong(self, now: datetime) -> Iterator[str]:
        """Yield what of the documents does not follow from the log."""
        self.held.close()
        if not self.spec:
            yield f"it has no document of {SPECS}"
            return
        beside = self.held.beside
        evidence = Evidence(
            collection=RUNS.collection,
            run=self.held.run,
            log=self.held.log,
            attempts=beside.get("attempts", ()),
            stages=beside.get("stages", ()),
            artifacts=beside.get("artifacts", ()),
            validations=beside.get("validations", ()),
            dead_letters=(),
            of_kinds={name: beside.get(name, ()) for name in (LANES, *(each.name for each in DOCUMENTS))},
            now=now,
            quiet=self.held.quiet,
            broken=self.held.broken,
            is_log_read=self.held.is_log_read,
            sealed_root=self.held.sealed.stored,
            settled_root=self.held.settled.said,
        )
        yield from (
            f"{each.invariant}: {each.message}" for each in judge(evidence, rebuilds=True) if not each.is_note
        )
        replayed = replay(evidence.run_id, evidence.decisions, evidence.events, evidence.quiet)
        yield from self.rows.wrong(reaches_of(Case(evidence, replayed)))

    def admitted(self, found: Checked, origin: Origin) -> Admitted:
        """Return what is taken. Raises `Rejected` where files are not in it, and not known as gone."""
        files = [
            File(document["key"], *self.places[name])
            for name, document in self.files.items()
            if name in self.places
        ]
        self._require_own_keys()
        run_id = str(self.run["_id"])
        run = with_origin(self.run, found.manifest, origin, self._not_brought(found))
        members = [each for each in found.manifest.members if not tape.is_artifact(each.name)]
        digest = hashlib.sha256(manifests.encoded(found.manifest)).hexdigest()
        return Admitted(run_id, run, self.spec, files, members, digest)

    def _require_own_keys(self) -> None:
        """Check that no two files would be one object."""
        known: dict[str, tuple[int, str]] = {}
        for document in self.files.values():
            content = (document["size"], document["sha256"])
            if known.setdefault(document["key"], content) != content:
                raise Rejected(BAD, f"two files of it would be the object {document['key']!r}"[:300])

    def _not_brought(self, found: Checked) -> frozenset[str]:
        """Return which sorts of files the archive was made without."""
        taken, missing = self.run.get("taken", {}), dict[str, str]()
        for name, document in self.files.items():
            what = "files" if checkpoint_of(document["name"]) is None else "checkpoints"
            if name not in self.places and what not in taken:
                missing[what] = document["name"]
        if missing and found.manifest.has_artifacts:
            name = next(iter(missing.values()))
            raise Rejected(
                "files_missing",
                f"its fleet had lost the file {name!r}; an archive of `--no-artifacts` is taken without any",
            )
        return frozenset(missing)
