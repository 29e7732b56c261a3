"""Whose fault a failure is: the table of codes, and what earlier failures add to it."""

from __future__ import annotations

from typing import Final

import pytest

from events.formatting import NEXT_STEPS
from events.lifecycle import Fault, Judgement, PastFault
from events.queue.faults import FAULTS, OWN, blame_of, boot_of, judge, place_of


def test_every_code_that_is_not_the_runs_has_a_next_step() -> None:
    assert FAULTS.keys() <= NEXT_STEPS.keys()


@pytest.mark.parametrize("code", ["ALL_NODES_BUGGY", "BUDGET_EXCEEDED", "no such code", "", None])
def test_what_no_table_names_is_the_runs_own(code: str | None) -> None:
    assert blame_of(code) == OWN


def test_a_wrong_key_is_the_pods_and_a_server_that_is_away_is_outside() -> None:
    assert blame_of("MODEL_UNAUTHORISED").fault is Fault.POD
    assert blame_of("MODEL_UNREACHABLE").fault is Fault.OUTSIDE
    assert blame_of("FILES_UNREACHABLE").fault is Fault.OUTSIDE


HERE: Final = "Stage_1 2/10"


def past(
    *pods: str, code: str = "DISK_FULL", fault: Fault = Fault.POD, place: str | None = HERE
) -> list[PastFault]:
    return [PastFault(each, code, fault, place, None) for each in pods]


@pytest.mark.parametrize("code", [None, "ALL_NODES_BUGGY"])
def test_what_is_the_runs_own_is_charged_whatever_was_before(code: str | None) -> None:
    assert judge(code, "a/1", HERE, past(*["b/1"] * 3)) == Judgement(Fault.RUN)


def test_a_fault_of_a_pod_leaves_the_run_to_others_for_a_time_that_doubles_to_a_limit() -> None:
    waits = [judge("DISK_FULL", "a/1", f"{n}", past(*["a/1"] * n, place=None)).left_s for n in range(6)]
    assert waits == [60.0, 120.0, 240.0, 480.0, 600.0, 600.0]
    assert judge("DISK_FULL", "a/2", HERE, past("a/1", "a/1")).left_s == 60.0, "its next start is tried anew"
    outside = past("a/1", "a/1", code="MODEL_UNREACHABLE", fault=Fault.OUTSIDE)
    assert judge("DISK_FULL", "a/1", HERE, outside).left_s == 60.0, "what was away was not its fault"


@pytest.mark.parametrize("code", ["POD_LOST", "KILLED"])
def test_a_pod_that_no_check_would_clear_may_take_the_run_again(code: str) -> None:
    assert judge(code, "a/1", HERE, []) == Judgement(Fault.POD, 1, None)


def test_a_run_whose_program_ends_itself_anywhere_holds_up_no_pod_and_ends() -> None:
    killed = [PastFault("a/1", "KILLED", Fault.POD, f"probe {n}/10", None) for n in range(8)]
    assert judge("KILLED", "a/1", "probe 9/10", killed[:5]).left_s == 60.0, "others of its class come first"
    assert judge("KILLED", "b/1", "probe 9/10", killed[:1]).left_s is None
    assert judge("KILLED", "b/1", "probe 9/10", killed[:7]).fault is Fault.POD
    assert judge("KILLED", "b/1", "probe 9/10", killed).fault is Fault.RUN
    lost = [PastFault("a/1", "POD_LOST", Fault.POD, f"probe {n}/10", None) for n in range(9)]
    assert judge("POD_LOST", "a/1", "probe 9/10", lost) == Judgement(Fault.POD, 1, None), "it gets further"


def test_a_program_that_ends_the_process_that_runs_it_has_two_attempts_for_nothing() -> None:
    code = "PIPELINE_KILLED"
    twice = [PastFault("a/1", code, Fault.POD, f"run {n}/10", None) for n in range(2)]
    assert [judge(code, "b/1", "run 5/10", twice[:n]).fault for n in range(3)] == [
        Fault.POD, Fault.POD, Fault.RUN,
    ]  # fmt: skip
    assert judge(code, "a/1", "run 5/10", twice[:1]).left_s == 60.0
    others = [PastFault("a/1", "KILLED", Fault.POD, None, None)] * 2
    assert judge(code, "b/1", "run 5/10", others).fault is Fault.POD


def test_what_is_away_for_all_keeps_no_pod_from_the_run() -> None:
    before = past("a/1", "b/1", code="MODEL_UNREACHABLE", fault=Fault.OUTSIDE)
    assert judge("MODEL_TIMED_OUT", "a/1", HERE, before) == Judgement(Fault.OUTSIDE, 3, None)


def test_only_like_faults_at_the_same_place_count() -> None:
    elsewhere = past("a/1", "b/1", place="Stage_1 3/10")
    outside = past("c/1", code="MODEL_UNREACHABLE", fault=Fault.OUTSIDE)
    assert judge("DISK_FULL", "d/1", HERE, [*elsewhere, *outside, *past("e/1")]).times == 2


@pytest.mark.parametrize(
    ("code", "fault", "most"),
    [("KILLED", Fault.POD, 8), ("POD_LOST", Fault.POD, 8), ("MODEL_UNREACHABLE", Fault.OUTSIDE, 12)],
)
def test_what_never_ends_at_one_place_is_the_runs_own(code: str, fault: Fault, most: int) -> None:
    def again(times: int) -> Judgement:
        return judge(code, "a/1", HERE, past(*["a/1"] * (times - 1), code=code, fault=fault))

    assert (again(most).fault, again(most).times) == (fault, most)
    assert again(most + 1) == Judgement(Fault.RUN, most + 1)


def test_what_follows_the_run_to_a_sixth_pod_is_the_runs_own_and_a_restarted_pod_is_no_other() -> None:
    five = past("a/1", "b/1", "c/1", "d/1", "e/1")
    assert judge("DISK_FULL", "e/2", HERE, five).fault is Fault.POD
    assert judge("DISK_FULL", "f/1", HERE, five) == Judgement(Fault.RUN, 6)
    restarted = past("a/1", "a/2", "a/3", "a/4", "a/5", "a/6")
    assert judge("DISK_FULL", "a/7", HERE, restarted).fault is Fault.POD
    outside = past(*[f"{n}/1" for n in range(8)], code="MODEL_UNREACHABLE", fault=Fault.OUTSIDE)
    assert judge("MODEL_UNREACHABLE", "z/1", HERE, outside).fault is Fault.OUTSIDE, "many pods see one server"


def lost_after(held_s: float, times: int, place: str | None = HERE) -> list[PastFault]:
    return [PastFault(f"{n}/1", "POD_LOST", Fault.POD, place, None, held_s) for n in range(times)]


def test_half_a_day_on_machines_that_are_taken_away_every_half_hour_ends_no_run() -> None:
    judged = [judge("POD_LOST", "z/1", HERE, lost_after(1800.0, times), 1800.0) for times in range(24)]
    assert judged == [Judgement(Fault.POD)] * 24, "nothing is charged, and nothing waits"


def test_what_ends_its_pod_after_a_long_time_again_and_again_is_the_runs_own_in_the_end() -> None:
    assert judge("POD_LOST", "z/1", HERE, lost_after(1800.0, 29), 1800.0).fault is Fault.POD
    assert judge("POD_LOST", "z/1", HERE, lost_after(1800.0, 30), 1800.0).fault is Fault.RUN
    assert judge("POD_LOST", "z/1", "Stage_1 3/10", lost_after(1800.0, 30), 1800.0).fault is Fault.POD


def test_a_loss_after_a_long_time_is_no_evidence_beside_losses_after_a_short_one() -> None:
    assert judge("POD_LOST", "z/1", HERE, lost_after(600.0, 31), 599.0) == Judgement(Fault.POD, 1, None)
    assert judge("POD_LOST", "z/1", HERE, lost_after(599.0, 5), 599.0).fault is Fault.RUN
    assert judge("POD_LOST", "z/1", HERE, lost_after(599.0, 5), 600.0).fault is Fault.POD
    full = [PastFault(f"{n}/1", "DISK_FULL", Fault.POD, HERE, None, 1800.0) for n in range(5)]
    assert judge("DISK_FULL", "z/1", HERE, full, 1800.0).fault is Fault.RUN, (
        "a full disk is no machine that went"
    )


@pytest.mark.parametrize(
    ("stage", "progress", "place"),
    [
        (None, 0.5, None),
        ("Plots", None, "Plots"),
        ("Plots", 0.0, "Plots 0/10"),
        ("Plots", 0.39, "Plots 3/10"),
    ],
)
def test_a_place_is_a_stage_and_the_tenth_of_it_that_is_done(
    stage: str | None, progress: float | None, place: str | None
) -> None:
    assert place_of(stage, progress) == place


def test_a_start_of_a_pod_is_named_without_its_process() -> None:
    assert (boot_of("pod/3f2a/17"), boot_of("pod/3f2a"), boot_of("pod"), boot_of("")) == (
        *("pod/3f2a",) * 2, "pod", "",
    )  # fmt: skip


def test_each_fault_of_a_pod_but_its_loss_is_shown_by_one_of_its_checks() -> None:
    unseen = {code for code, each in FAULTS.items() if each.fault is Fault.POD and each.check is None}
    assert unseen == {"POD_LOST", "POD_TOO_DEAR"}


def test_a_run_that_a_pod_does_not_suit_is_left_to_others_and_charged_to_nobody_however_often() -> None:
    dear = past(*[f"{n}/1" for n in range(30)], code="POD_TOO_DEAR", place=None)
    assert judge("POD_TOO_DEAR", "a/1", None, []) == Judgement(Fault.POD, 1, 600.0)
    assert judge("POD_TOO_DEAR", "a/1", None, dear[:10]) == Judgement(Fault.POD, 1, 600.0)
    assert judge("POD_TOO_DEAR", "a/1", None, dear) == Judgement(Fault.POD, 14, 600.0), "it waits by then"
    assert judge("DISK_FULL", "a/1", None, dear) == judge("DISK_FULL", "a/1", None, [])
