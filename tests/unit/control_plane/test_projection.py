"""What events change, as values."""

from __future__ import annotations

from control_plane.projection import AttemptView, Skip, Update, Write, fold, project
from events import catalog as c
from events.codec import decode_ndjson
from events.envelope import Event, wire

VIEW = AttemptView("r", 2)


def said(fact: c.Fact, sequence: int = 1) -> Event:
    line = wire(
        fact, event_id=f"e{sequence}", source="//pod/1", run_id="r", attempt=2, sequence=sequence,
        time="2026-11-21T10:00:00.000Z",
    )  # fmt: skip
    (decoded,) = decode_ndjson(line)
    assert isinstance(decoded.outcome, Event)
    return decoded.outcome


def written(*events: Event) -> Write:
    folded = fold(VIEW, list(events), 0)
    (write,) = folded.writes.values()
    return write


def test_ideas_are_kept_as_they_were_said_one_document_an_attempt() -> None:
    ideas = [{"Name": "one", "of nobody": {"$gt": 1}}]
    write = written(said(c.IdeationGenerated(ideas=ideas, unfinished=[{"Name": "two"}])))
    assert (write.collection, write.id, write.seq) == ("ideas", "r/a2/ideas", 1)
    assert write.fields["ideas"] == ideas
    assert write.fields["unfinished"] == [{"Name": "two"}]
    assert (write.fields["runId"], write.fields["attempt"]) == ("r", 2)


def test_what_was_generated_last_in_an_attempt_counts() -> None:
    first = said(c.IdeationGenerated(ideas=[{"Name": "one"}]))
    second = said(c.IdeationGenerated(ideas=[{"Name": "one"}, {"Name": "two"}]), 2)
    write = written(first, second)
    assert (write.seq, len(write.fields["ideas"]), write.fields["unfinished"]) == (2, 2, [])


def test_a_failed_ideation_is_shown_from_the_log() -> None:
    effect = project(VIEW, said(c.IdeationFailed(code="NO_IDEA", message="none was finalised")))
    assert isinstance(effect, Skip)


def test_what_a_failed_ideation_has_begun_is_kept_beside_no_ideas() -> None:
    begun = [{"number": 1, "why": "the model gave no answer", "idea": None}]
    write = written(said(c.IdeationFailed(code="NO_IDEA", message="none", unfinished=begun)))
    assert (write.collection, write.fields["ideas"], write.fields["unfinished"]) == ("ideas", [], begun)


def test_folding_again_ends_in_the_same_documents() -> None:
    events = [said(c.IdeationGenerated(ideas=[{"Name": str(n)}]), n) for n in range(1, 4)]
    again = fold(VIEW, events, 0)
    assert again.writes == fold(VIEW, events, 0).writes
    assert isinstance(project(again.view, events[0]), Update)
