"""The tabs of a run: which there are, its files as a tree, its numbers, the commands that repeat it."""

from __future__ import annotations

import json
import shlex
import subprocess
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from control_plane.reads.kinds.parts import parts_of_kinds
from control_plane.runs.options import QUEUE_LIMIT_S
from control_plane.server.web.forms.commands import cli_command, curl_command, submission_like
from control_plane.server.web.run_pages.file_tree import DEPTH_MAX, FOLDERS_MAX, Folder, file_tree
from control_plane.server.web.run_pages.headline import NUMBERS_MAX, Headline, headline
from control_plane.server.web.run_pages.tabs import Tab, tabs_of
from control_plane.server.web.sections import placed
from events.text.escaping import STEERING
from podfleet import parameters


def run_of(kind: str, **changes: Any) -> Any:
    known = {"kind": kind, "status": "RUNNING", "validation": None, "human_verdict": None, "summary": None}
    return SimpleNamespace(**known | changes)


def tabs(kind: str, **changes: Any) -> list[Tab]:
    return tabs_of(run_of(kind, **changes), placed(kind, parts_of_kinds().get(kind, ())))


def names(kind: str, **changes: Any) -> list[str]:
    return [each.name for each in tabs(kind, **changes)]


def test_a_run_has_the_tabs_of_every_run_and_those_of_its_kind() -> None:
    of_every_run = ["overview", "metrics", "log", "files", "attempts", "spec"]
    assert names("probe") == ["overview", "results", *of_every_run[1:]]
    assert names("of a package that is not installed here") == of_every_run
    own = [
        "overview",
        "results",
        "metrics",
        "paper",
        "tree",
        "validation",
        "log",
        "files",
        "attempts",
        "spec",
    ]
    assert names("experiment") == own
    assert names("ideation")[2] == "ideas", "it declares no results"


def test_a_run_that_is_judged_has_a_validation_and_one_with_numbers_has_results() -> None:
    assert "validation" in names("probe", validation={"verdict": "pass"})
    assert "validation" in names("probe", status="AWAITING_HUMAN")
    assert "results" not in names("ideation")
    assert names("ideation", summary={"value": 1.0})[1] == "results"


def test_what_a_link_named_on_the_one_page_there_was_is_on_a_tab() -> None:
    anchors = {name: each.path for each in tabs("experiment") for name in each.anchors}
    assert anchors["n-"] == "/kind/tree"
    assert anchors["paper"] == "/kind/paper"
    assert anchors["v-"] == "/validation"
    assert anchors["traceback-"] == "/attempts"
    assert (anchors["specification"], anchors["checkpoints"]) == ("/spec", "/files")


def file(name: str, size: int = 1, attempt: int = 1) -> Any:
    return SimpleNamespace(name=name, size=size, attempt=attempt, id=f"{attempt}/{name}")


def test_files_are_a_tree_with_the_sizes_of_what_lies_below() -> None:
    found = [file("a/b/x", 3, 2), file("a/y", 4), file("z", 5), file("a/b/x", 6)]
    root = file_tree(found, "1/a/y")
    assert (root.count, root.size, [each.name for each in root.files]) == (4, 18, ["z"])
    (a,) = root.sorted_folders
    assert (a.path, a.count, a.size, a.holds) == ("a/", 3, 13, True)
    (b,) = a.sorted_folders
    assert [(each.artifact.size, each.is_latest) for each in b.files] == [(3, True), (6, False)]
    assert not b.holds


def test_checkpoints_and_full_folders_are_folded_but_for_the_file_that_is_shown() -> None:
    found = [file("checkpoints/one/m"), *(file(f"many/{n}") for n in range(50)), file("few/x")]
    assert [each.is_open for each in file_tree(found).sorted_folders] == [False, True, False]
    shown = file_tree(found, "1/checkpoints/one/m").folders["checkpoints"]
    assert shown.is_open
    assert shown.folders["one"].is_open


def depth(folder: Folder) -> int:
    return 1 + max((depth(each) for each in folder.folders.values()), default=-1)


PATHS = st.lists(st.sampled_from(("a", "b", "..", "", "x" * 50, "<b>")), min_size=1, max_size=20).map(
    "/".join
)


@given(st.lists(PATHS, max_size=30))
def test_a_tree_of_any_names_has_each_file_once_and_a_bounded_depth(paths: list[str]) -> None:
    root = file_tree([file(each) for each in paths])

    def leaves(folder: Folder) -> list[str]:
        below = [each for one in folder.folders.values() for each in leaves(one)]
        return below + [f"{folder.path}{each.name}" for each in folder.files]

    assert sorted(leaves(root)) == sorted(paths)
    assert root.count == len(paths)
    assert depth(root) <= DEPTH_MAX


def test_the_number_of_folders_is_bounded() -> None:
    root = file_tree([file(f"{n}/x") for n in range(2 * FOLDERS_MAX)])
    assert (len(root.folders), len(root.files)) == (FOLDERS_MAX, FOLDERS_MAX)


def test_headline_numbers_stand_beside_those_of_the_run_before() -> None:
    found = headline({"loss": 0.5, "name": "b", "ok": True}, {"loss": 0.75, "name": "a", "ok": False})
    assert found == [
        Headline("loss", 0.5, 0.75, -0.25),
        Headline("name", "b", "a"),
        Headline("ok", True, False),
    ]
    assert headline({"loss": 1}, None) == [Headline("loss", 1)]
    assert headline(None, {"loss": 1}) == []


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e308, 10**400, [], {}, "", None, True])
def test_odd_values_have_no_change_and_are_no_failure(value: Any) -> None:
    (row,) = headline({"x": value}, {"x": -1e308})
    assert row.change is None
    assert len(headline({str(n): n for n in range(99)}, None)) == NUMBERS_MAX


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=6)
    | st.sampled_from(("5", "null", "NaN", "$(x)", "'", "\x1b[201~\x15ls", "\x9b\u202e")),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=6,
)  # fmt: skip


@given(st.dictionaries(st.from_regex(r"\A[a-z_]{1,8}\Z"), JSON, max_size=4))
def test_the_commands_submit_the_same_specification(spec: dict[str, Any]) -> None:
    run: Any = SimpleNamespace(
        kind="probe", spec=spec, labels={"a": "it's", "schedule": "nightly"},
        requires={"region": "eu", "gpu_gib": None, "labels": {}}, priority=3, max_attempts=2,
        queue_limit_s=QUEUE_LIMIT_S, secrets=["API_KEY"], class_key="probe/cpu/eu", after=["01A", "group:b"],
    )  # fmt: skip
    sent = submission_like(run)
    assert not STEERING.search(cli_command(sent) + curl_command(sent))
    words = shlex.split(cli_command(sent))
    pairs = [words[place + 1] for place, each in enumerate(words) if each == "-p"]
    assert parameters.spec(None, pairs) == spec
    assert words[:4] == ["podfleet", "submit", "--kind", "probe"]
    tail = words[4 + 2 * len(pairs) :]
    assert tail == [
        "--requires", "region=eu", "--label", "a=it's", "--after", "01A", "--after", "group:b", "--secret",
        "API_KEY", "--priority", "3", "--max-attempts", "2",
    ]  # fmt: skip
    body = json.loads(shlex.split(curl_command(sent))[-1])
    assert body == {
        "kind": "probe", **({"spec": spec} if spec else {}), "labels": {"a": "it's"},
        "requires": {"region": "eu"}, "priority": 3, "max_attempts": 2, "secrets": ["API_KEY"],
        "after": ["01A", "group:b"],
    }  # fmt: skip


def test_a_label_that_would_steer_the_terminal_it_is_pasted_into_is_written_by_numbers() -> None:
    label = "it's \\u0041 \x1b[201~\x15rm -rf x"
    run: Any = SimpleNamespace(
        kind="probe", spec={}, labels={"a": label}, requires=None, priority=0, max_attempts=3,
        queue_limit_s=QUEUE_LIMIT_S, secrets=[], class_key="probe/cpu/any", after=UNSET,
    )  # fmt: skip
    command = cli_command(submission_like(run)).replace("podfleet submit", "printf '%s\\0'")
    assert not STEERING.search(command)
    told = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert f"a={label}" in told.stdout.split("\0")
