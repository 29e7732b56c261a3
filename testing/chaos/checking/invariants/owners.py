"""What has to be true of those who held a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from testing.chaos.checking.evidence import Evidence, Term, Violation
from testing.chaos.checking.ownership import Ownership, overlaps, ownerships
from testing.chaos.records.journal import Line

OWNER: Final = "at most one live owner at any time"
CLAIM: Final = "each acknowledged claim is in the log, and each claim in the log was somebody's"
SETTLE: Final = "each acknowledged settlement is in the log"
FENCED: Final = "no write by a fenced worker"
SUSPENDED: Final = "a worker without trust stands still"
ALIVE: Final = "no worker ends by itself"
LATE_S: Final = 1.5


def live_owners(evidence: Evidence) -> Iterator[Violation]:
    """No two workers were entitled to one run at one moment."""
    for one, other in overlaps(ownerships(evidence.lines)):
        message = (
            f"{_shown(one)} until {one.until_s:.3f} s, {_shown(other)} from {other.from_s:.3f} s: "
            f"{one.until_s - other.from_s:.3f} s together"
        )
        yield Violation(OWNER, one.term[0], message)


def suspended(evidence: Evidence) -> Iterator[Violation]:
    """A child does not run on when its parent is awake and has no trust."""
    for hold in ownerships(evidence.lines):
        if hold.awake_s > LATE_S:
            yield Violation(SUSPENDED, hold.term[0], f"{_shown(hold)} ran on for {hold.awake_s:.3f} s")


def claims(evidence: Evidence) -> Iterator[Violation]:
    """Journals and log tell of the same claims."""
    made: dict[Term, str] = {}
    for run_id, entries in evidence.decisions.items():
        for entry in entries:
            if entry.cause == "claim":
                made[run_id, entry.sets["attempt"]] = entry.by
    asked, known = _claims_in_journals(evidence.lines)
    for term, tokens in known.items():
        pod = made.get(term)
        if pod is None:
            yield Violation(CLAIM, term[0], f"attempt {term[1]} was acknowledged, and is not in the log")
        if len(tokens) > 1:
            yield Violation(CLAIM, term[0], f"attempt {term[1]} was given to {len(tokens)} tokens")
    for term, pod in made.items():
        if term not in known and pod not in asked:
            yield Violation(
                CLAIM, term[0], f"attempt {term[1]} was claimed by {pod}, who never asked in doubt"
            )


def _claims_in_journals(lines: Sequence[Line]) -> tuple[set[str], dict[Term, set[str]]]:
    """Return the pods with a claim whose outcome they did not learn, and the claims that were learnt."""
    open_calls: dict[tuple[str, int], Line] = {}
    doubtful: set[str] = set()
    known: dict[Term, set[str]] = {}
    for line in lines:
        call = (line.actor, line.call)
        if line.what == "begun":
            ended = [key for key in open_calls if key[0] == line.actor]
            doubtful.update(open_calls.pop(key).data.get("pod", "") for key in ended)
        elif line.what in ("claim", "recover") and line.phase == "invoke":
            open_calls[call] = line
        elif line.what in ("claim", "recover"):
            asked = open_calls.pop(call)
            if line.phase == "ok":
                known.setdefault((line.run or "", line.attempt or 0), set()).add(asked.data["token"])
            elif line.phase == "unknown":
                doubtful.add(asked.data.get("pod", ""))
    doubtful.update(line.data.get("pod", "") for line in open_calls.values())
    return doubtful, known


def settlements(evidence: Evidence) -> Iterator[Violation]:
    """What a worker was told is settled, is."""
    noted = {
        (run_id, entry.attempt)
        for run_id, entries in evidence.decisions.items()
        for entry in entries
        if "settled" in entry.sets and entry.sets["settled"] is not None
    }
    for line in evidence.lines:
        if line.what == "settle" and line.phase == "ok" and (line.run, line.attempt) not in noted:
            message = f"attempt {line.attempt}: {line.actor} was told that it is settled"
            yield Violation(SETTLE, line.run, message)


def fenced(evidence: Evidence) -> Iterator[Violation]:
    """Each decision was made by the attempt that the run stood at, if by an attempt at all."""
    for run_id, entries in evidence.decisions.items():
        for entry in entries:
            _, marked, term = entry.by.rpartition("#a")
            if marked and term != str(entry.attempt):
                message = f"decision {entry.n} ({entry.cause}) at attempt {entry.attempt} is by {entry.by}"
                yield Violation(FENCED, run_id, message)
            if entry.cause.startswith("end: ") and not marked:
                yield Violation(
                    FENCED, run_id, f"decision {entry.n} ({entry.cause}) is by nobody: {entry.by}"
                )


def alive(evidence: Evidence) -> Iterator[Violation]:
    """No fault of the world outside is a reason for a worker to die."""
    for line in evidence.lines:
        if line.what == "died":
            yield Violation(ALIVE, None, f"{line.actor} ended with {line.data['error']}")


def _shown(hold: Ownership) -> str:
    return f"{hold.actor} (attempt {hold.term[1]})"
