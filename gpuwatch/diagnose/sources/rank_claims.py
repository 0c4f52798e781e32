"""A rank of one job that two nodes list as theirs: which of them a line about it may be of."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.rank_index import RankIndex
from gpuwatch.diagnose.sources.doubt import UNDISPUTED, Doubt


def claimed_twice(alert: Alert, senders: AbstractSet[str], where: RankIndex) -> Doubt:
    """What speaks against a line about a rank that runs on several nodes by their own reports.

    The node with more ranks of the job that no other node claims is believed rather than the other one.
    Between equal ones nothing decides: neither is refuted.
    """
    if alert.rank is None:
        return UNDISPUTED
    claimants = where.claimants(alert.rank, alert.job)
    others = sorted(claimants - senders)
    if len(claimants) < 2 or not others:
        return UNDISPUTED
    text = f"{' and '.join(others[:2])} also lists rank {alert.rank} of this job"
    known = [len(where.undisputed_on(node, alert.job)) for node in claimants & senders]
    other = max(len(where.undisputed_on(node, alert.job)) for node in others)
    return Doubt(text, refuted=max(known, default=0) < other)
