"""Which pods are put in quarantine by the ends of attempts, tried again, and let go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from control_plane.model.quarantine import decision
from control_plane.model.quarantine.decision import GOOD_ENDS, LONGEST_S, Quarantine, decide, released
from control_plane.model.quarantine.evidence import AttemptEnd, Identity, Member
from control_plane.model.quarantine.slowness import median_at_least, slower
from events.queue.abilities import Abilities

START = datetime(2026, 3, 1, tzinfo=UTC)
PROBES = Abilities(frozenset({"probe"}), 0.0, None)
BOTH = Abilities(frozenset({"probe", "ideation"}), 0.0, None)


@dataclass
class History:
    """A fleet whose pods end attempts, one each second; `look` decides as a control plane does."""

    names: Sequence[str]
    abilities: Abilities = PROBES
    ends: list[AttemptEnd] = field(default_factory=list)
    known: list[Quarantine] = field(default_factory=list)
    members: dict[str, Member] = field(default_factory=dict)
    now: datetime = START

    def __post_init__(self) -> None:
        self.members = {name: Member(Identity(name, None), self.abilities, "cpu") for name in self.names}

    def end(
        self,
        pod: str,
        code: str | None = None,
        *,
        run: str | None = None,
        key: str | None = None,
        took_s: float = 1.0,
    ) -> None:
        """End an attempt: completed, or failed with a code."""
        self.now += timedelta(seconds=took_s)
        claimed = self.now - timedelta(seconds=took_s)
        run_id = run or f"r{len(self.ends)}"
        self.ends.append(
            AttemptEnd(Identity(pod, key), run_id, 1, "probe/cpu/any", claimed, self.now, code is None, code)
        )

    def look(self, wait_s: float = 0.0) -> list[str]:
        """Decide; return the pods that claim nothing."""
        self.now += timedelta(seconds=wait_s)
        self.known = decide(self.known, list(self.members.values()), self.ends, self.now)
        return sorted(each.pod.name for each in self.known if each.is_held)

    def put(self, pod: str = "bad") -> Quarantine:
        """Bring a pod into quarantine by three failures."""
        for _ in range(3):
            self.end(pod, "NO_MODEL")
        assert self.look() == [pod]
        return self.of(pod)

    def of(self, pod: str) -> Quarantine:
        (found,) = [each for each in self.known if each.pod.name == pod]
        return found


def test_the_third_failure_of_its_own_puts_a_pod_in_quarantine_with_its_evidence() -> None:
    fleet = History(["bad", "good", "fine"])
    for number in range(3):
        assert fleet.look() == []
        fleet.end("good")
        fleet.end("bad", "MODEL_UNAUTHORISED", run=f"run {number}")
    assert fleet.look() == ["bad"]
    found = fleet.of("bad")
    assert found.reason == "3 failures of its own (MODEL_UNAUTHORISED)"
    assert [each.run_id for each in found.evidence] == ["run 2", "run 1", "run 0"]
    assert (found.since, found.try_at - found.since) == (fleet.now, timedelta(seconds=60))


def test_what_the_run_did_and_what_was_away_for_all_speaks_against_no_pod() -> None:
    fleet = History(["bad", "good", "fine"])
    for code in ("STAGE_FAILED", "OUT_OF_MEMORY", "MODEL_UNREACHABLE", "ARTIFACT_UPLOAD_FAILED"):
        for _ in range(5):
            fleet.end("bad", code)
            fleet.end("good", code)
    assert fleet.look() == []


def test_one_run_that_fails_everywhere_and_again_and_again_speaks_against_no_pod() -> None:
    again = History(["bad", "good"])
    for number in range(9):
        again.end("bad", "KILLED", run="the same")
        again.ends[-1] = replace(again.ends[-1], attempt=number + 1)
    assert again.look() == []
    everywhere = History(["a", "b", "c", "d"])
    for number in range(4):
        for pod in everywhere.names:
            everywhere.end(pod, "KILLED", run=f"poison {number}")
    assert everywhere.look() == []


@pytest.mark.parametrize(("others", "held"), [(("a",), ["bad"]), (("a", "b"), [])])
def test_a_run_that_failed_on_two_other_pods_speaks_against_none(
    others: Sequence[str], held: list[str]
) -> None:
    fleet = History(["bad", "a", "b", "c", "d"])
    for pod in [*"abcd"] * 10:
        fleet.end(pod)
    for number in range(3):
        fleet.end("bad", "KILLED", run=f"{number}")
        for pod in others if number == 0 else ():
            fleet.end(pod, "KILLED", run=f"{number}")
    assert fleet.look() == held


def test_sick_pods_that_are_known_do_not_make_the_next_one_look_usual() -> None:
    fleet = History(["good", "fine"])
    for name in ("one", "two", "three", "four"):
        fleet.members[name] = Member(Identity(name, None), PROBES, "cpu")
        for _ in range(3):
            fleet.end("good")
            fleet.end("fine")
            fleet.end(name, "DISK_FAILED")
        assert name in fleet.look()
        del fleet.members[name]  # it is gone: its record stays


def test_a_pod_that_does_good_work_is_not_condemned_by_rare_failures() -> None:
    fleet = History(["bad", "good"])
    for _ in range(10):
        fleet.end("bad", "POD_LOST")
        for _ in range(20):
            fleet.end("bad")
    assert fleet.look() == []


def test_a_pod_that_dies_at_every_third_run_is_found() -> None:
    fleet = History(["bad", "good", "fine"])
    for _ in range(5):
        for code in (None, None, "POD_LOST"):
            fleet.end("bad", code)
            fleet.end("good")
    assert fleet.look() == ["bad"]


def test_a_pod_that_was_good_for_long_is_found_at_its_third_failure() -> None:
    fleet = History(["bad", "good"])
    for _ in range(300):
        fleet.end("bad")
    fleet.put()


def test_a_pod_that_fails_as_often_as_the_other_stays_though_a_third_claims_to_be_good() -> None:
    fleet = History(["bad", "as bad", "x", "y"])
    for _ in range(4):
        for pod in ("bad", "as bad"):
            fleet.end(pod, "POD_LOST")
            fleet.end(pod)
        fleet.end("x")
    assert fleet.look() == []


def test_what_fails_on_most_pods_is_for_people() -> None:
    fleet = History(["a", "b", "c", "d"])
    for _ in range(5):
        for pod in fleet.names:
            fleet.end(pod, "NO_MODEL")
    assert fleet.look() == []


def test_a_dependency_that_only_one_pod_cannot_reach_is_that_pods_fault() -> None:
    fleet = History(["bad", "a", "b", "c"])
    for _ in range(3):
        fleet.end("bad", "MODEL_UNREACHABLE")
        for pod in ("a", "b"):
            fleet.end(pod)
    assert fleet.look() == ["bad"]


@pytest.mark.parametrize("others", [("a",), ("a", "b!"), ("a", "b", "c", "d!")])
def test_one_other_pod_that_reaches_it_or_fails_as_well_is_not_enough(others: Sequence[str]) -> None:
    fleet = History(["bad", "a", "b", "c", "d"])
    for _ in range(3):
        fleet.end("bad", "MODEL_UNREACHABLE")
        for pod in others:
            fleet.end(pod.rstrip("!"), "MODEL_UNREACHABLE" if pod.endswith("!") else None)
    fleet.end("bad", "MODEL_UNREACHABLE")
    assert fleet.look() == []


def test_success_before_and_after_an_outage_says_nothing_of_it() -> None:
    fleet = History(["bad", "a", "b", "c"])
    for pod in ("a", "b", "c"):
        fleet.end(pod)
    for _ in range(3):
        fleet.end("bad", "MODEL_UNREACHABLE")
    for pod in ("a", "b", "c"):
        fleet.end(pod)
    assert fleet.look() == []


def test_the_one_pod_of_a_fleet_stays_and_never_more_than_half_of_a_class_go() -> None:
    alone = History(["bad"])
    for _ in range(9):
        alone.end("bad", "NO_MODEL")
    assert alone.look() == []
    fleet = History(["a", "b", "c", "d", "e"])
    for pod in ("a", "b", "c"):
        fleet.members[pod] = replace(fleet.members[pod], gpu_faults=("lost",))
        fleet.look(1)
    assert fleet.look() == ["a", "b"]
    fleet.members["d"] = replace(fleet.members["d"], takes=False)  # cordoned: four take runs
    assert fleet.look() == ["a", "b"]
    del fleet.members["e"]  # three: the one whose trial is nearest has it now
    assert fleet.look() == ["b"]


def test_the_last_pod_that_serves_a_kind_stays() -> None:
    fleet = History(["bad", "good", "fine"])
    fleet.members["bad"] = replace(fleet.members["bad"], abilities=BOTH)
    for _ in range(5):
        fleet.end("bad", "NO_MODEL")
        fleet.end("good")
    assert fleet.look() == []


def test_a_trial_comes_after_a_time_that_doubles_up_to_an_hour() -> None:
    fleet = History(["bad", "good"])
    fleet.put()
    spell_s, spells = 60.0, []
    for _ in range(8):
        assert fleet.look(spell_s - 1) == ["bad"]
        assert fleet.look(1) == []
        fleet.end("bad", "DISK_FULL")  # one is enough
        assert fleet.look() == ["bad"]
        spell_s = fleet.of("bad").spell_s
        spells.append(spell_s)
    assert spells == [120, 240, 480, 960, 1920, LONGEST_S, LONGEST_S, LONGEST_S]


def test_a_run_that_is_killed_on_trial_as_before_it_speaks_against_no_pod() -> None:
    """Its program may do so: a pod to which it is pinned would leave quarantine for it alone."""
    fleet = History(["bad", "good"])
    for number in range(3):
        fleet.end("bad", "KILLED", run=f"pinned {number}")
    assert fleet.look() == ["bad"]
    fleet.look(60)
    fleet.end("bad", "KILLED", run="pinned 1")
    assert fleet.look() == []
    fleet.end("bad", "DISK_FULL", run="pinned 2")
    assert fleet.look() == ["bad"], "what no program does counts each time"
    fleet.look(120)
    fleet.end("bad", "KILLED", run="another")
    assert fleet.look() == ["bad"]


def test_no_trial_comes_before_its_own_checks_pass_or_while_it_is_away() -> None:
    fleet = History(["bad", "good"])
    fleet.put()
    fleet.members["bad"] = replace(fleet.members["bad"], is_sound=False)
    assert fleet.look(100) == ["bad"]
    away = fleet.members.pop("bad")
    assert fleet.look(100) == ["bad"]
    fleet.members["bad"] = replace(away, is_sound=True)  # started again
    assert fleet.look(100) == []


def test_good_runs_end_a_trial_and_what_was_before_speaks_no_more() -> None:
    fleet = History(["bad", "good"])
    fleet.put()
    fleet.look(60)
    fleet.end("bad", "NO_MODEL")
    assert fleet.look() == ["bad"]
    fleet.look(120)
    for _ in range(GOOD_ENDS):
        fleet.end("bad")
    fleet.look()
    for _ in range(2):
        fleet.end("bad", "NO_MODEL")
    assert fleet.look() == []
    fleet.end("bad", "NO_MODEL")
    assert fleet.look() == ["bad"]
    assert fleet.of("bad").spell_s == 60


def test_one_good_run_too_few_ends_no_trial() -> None:
    fleet = History(["bad", "good"])
    fleet.put()
    fleet.look(60)
    for _ in range(GOOD_ENDS - 1):
        fleet.end("bad")
    assert fleet.look() == []
    fleet.end("bad", "NO_MODEL")
    assert fleet.look() == ["bad"]
    assert fleet.of("bad").spell_s == 120


def test_a_cordoned_pod_is_judged_when_it_takes_runs_again() -> None:
    fleet = History(["bad", "good", "fine", "sound"])
    taking = fleet.members["bad"]
    fleet.members["bad"] = replace(taking, takes=False)
    for _ in range(3):
        fleet.end("bad", "NO_MODEL")
    assert fleet.look() == []
    fleet.members["bad"] = taking
    assert fleet.look() == ["bad"]


def test_no_more_pods_are_in_quarantine_or_on_trial_than_one_document_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decision, "PODS_MAX", 1)
    fleet = History(["a", "b", "c", "d"])
    for pod in ("a", "b"):
        fleet.members[pod] = replace(fleet.members[pod], gpu_faults=("lost",))
    assert fleet.look() == ["a"]
    fleet.members["a"] = replace(fleet.members["a"], gpu_faults=())
    assert fleet.look(60) == [], "one on trial is in it as well"
    fleet.members["a"] = replace(fleet.members["a"], gpu_faults=("lost",))
    assert fleet.look(1) == ["a"], "and may be put back"


def test_what_was_claimed_before_the_trial_does_not_end_it() -> None:
    fleet = History(["bad", "good"])
    fleet.put()
    fleet.look(60)
    fleet.end("bad", "NO_MODEL", took_s=1000)
    fleet.ends[-1] = replace(fleet.ends[-1], claimed_at=fleet.now - timedelta(seconds=1030))
    assert fleet.look() == []


def test_a_person_releases_a_pod_and_three_failures_put_it_back() -> None:
    fleet = History(["bad", "good"])
    fleet.put()
    fleet.known = released(fleet.known, "bad", "ann", fleet.now)
    assert fleet.look() == []
    fleet.end("bad", "NO_MODEL")
    fleet.end("bad", "NO_MODEL")
    assert fleet.look() == []
    fleet.end("bad", "NO_MODEL")
    assert fleet.look() == ["bad"]
    assert fleet.of("bad").spell_s == 60


def test_a_release_and_a_trial_are_forgotten_with_what_was_before_them() -> None:
    fleet = History(["bad", "good"])
    fleet.put()
    assert fleet.look(60) == []
    fleet.ends.clear()  # a day later nobody reads them
    fleet.look(24 * 3600 + 1)
    assert fleet.known == []


def test_a_gpu_that_fails_is_enough_and_is_tried_again_when_it_is_silent() -> None:
    fleet = History(["bad", "good"])
    sound = fleet.members["bad"]
    fleet.members["bad"] = replace(sound, gpu_faults=("Xid 79",))
    assert fleet.look() == ["bad"]
    assert fleet.of("bad").reason == "its GPU fails (Xid 79)"
    assert fleet.look(600) == ["bad"]
    fleet.members["bad"] = sound
    assert fleet.look(1) == []


def test_what_was_done_under_a_name_with_another_key_is_not_the_pods() -> None:
    fleet = History(["bad", "good", "fine"])
    for _ in range(9):
        fleet.end("bad", "NO_MODEL", key="somebody else's")
    assert fleet.look() == []


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from([None, "NO_MODEL", "MODEL_UNREACHABLE"]))))
def test_no_other_pod_alone_brings_a_pod_into_quarantine(told: list[tuple[str, str | None]]) -> None:
    """Beside `x`, which is good at everything, no pod goes without what it did, or what others reached."""
    fleet = History(["a", "b", "c", "d", "x"])
    for pod, code in told:
        fleet.end(pod, code)
        fleet.end("x")  # good at everything
    held = fleet.look()
    for name in held:
        own = [each for each in fleet.ends if each.pod.name == name and not each.is_completed]
        away = [each for each in own if each.code == "MODEL_UNREACHABLE"]
        honest = {each.pod.name for each in fleet.ends if each.is_completed} - {"x", name}
        assert len({each.run_id for each in own}) >= 3
        assert len(own) - len(away) >= 3 or honest


def test_a_pod_that_is_slow_beside_its_peers_is_found() -> None:
    fleet = History(["bad", "a", "b", "c"])
    for _ in range(8):
        for pod in ("a", "b", "c"):
            fleet.end(pod, took_s=3.0)
        fleet.end("bad", took_s=30.0)
    assert fleet.look() == ["bad"]
    assert "8 runs took 30.0 s in the median, those of 3 others 3.0 s" in fleet.of("bad").reason
    fleet.members["bad"] = replace(fleet.members["bad"], device="an older card")
    fleet.known = []
    assert fleet.look() == []


def test_a_later_attempt_of_a_run_says_nothing_of_slowness() -> None:
    fleet = History(["bad", "a", "b", "c"])
    for _ in range(8):
        for pod in ("a", "b", "c"):
            fleet.end(pod, took_s=3.0)
        fleet.end("bad", took_s=30.0)
        fleet.ends[-1] = replace(fleet.ends[-1], attempt=2)  # it may begin behind checkpoints, or before none
    assert fleet.look() == []


@pytest.mark.parametrize(
    ("times_s", "peers"),
    [
        ([30.0] * 6, [[3.0] * 9] * 4),  # too few runs to tell
        ([30.0] * 9, [[3.0] * 9] * 2),  # too few peers
        ([30.0] * 9, [[3.0] * 4] * 4),  # too few runs of theirs
        ([30.0, 30.0, 3.0, 3.0] * 3, [[3.0] * 9] * 4),
        ([8.0] * 9, [[3.0] * 9] * 4),
        ([0.5] * 9, [[0.05] * 9] * 4),
        ([30.0] * 9, [[0.1] * 9, [29.0] * 9, [28.0] * 9]),  # one that says that it is quick
        ([31.0] * 9, [[0.1] * 9, [9.0] * 9, [11.0] * 9, [12.0] * 9]),
    ],
)
def test_what_may_be_chance_is_no_slowness(times_s: list[float], peers: list[list[float]]) -> None:
    assert slower(times_s, peers) is None


def test_the_bound_of_a_median_errs_as_rarely_as_it_says() -> None:
    assert median_at_least([1.0] * 6) is None  # 1/64 is more than 1 in 100
    assert median_at_least([float(each) for each in range(7)]) == 0.0
    assert median_at_least([float(each) for each in range(12)]) == 1.0  # 13/4096, the next 79/4096
