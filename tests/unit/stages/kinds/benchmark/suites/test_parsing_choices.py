"""Letters out of answers as models write them: what is understood, and what is not."""

from __future__ import annotations

import pytest

from stages.kinds.benchmark.suites.parsing.choice import LETTERS, parse_choice

CITIES = ("Paris", "London", "Berlin", "New York")
TEN = ("3 N", "5 N", "7 N", "9 N", "11 N", "13 N", "15 N", "17 N", "19 N", "21 N")

UNDERSTOOD = (
    ("A", "A"),
    ("B.", "B"),
    ("(C)", "C"),
    ("c", "C"),
    ("d)", "D"),
    ("**B**", "B"),
    ("**(D)**", "D"),
    ("A. Paris", "A"),
    ("B) London", "B"),
    ("C: Berlin", "C"),
    ("Answer: A", "A"),
    ("Answer: (B)", "B"),
    ("answer: c", "C"),
    ("ANSWER: D", "D"),
    ("**Answer:** B", "B"),
    ("**Answer: B**", "B"),
    ("Answer: **B**", "B"),
    ("**Answer**: (C) Berlin", "C"),
    ("Final Answer: D.", "D"),
    ("The final answer is $\\boxed{B}$.", "B"),
    ("The answer is A.", "A"),
    ("The answer is (A)", "A"),
    ("The answer is: (B).", "B"),
    ("The correct answer is C", "C"),
    ("The correct answer is **C) Berlin**.", "C"),
    ("The correct answer is option D: New York", "D"),
    ("The best answer would be B, since it is the capital.", "B"),
    ("Therefore, the answer is (D).", "D"),
    ("the answer is therefore (b).", "B"),
    ("So the correct option is B.", "B"),
    ("Option C is correct.", "C"),
    ("(B) is the correct answer.", "B"),
    ("B is correct because the others are not.", "B"),
    ("I would choose D.", "D"),
    ("I'd go with C here.", "C"),
    ("Answer: A because it is the capital of France.", "A"),
    ("\\boxed{A}", "A"),
    ("\\boxed{\\text{B}}", "B"),
    ("$\\boxed{\\textbf{(C)}}$", "C"),
    ("\\[\\boxed{\\text{D. New York}}\\]", "D"),
    ("\\boxed{\\mathrm{B) London}}", "B"),
    ("<think>It may be A, or B.</think>The answer is C.", "C"),
    ("<think>\nThe answer is A.\n</think>\n\nB", "B"),
    ("it may be A</think>\nAnswer: D", "D"),
    ("<answer>B</answer>", "B"),
    ('{"answer": "C"}', "C"),
    ('```json\n{"answer": "D"}\n```', "D"),
    ("Let's go through them.\nA is wrong.\nB is wrong.\nAnswer: C", "C"),
    ("A) no, that is France.\nB) no, England.\nC) yes.\nD) no.\n\nThe answer is C.", "C"),
    ("First I thought the answer is A. But the answer is B.", "B"),
    ("Paris is in France.\n\n**C**", "C"),
    ("It is on the Spree, so it must be C.", "C"),
    ("It is on the Spree. Hence (C).", "C"),
    ("Berlin", "C"),
    ("The answer is New York.", "D"),
    ("**Berlin**", "C"),
    ("The capital of Germany is Berlin.", "C"),
    ("Answer: \n\nB", "B"),
    ("Answer:\n(B) London", "B"),
    ("### Answer\n**B**", "B"),
    ("答案\uff1aB", "B"),
    ("答案是 C。", "C"),
    ("Die Antwort ist B.", "B"),
    ("La réponse est (D).", "D"),
    ("\uff21", "A"),
    ("The answer is not A. The answer is B.", "B"),
    ("A is not correct, so the answer is D.", "D"),
    ("Answer - C", "C"),
    ("My answer: option (A)", "A"),
    ("The correct choice is: A) Paris", "A"),
    ("Answer: [B]", "B"),
    ("Answer: {D}", "D"),
    ("Answer: `C`", "C"),
    ("The answer is \u201cB\u201d.", "B"),
    ("We eliminate A, B, and D. Answer: C", "C"),
    ("A, B and D are wrong; thus C.", "C"),
    ("The answer isn't A, it's B.", "B"),
    ("Answer: A\n\nWait, that is wrong. Answer: B", "B"),
    ("Answer: [[B]]", "B"),
    ("boxed{C}", "C"),
    ("Option B", "B"),
    ("Choice C.", "C"),
    ("(B) London", "B"),
    ("B, London", "B"),
    ("B - London", "B"),
    ("London (B)", "B"),
    ("Ans: B", "B"),
    ("The answer's B.", "B"),
    ("My final choice: C", "C"),
    ("Selected option: (D)", "D"),
    ("I choose: C", "C"),
    ("The correct letter is B", "B"),
    ("It's B.", "B"),
    ("B!", "B"),
    ("The answer is option A, not B.", "A"),
    ("Answer: A\n\nExplanation: B is in England, C is in Germany.", "A"),
    ("A\n\nParis has been the capital since 987. Option B is in England.", "A"),
    ("The right answer is 'D'", "D"),
    ("The answer is $\\text{B}$.", "B"),
    ("Looking at the options, (B) fits.", "B"),
    ("<|channel|>analysis<|message|>maybe A<|end|><|start|>assistant<|channel|>final<|message|>B", "B"),
    ("so it must be C", "C"),
    ("Therefore it has to be D", "D"),
    ("Hence the correct one would be A.", "A"),
    ("It can only be C.", "C"),
    ("That leaves D.", "D"),
    ("This leaves us with B", "B"),
    ("which leaves option C", "C"),
    ("I'd go for B", "B"),
    ("That means B.", "B"),
    ("So, it should be D", "D"),
)

NOT_UNDERSTOOD = (
    "",
    "   \n",
    "I do not know.",
    "I cannot answer that question.",
    "<think>The answer is A",
    "<think>The answer is A.</think>",
    "The answer is A or B.",
    "Answer: A, B",
    "Answer: (A) and (C)",
    "\\boxed{A} or perhaps \\boxed{A, B}",
    "Answer: E",
    "Both A and B.",
    "A and B are both correct.",
    "It could be A. It could be B.",
    "Answer: A or maybe B",
    "None of these.",
    "(A) and (B)",
    "First, (A) is in France, and the",
    "\\boxed{A, C}",
    "The options are A, B, C and D.",
    "I don't have enough information to choose A.",
    "The answer depends on the year.",
    "A common mistake is to think of the largest city.",
    "All of the options are plausible.",
    "I think that we need more information.",
    "Water boils at 100 C",
    "Answer:",
    "The answer is",
    "A) is in France\nB) is in England\nC) is in Germany\nD) is in America",
    "\\boxed{A",
    "Tokyo",
    "42",
    "It must be C or D",
    "it must not be C",
    "Eliminating A and B leaves C or D",
    "It must be something else",
)


@pytest.mark.parametrize(("answer", "letter"), UNDERSTOOD)
def test_a_letter_is_found(answer: str, letter: str) -> None:
    assert parse_choice(answer, CITIES) == LETTERS.index(letter)


@pytest.mark.parametrize("answer", NOT_UNDERSTOOD)
def test_what_names_no_single_option_is_not_guessed(answer: str) -> None:
    assert parse_choice(answer, CITIES) is None


@pytest.mark.parametrize(
    ("answer", "letter"),
    [
        ("The answer is I.", "I"),
        ("The answer is (J)", "J"),
        ("the net force is 7 N", "C"),
        ("Answer: 15 N", "G"),
        ("I think the answer is (E).", "E"),
        ("The answer is (I) 19 N.", "I"),
    ],
)
def test_ten_options(answer: str, letter: str) -> None:
    assert parse_choice(answer, TEN) == LETTERS.index(letter)


def test_an_option_within_another_is_told_apart() -> None:
    options = ("mitosis", "meiosis", "mitosis and meiosis", "neither")
    assert parse_choice("The answer is mitosis and meiosis.", options) == 2
    assert parse_choice("mitosis", options) == 0


def test_equal_options_are_not_told_apart_by_their_text() -> None:
    assert parse_choice("Paris", ("Paris", "Paris", "Rome")) is None
