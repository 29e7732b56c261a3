"""Whose fault the end of an attempt was: the run's, its pod's, or that of something outside, pure.

Law: no fault of a pod or of the outside is charged to a run. A code that no table names is the run's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from events.lifecycle import Fault, Judgement, PastFault
from events.queue.rules import pod_name
from events.runtime.backoff import back_off_s

# So long a run is left to other pods than the one that failed it; each further fault there doubles it.
LEFT_FIRST_S: Final = 60.0
LEFT_MAX_S: Final = 600.0
LEFT_AT_ONCE_MAX: Final = 16  # pods that a run does not suit, until it waits before the next
TIMES_MAX: Final = 8  # so often may a fault of a pod meet a run at one place
# A run whose pod is lost after so long was on its way: machines that can be taken back come and go, and what
# kills its pod mostly does so soon.
LONG_S: Final = 600.0
LONG_TIMES_MAX: Final = 30  # at one place all the same: as many as a run keeps
# What a pod tests of itself; `model` and `storage` are outside of it.
Check = Literal["model", "storage", "tools", "disk", "gpu", "memory", "clock", "sandbox"]


@dataclass(frozen=True, slots=True)
class Blame:
    """Whose fault a code is, and which check of the pod shows whether it is over.

    What happens more than `times_max` times at one place of a run is the run's own fault. As long as one pod
    alone has seen it, it may be that pod's, up to `TIMES_MAX`. The pod leaves the run to others. What a
    program may do itself (`is_doubtful`) is its own after `own_after` times at any places, and the pod leaves
    the run from the second time on, for a minute. With `left_s` nothing failed: the run suits other
    pods. What `comes_and_goes` is counted apart where the pod had the run for `LONG_S`.
    """

    fault: Fault
    check: Check | None = None
    times_max: int = TIMES_MAX
    is_doubtful: bool = False
    own_after: int = TIMES_MAX
    left_s: float | None = None
    comes_and_goes: bool = False


OWN: Final = Blame(Fault.RUN)
FAULTS: Final[Mapping[str, Blame]] = {
    "POD_LOST": Blame(Fault.POD, comes_and_goes=True),
    "KILLED": Blame(Fault.POD, "memory", 3, is_doubtful=True),  # a program may also end itself so
    # Beside a program of a person, which takes the memory in its place, a process seldom dies by the pod.
    "PIPELINE_KILLED": Blame(Fault.POD, "memory", 2, is_doubtful=True, own_after=2),
    "START_FAILED": Blame(Fault.POD, "sandbox"),
    "START_TIMEOUT": Blame(Fault.POD, "sandbox"),
    "NO_ISOLATION": Blame(Fault.POD, "sandbox"),
    "DISK_FULL": Blame(Fault.POD, "disk"),
    "CACHE_TOO_SMALL": Blame(Fault.POD, "disk", times_max=3),  # no pod may keep as much
    "DISK_FAILED": Blame(Fault.POD, "disk"),
    "OUTBOX_FULL": Blame(Fault.POD, "disk"),
    "MACHINE_LOST": Blame(Fault.POD, "memory"),
    "CUDA_UNSUPPORTED_ARCH": Blame(Fault.POD, "gpu"),
    "GPU_BROKEN": Blame(Fault.POD, "gpu", times_max=3),  # a kernel of the program may do the same
    "GPU_DISTURBED": Blame(Fault.POD, "gpu", times_max=3),  # another run was on its cards
    "POD_TOO_DEAR": Blame(Fault.POD, left_s=LEFT_MAX_S),  # others are cheap enough
    "NOT_AVAILABLE": Blame(Fault.POD, "tools"),
    "NO_MODEL": Blame(Fault.POD, "model"),
    "MODEL_UNAUTHORISED": Blame(Fault.POD, "model"),
    "MODEL_QUOTA": Blame(Fault.POD, "model"),
    "MODEL_UNREACHABLE": Blame(Fault.OUTSIDE, "model", 12),
    "MODEL_TIMED_OUT": Blame(Fault.OUTSIDE, "model", 12),
    "MODEL_RATE_LIMITED": Blame(Fault.OUTSIDE, "model", 12),
    "FILES_UNREACHABLE": Blame(Fault.OUTSIDE, "storage", 12),
    "INDEX_UNREACHABLE": Blame(Fault.OUTSIDE, times_max=12),
    "REGISTRY_UNREACHABLE": Blame(Fault.OUTSIDE, times_max=12),
    "SECRET_MISSING": Blame(Fault.OUTSIDE, times_max=3),
    "BUDGET_UNKNOWN": Blame(Fault.OUTSIDE, times_max=12),
    "USER_SIGNED_OUT": Blame(Fault.OUTSIDE, times_max=3),
    "SECRETS_UNREACHABLE": Blame(Fault.OUTSIDE, times_max=12),
    "ARTIFACT_UPLOAD_FAILED": Blame(Fault.OUTSIDE, "storage", 12),
}


PODS_MAX: Final = 5  # what more pods than these fail at one place of a run is the run's own fault
KEPT_MAX: Final = 32


def blame_of(code: str | None) -> Blame:
    """Return whose fault the code of a failure is."""
    return FAULTS.get(code or "", OWN)


def judge(
    code: str | None, pod: str, place: str | None, past: Sequence[PastFault], held_s: float = 0.0
) -> Judgement:
    """Judge a failure by its code, and by the earlier ones of the run; `pod` has had it for `held_s`.

    What follows the run from pod to pod, or never ends, is the run's own, whatever its code says.
    """
    blame = blame_of(code)
    if blame.fault is Fault.RUN:
        return Judgement(Fault.RUN)
    if blame.left_s is not None:
        left = sum(each.code == code for each in past)
        return Judgement(blame.fault, max(1, left - LEFT_AT_ONCE_MAX), blame.left_s)
    if _came_and_went(code, held_s):
        long = sum(_came_and_went(each.code, each.held_s) and each.place == place for each in past)
        return Judgement(blame.fault if long < LONG_TIMES_MAX else Fault.RUN)
    past = [each for each in past if _is_evidence(each)]
    alike = [each for each in past if each.fault is blame.fault and each.place == place]
    times = len(alike) + 1
    pods = {pod_name(each.pod) for each in alike} | {pod_name(pod)}
    follows = blame.fault is Fault.POD and len(pods) > PODS_MAX
    times_max = blame.times_max if len(pods) > 1 else max(blame.times_max, TIMES_MAX)
    is_endless = blame.is_doubtful and sum(each.code == code for each in past) >= blame.own_after
    if follows or is_endless or times > times_max:
        return Judgement(Fault.RUN, times)
    here = sum(each.pod == pod and each.fault is Fault.POD for each in past) + 1
    if blame.fault is Fault.OUTSIDE or blame.check is None or (blame.is_doubtful and here == 1):
        return Judgement(blame.fault, times)
    doubled = 1 if blame.is_doubtful else here
    return Judgement(blame.fault, times, back_off_s(doubled, first_s=LEFT_FIRST_S, max_s=LEFT_MAX_S))


def _came_and_went(code: str | None, held_s: float) -> bool:
    return blame_of(code).comes_and_goes and held_s >= LONG_S


def _is_evidence(earlier: PastFault) -> bool:
    """Say whether an earlier failure tells anything of the next one."""
    return blame_of(earlier.code).left_s is None and not _came_and_went(earlier.code, earlier.held_s)


def boot_of(claimed_by: str) -> str:
    """Return the pod and its start, `name/boot`, of the worker that claimed a run."""
    return "/".join(claimed_by.split("/")[:2])


def place_of(stage: str | None, progress: float | None) -> str | None:
    """Return where a run stands, by its stage and the tenth of it that is done."""
    if stage is None:
        return None
    return stage if progress is None else f"{stage} {int(10 * progress)}/10"
