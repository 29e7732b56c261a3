"""What sentences say: each word is bound to a field, or the sentence is refused by the words that are not."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from events.kinds.idea import idea_of
from events.kinds.space.sentences.grammar import Unread
from events.kinds.space.sentences.statement import Statement
from events.kinds.space.sentences.words import plain
from events.kinds.space.understanding import statement_in, understand
from events.runtime.errors import NotMeasurable

TABLE: Final = Path(__file__).with_name("sentences.txt")
ROWS: Final = [
    line.partition(" -> ")[::2] for line in TABLE.read_text("utf-8").splitlines() if not line.startswith("#")
]
READ: Final = {
    sentence: said for sentence, _ in ROWS if isinstance(said := statement_in(sentence), Statement)
}
FILE: Final = "thefileofdata"  # stands for the name of a file


def shown(sentence: str) -> str:
    """Return what a sentence says, or why it is refused, in one line."""
    said = statement_in(sentence)
    if isinstance(said, Unread):
        return f"refused: {'; '.join(said.words)}"
    try:
        claim = understand(idea_of(sentence)).claim
    except NotMeasurable as error:
        return f"{said} -> not measured: {' '.join(error.words)}"
    is_plain = len(claim.effects) == 1 and not claim.effects[0].margin
    return str(said) if is_plain else f"{said} -> {claim.sentence}"


def refusal(sentence: str) -> NotMeasurable:
    with pytest.raises(NotMeasurable) as caught:
        understand(idea_of(sentence))
    return caught.value


def test_the_table_holds_hundreds_of_sentences_of_both_ends() -> None:
    assert len(ROWS) >= 400
    assert len(dict(ROWS)) == len(ROWS)
    assert 150 <= sum(what.startswith("refused") for _, what in ROWS) <= len(ROWS) - 150


def test_each_sentence_says_what_the_table_says() -> None:
    wrong = [f"{sentence} -> {found}" for sentence, what in ROWS if (found := shown(sentence)) != what]
    assert wrong == []


def test_the_bound_words_are_the_sentence() -> None:
    for sentence, said in READ.items():
        bound = " ".join(each.words for each in said.bound)
        assert FILE in bound or bound == plain(sentence)


def test_a_word_more_that_is_not_known_refuses_every_sentence() -> None:
    for number, sentence in enumerate(READ):
        words = sentence.split()
        words.insert(number % (len(words) + 1), "flarb")
        found = statement_in(" ".join(words))
        assert isinstance(found, Unread), sentence
        assert any("flarb" in each for each in found.words) or " class flarb " in " ".join(words)


def test_the_nearest_claims_can_be_measured_as_they_are_written() -> None:
    near = {
        each
        for sentence, what in ROWS
        if "refused" in what or "not m" in what
        for each in refusal(sentence).nearest
    }
    assert len(near) >= 40
    for each in near:
        assert understand(idea_of(each)).claim.sentence


def test_a_refusal_says_what_can_be_measured_and_what_lifts_the_limit() -> None:
    error = refusal("Lookahead improves accuracy")
    assert (error.code, error.words) == ("not_measurable", ("lookahead",))
    assert {"dropout", "Adam"} <= set(error.measurable["interventions"])
    assert "accuracy" in error.measurable["metrics"]
    assert "digits" in error.measurable["data_sets"]
    assert "researcher: model" in error.message


@pytest.mark.parametrize(
    ("sentence", "nearest"),
    [
        ("Dropuot improves accuracy", "With dropout, the accuracy on digits becomes higher."),
        (
            "Lookahead with Adam lowers the loss",
            "With Adam, the negative log-likelihood on digits becomes lower.",
        ),
        ("Dropout never reduces the error", "With dropout, the accuracy on digits becomes higher."),
        ("AdamW may beat Adam on wine", "With AdamW instead of Adam, the accuracy on wine becomes higher."),
        ("Dropout of 0.95 hurts", "With dropout, the accuracy on digits becomes lower."),
    ],
)
def test_the_nearest_claim_is_the_sentence_without_what_stands_in_the_way(
    sentence: str, nearest: str
) -> None:
    assert refusal(sentence).nearest == (nearest,)


def test_a_claim_without_a_direction_has_two_nearest() -> None:
    assert [each.split()[-1] for each in refusal("Dropout affects accuracy").nearest] == ["higher.", "lower."]
