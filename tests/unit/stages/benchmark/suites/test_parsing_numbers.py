"""Numbers out of answers as models write them: what is understood, and what is not."""

from __future__ import annotations

from fractions import Fraction

import pytest

from stages.benchmark.suites.parsing.number import parse_number, single_number
from stages.benchmark.suites.parsing.quantity import agree

UNDERSTOOD = (
    ("42", "42"),
    ("42.", "42"),
    ("#### 42", "42"),
    ("She has 5 left.\n#### 1,234", "1234"),
    ("5 + 3 = <<5+3=8>>8\n#### 8", "8"),
    ("Answer: 18", "18"),
    ("Answer: $18", "18"),
    ("Answer: $18.50", "37/2"),
    ("Answer: 18 dollars", "18"),
    ("**Answer: 18**", "18"),
    ("**Answer:** 18 apples", "18"),
    ("The answer is 18.", "18"),
    ("The answer is **18**.", "18"),
    ("The final answer is $\\boxed{18}$.", "18"),
    ("The final answer is: 1,234,567", "1234567"),
    ("The answer is -7.", "-7"),
    ("The answer is \u22127", "-7"),
    ("The answer is negative 7", "-7"),
    ("The temperature fell to -12 degrees.", "-12"),
    ("Answer: -$5", "-5"),
    ("Answer: $-5", "-5"),
    ("\\boxed{204}", "204"),
    ("\\boxed{073}", "73"),
    ("Thus $m+n = \\boxed{25}$.", "25"),
    ("\\boxed{m+n=25}", "25"),
    ("\\boxed{x = -3}", "-3"),
    ("\\boxed{\\frac{3}{4}}", "3/4"),
    ("\\boxed{-\\frac{1}{2}}", "-1/2"),
    ("\\boxed{\\dfrac{11}{3}}", "11/3"),
    ("\\boxed{\\frac12}", "1/2"),
    ("\\boxed{1\\frac{1}{2}}", "3/2"),
    ("\\boxed{18\\text{ dollars}}", "18"),
    ("\\boxed{\\$18}", "18"),
    ("\\boxed{1{,}234}", "1234"),
    ("\\boxed{12\\,345}", "12345"),
    ("\\boxed{45^\\circ}", "45"),
    ("\\boxed{50\\%}", "50"),
    ("\\(\\boxed{9}\\)", "9"),
    ("\\[\n\\boxed{9}\n\\]", "9"),
    ("\\boxed{\\text{9}}", "9"),
    ("First \\boxed{3}, and then \\boxed{4}", "4"),
    ("Answer: 3/4", "3/4"),
    ("Answer: 1 1/2 cups", "3/2"),
    ("Answer: ½", "1/2"),
    ("Answer: 2½ hours", "5/2"),
    ("Answer: 0.75", "3/4"),
    ("Answer: .5", "1/2"),
    ("Answer: 25%", "25"),
    ("Answer: 1.5e3", "1500"),
    ("Answer: 3 × 10^8 m/s", "300000000"),
    ("Answer: 3 \\times 10^{8}", "300000000"),
    ("Answer: 6.02 × 10²³", "602000000000000000000000"),
    ("Answer: 2 million", "2000000"),
    ("Answer: 2.5 thousand dollars", "2500"),
    ("Answer: 5k", "5000"),
    ("Answer: 2^10", "1024"),
    ("Answer: twelve", "12"),
    ("The answer is forty-two.", "42"),
    ("The answer is one hundred and five apples.", "105"),
    ("Answer: 12 + 30 = 42", "42"),
    ("The answer is 3 times 4 = 12.", "12"),
    ("The answer is 7, because 10 - 3 = 7 and 3 + 4 = 7.", "7"),
    ("The answer is 7 (10 - 3).", "7"),
    ("Answer: approximately 3.14", "157/50"),
    ("Answer: ≈ 3.5", "7/2"),
    ("Answer: 36 m^2", "36"),
    ("Answer: 36 cm²", "36"),
    ("Answer: x = 5", "5"),
    ("Answer: 5 hours and some minutes", "5"),
    ("Answer:\n\n42", "42"),
    ("### Answer\n42", "42"),
    ("<answer>42</answer>", "42"),
    ('{"answer": 42}', "42"),
    ('{"answer": "42"}', "42"),
    ("<think>It is 41, or 43.</think>It is 42.", "42"),
    ("it is 41</think>\n42", "42"),
    ("3 eggs eaten, 4 baked, so 16 - 3 - 4 = 9 are sold at 2 each.\nShe makes 9 * 2 = $18 every day.", "18"),
    ("So she makes 18 dollars.\n\nLet me know if you need more help!", "18"),
    ("5 + 5 = 10\n10 * 2 = 20\nTotal: 20 kg", "20"),
    ("The total is **1,050** meters.", "1050"),
    ("He paid **$64** in total for the 16 glasses.", "64"),
    ("There are 3 boxes; each has 4 kg of H2O, so 12 kg.", "12"),
    ("That leaves 10 - 4 = 6", "6"),
    ("The number is 1 234 567.", "1234567"),
    ("Answer: 1_000", "1000"),
    ("Answer: 1'000", "1000"),
    ("Answer: 12 of the 30 students", "12"),
    ("答案\uff1a42", "42"),
    ("The answer is $\\frac{-5}{2}$", "-5/2"),
    ("The answer is $(-3)$.", "-3"),
    ("Answer: +8", "8"),
    ("Answer: 1,00,000 rupees", "100000"),
    ("Answer: 100 000", "100000"),
    ("Answer: $\\frac{7}{2}$ or 3.5", "7/2"),
    ("\\boxed{10^{-3}}", "1/1000"),
    ("The answer, therefore, is 42.", "42"),
    ("The answer turns out to be 42.", "42"),
    ("**Final Answer**\n42\n\nExplanation: 6 times 7, and not 3.", "42"),
    ("42 is the answer.", "42"),
    ("\\boxed{5 \\mathrm{~cm}}", "5"),
    ("Answer: 1/3 ≈ 0.333", "1/3"),
    ("Answer: twenty-five percent", "25"),
    ("Answer: $5 million", "5000000"),
    ("Answer: 7\n\nLet me verify: 3 + 4 = 7 (2 kinds).", "7"),
)

NOT_UNDERSTOOD = (
    "",
    "I do not know.",
    "I cannot determine the answer from these 3 facts.",
    "There is not enough information about the 5 boxes.",
    "<think>The answer is 42",
    "<think>The answer is 42.</think>",
    "Answer: unknown",
    "\\boxed{(3, 4)}",
    "\\boxed{5-7}",
    "Answer: 5 or 6",
    "Answer: between 5 and 7",
    "Answer: 5 to 7",
    "Answer: 1, 2, 3",
    "\\boxed{2\\sqrt{3}}",
    "\\boxed{5\\pi}",
    "\\boxed{x}",
    "\\boxed{1/0}",
    "Answer: 12:30",
    "Answer: 10 + 5",
    "Answer: 1.234.567",
    "It is 5 or 6.",
    "She gives away 3 pens. She has 9 pens left, so ",
    "First, 3 + 4 =",
    "\\boxed{3 \\pm 1}",
    "Answer: 18,50",
    "The answer is",
    "No number here.",
    "Answer: " + "9" * 5_000,
    "Answer: 1e999999",
    "Answer: 9^9^9^9",
    "Answer: 10^999",
)


@pytest.mark.parametrize(("answer", "value"), UNDERSTOOD)
def test_a_number_is_found(answer: str, value: str) -> None:
    found = parse_number(answer)
    assert found is not None
    assert found.exact == Fraction(value)


@pytest.mark.parametrize("answer", NOT_UNDERSTOOD)
def test_what_gives_no_single_number_is_not_guessed(answer: str) -> None:
    assert parse_number(answer) is None


@pytest.mark.parametrize(
    ("given", "wanted", "tolerance", "is_right"),
    [
        ("50%", "0.5", 0.0, True),
        ("50", "0.5", 0.0, False),
        ("18.00", "18", 0.0, True),
        ("3.14", "3.14159", 0.001, True),
        ("3.14", "3.14159", 0.0, False),
        ("0.33", "1/3", 0.02, True),
        ("0", "0", 0.0, True),
    ],
)
def test_numbers_agree_by_their_value(given: str, wanted: str, tolerance: float, is_right: bool) -> None:
    left, right = single_number(given), single_number(wanted)
    assert left is not None
    assert right is not None
    assert agree(left, right, tolerance) == is_right
