"""Which tests test a module, which mutants are drawn, and what a toy's tests see of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.mutation.mutants import Change, Mutant, equivalents, mutant, order
from testing.mutation.related_tests import FOLDERS, RelatedTests, find_related
from testing.mutation.score import Score, table
from testing.mutation.trial import BESIDE, Baseline, Copy, Verdict, copied

loads_pytest = pytest.mark.slow("a process of its own loads pytest with all that it brings")

TOY = "events/toy.py"
TOY_TEST = "tests/unit/events/test_toy.py"
TOY_SOURCE = '''"""A toy."""


def larger(one: int, other: int) -> int:
    if one > other:
        return one
    return other


def unseen() -> int:
    return 1
'''
TOY_TESTS = '''"""Tests of a toy."""

from events.toy import larger


def test_the_larger_one_wins() -> None:
    assert larger(1, 2) == 2
    assert larger(2, 1) == 2
'''


def toy_in(root: Path) -> Path:
    """Make a checkout with one module, and one test."""
    for folder in FOLDERS:
        write(root, f"{folder}/__init__.py", "")
    for name in BESIDE:
        (root / name).touch() if "." in name else (root / name).mkdir()
    write(root, TOY, TOY_SOURCE)
    write(root, TOY_TEST, TOY_TESTS)
    return root


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkout to write more into."""
    return toy_in(tmp_path)


def write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def test_a_module_is_judged_by_the_tests_that_import_it_the_quick_kinds_first(root: Path) -> None:
    write(root, "tests/chaos/test_late.py", "import events.toy\n")
    write(root, "tests/integration/test_slow.py", "from events import toy\n")
    write(root, "tests/unit/test_other.py", "from events import toys\n")
    assert find_related(root, TOY).files == (
        TOY_TEST,
        "tests/integration/test_slow.py",
        "tests/chaos/test_late.py",
    )


def test_what_a_support_module_of_the_tests_imports_counts_what_the_product_imports_does_not(
    root: Path,
) -> None:
    write(root, "tests/integration/conftest.py", "from tests.integration.fleets import make\n")
    write(root, "tests/integration/fleets.py", "from events.toy import larger as make\n")
    write(root, "tests/integration/test_fleet.py", "from tests.integration.conftest import make\n")
    write(root, "tests/integration/test_unaware.py", "")
    write(root, "pod_worker/player.py", "from events.toy import larger\n")
    write(root, "tests/unit/pod_worker/test_player.py", "from pod_worker.player import larger\n")
    assert find_related(root, TOY) == RelatedTests((TOY_TEST, "tests/integration/test_fleet.py"))


def test_what_a_package_holds_itself_is_judged_by_the_tests_that_import_the_package(root: Path) -> None:
    write(root, "events/kinds/__init__.py", "")
    write(root, "tests/unit/test_kinds.py", "from events.kinds import KINDS\n")
    assert find_related(root, "events/kinds/__init__.py") == RelatedTests(("tests/unit/test_kinds.py",))


def test_a_module_that_no_test_imports_is_judged_by_those_of_its_nearest_importers(root: Path) -> None:
    write(root, "events/part.py", "")
    assert find_related(root, "events/part.py") == RelatedTests(())
    write(root, "events/whole.py", "from events.part import x\n")
    write(root, "events/toy.py", "from events.whole import x\n")
    assert find_related(root, "events/part.py") == RelatedTests((TOY_TEST,), (TOY,))


def changes(count: int) -> list[Change]:
    return [Change(scope="f", old=str(number), new=str(number + 1)) for number in range(count)]


def test_the_same_seed_draws_the_same_mutants() -> None:
    drawn = order(changes(50), seed=17)
    assert drawn == order(changes(50), seed=17)
    assert sorted(drawn) == list(range(50))
    assert drawn != order(changes(50), seed=18)


def test_code_that_is_new_elsewhere_leaves_the_order_of_what_was_there() -> None:
    new = Change(scope="g", old="0", new="1")
    longer = [new, *changes(50)]
    before = [changes(50)[place] for place in order(changes(50), seed=17)]
    after = [longer[place] for place in order(longer, seed=17)]
    assert [change for change in after if change != new] == before


def test_equal_changes_of_one_function_are_drawn_apart() -> None:
    assert sorted(order([Change(scope="f", old="1", new="2")] * 3, seed=1)) == [0, 1, 2]


def test_a_mutant_names_the_lines_that_differ() -> None:
    made = mutant("a\n  b\nb\n", "a\n  c\nb\n")
    assert (made.line, made.before, made.after) == (2, "b", "c")
    made = mutant("a\nb\nb\n", "a\nb\n")
    assert (made.line, made.before, made.after) == (3, "b", "")


def test_what_a_person_judged_is_known_by_its_text(tmp_path: Path) -> None:
    listed = tmp_path / "equivalent.toml"
    listed.write_text('[[mutant]]\nmodule = "a.py"\nline = "x"\nreplacement = "y"\nreason = "the same"\n')
    assert equivalents("a.py", listed) == {("x", "y")}
    assert equivalents("b.py", listed) == set()


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout of which there is a copy."""
    return toy_in(tmp_path_factory.mktemp("toy"))


@pytest.fixture(scope="module")
def copy(toy: Path) -> Iterator[Copy]:
    """A process that runs the toy's test."""
    with copied(toy) as copy:
        yield copy


@loads_pytest
def test_a_fault_that_a_test_sees_is_killed_and_one_that_none_sees_survives(toy: Path, copy: Copy) -> None:
    mutants = [
        mutant(TOY_SOURCE, TOY_SOURCE.replace(old, new))
        for old, new in ((" > ", " < "), (" > ", " >= "), ("return 1", "return 2"), ("return one", "return"))
    ]
    baseline = copy.assess(find_related(toy, TOY), ["tests"], None)
    verdicts = list(copy.verdicts(TOY, mutants, baseline))
    assert [each.outcome for each in verdicts] == ["killed", "survived", "survived", "killed"]
    assert verdicts[0].by == f"{TOY_TEST}::test_the_larger_one_wins"
    assert (toy / TOY).read_text() == (copy.path / TOY).read_text() == TOY_SOURCE


@loads_pytest
def test_a_mutant_that_never_ends_is_timed_out(copy: Copy) -> None:
    endless = mutant(TOY_SOURCE, TOY_SOURCE.replace("    if one", "    while True: pass\n    if one"))
    baseline = Baseline(seconds={TOY_TEST: 0.0}, left_out=(), clean_s=-9.7)  # 0.9 s are left
    assert [each.outcome for each in copy.verdicts(TOY, [endless], baseline)] == ["timed out"]


@loads_pytest
def test_tests_that_fail_without_a_mutant_judge_nothing(copy: Copy) -> None:
    failing = "tests/unit/events/test_failing.py"
    write(copy.path, failing, "def test_never():\n    assert False\n")
    with pytest.raises(SystemExit, match="do not pass on the module as it is"):
        copy.assess(RelatedTests((TOY_TEST, failing)), ["tests"], None)


@loads_pytest
def test_files_elsewhere_and_slow_ones_are_left_out_and_named(copy: Copy) -> None:
    theirs = RelatedTests((TOY_TEST, "tests/chaos/test_late.py"))
    assert copy.assess(theirs, ["tests/unit"], None).left_out == ["tests/chaos/test_late.py"]
    with pytest.raises(SystemExit, match="no tests are left of tests/unit/events/test_toy"):
        copy.assess(RelatedTests((TOY_TEST,)), ["tests"], 0.001)


def test_a_table_counts_what_never_ended_as_seen() -> None:
    one = Mutant(line=2, before="a", after="b", source="")
    score = Score(
        module=TOY,
        related=RelatedTests((TOY_TEST,)),
        baseline=Baseline(seconds={TOY_TEST: 1.0}, left_out=["tests/x.py"], clean_s=1.0),
        verdicts=[
            Verdict(one, outcome, None, 1.0) for outcome in ("killed", "timed out", "survived", "killed")
        ],
        seconds=4.0,
    )
    assert table([score]).splitlines()[1].split() == [TOY, "*", "4", "2", "1", "1", "75.0", "4"]
    assert list(score.survivors()) == [f"{TOY}:2", "  - a", "  + b"]
