"""Whether a pod is slow against its peers: medians of whole runs of one class, pure.

The lower bound of a pod's median is an order statistic: of n runs, the k-th shortest lies above the true
median with the probability P(Binomial(n, 1/2) < k), whatever the distribution (H. A. David and H. N.
Nagaraja, Order Statistics, 3rd edition, section 7.1). Runs of a class are given to its pods in the order of
the queue, so that their lengths do not depend on the pod.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from statistics import median
from typing import Final

RISK: Final = 0.01
PEERS_MIN: Final = 3
PEER_RUNS_MIN: Final = 5
FACTOR: Final = 3.0
MARGIN_S: Final = 1.0


def median_at_least(times_s: Sequence[float]) -> float | None:
    """Return what the true median exceeds but for `RISK`, None where there are too few to tell."""
    ordered = sorted(times_s)
    below, found = 0.0, None
    for k, time_s in enumerate(ordered):
        below += comb(len(ordered), k) / 2.0 ** len(ordered)
        if below > RISK:
            break
        found = time_s
    return found


def slower(times_s: Sequence[float], peers: Sequence[Sequence[float]]) -> str | None:
    """Return in words by how much a pod is slower than its peers, None where it is not, or nobody can tell.

    Each peer has one vote, its median; the fastest of them is left out.
    """
    medians = sorted(median(each) for each in peers if len(each) >= PEER_RUNS_MIN)
    least = median_at_least(times_s)
    if least is None or len(medians) < PEERS_MIN:
        return None
    usual = median(medians[1:])
    if least <= usual * FACTOR or least - usual <= MARGIN_S:
        return None
    own = median(times_s)
    return f"{len(times_s)} runs took {own:.1f} s in the median, those of {len(medians)} others {usual:.1f} s"
