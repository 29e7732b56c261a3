"""Notes as the pipeline reads them."""

from __future__ import annotations

from events.delivery.pipe import Start, decode_parent, encode
from events.queue.notes import Note
from pod_worker.child.notes import ChildNotes


def test_each_note_is_there_once_in_the_order_in_which_it_came() -> None:
    notes = ChildNotes()
    first, second = Note(1, "one", "user:a"), Note(2, "zwei ☃", "user:b")
    assert list(notes.all()) == []
    for note in (first, second, first):
        notes.hear(note)
    assert list(notes.all()) == [first, second]


def test_a_note_and_an_order_with_notes_travel_as_one_line_each() -> None:
    note = Note(1, "two\nlines", "user:a")
    order = Start("r", 1, "probe", {}, "/w", "/w/restored", notes=[note])
    for frame in (note, order):
        line = encode(frame)
        assert line.count(b"\n") == 1
        assert decode_parent(line) == frame
