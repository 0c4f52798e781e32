"""Sends and receives without their counterpart, matched by peer and order."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from gpuwatch.diagnose.hang.flight_recorder.groups import Problem, ProcessGroup
from gpuwatch.runs.flight.rank_dump import Op, elements

SEND_OR_RECV = re.compile(r"(send|recv) (\d{1,7})(?:->|<-)(\d{1,7})$")
"""Matches `send 0->1` on rank 0, or `recv 1<-0` on rank 1; ranks are those within the group."""


def p2p_problems(process_group: ProcessGroup) -> Iterator[Problem]:
    """Yield a problem for each pair of ranks whose sends and receives differ in number, or in size."""
    sends: dict[tuple[int, int], list[Op]] = defaultdict(list)
    receives: dict[tuple[int, int], list[Op]] = defaultdict(list)
    for rank, history in process_group.histories.items():
        for op in history.p2p:
            match = SEND_OR_RECV.match(op.name)
            peer = _global(process_group, int(match[3])) if match is not None else None
            if match is None or peer is None:
                continue
            if match[1] == "send":
                sends[rank, peer].append(op)
            else:
                receives[peer, rank].append(op)
    for source, target in sorted({*sends, *receives}):
        sent, taken = sends[source, target], receives[source, target]
        problem = _one_sided(process_group, source, target, sent, taken) or _unequal(
            process_group, source, target, sent, taken
        )
        if problem is not None:
            yield problem


def _one_sided(
    process_group: ProcessGroup, source: int, target: int, sent: list[Op], taken: list[Op]
) -> Problem | None:
    if len(sent) == len(taken):
        return None
    waits, guilty = (source, target) if len(sent) > len(taken) else (target, source)
    longer, shorter = (sent, taken) if len(sent) > len(taken) else (taken, sent)
    op = longer[len(shorter)]
    last = _newest(process_group, guilty)
    return Problem(
        kind="p2p" if guilty in process_group.histories else "absent",
        group=process_group,
        seq=0,
        culprits=()
        if guilty in process_group.unread and guilty not in process_group.histories
        else (guilty,),
        waiting=frozenset((waits,)),
        since_s=op.created_s,
        op=op,
        odd={guilty: last} if last is not None else {},
        peer=waits,
    )


def _unequal(
    process_group: ProcessGroup, source: int, target: int, sent: list[Op], taken: list[Op]
) -> Problem | None:
    """Return the problem of the first transfer on whose size the two sides disagree, or None."""
    for ours, theirs in zip(sent, taken, strict=True):
        if elements(ours.inputs or ours.outputs) != elements(theirs.outputs or theirs.inputs):
            both = frozenset((source, target))
            since = ours.created_s
            odd = {target: theirs}
            return Problem("mismatch", process_group, 0, (), both, since, ours, odd, share=0.5, peer=source)
    return None


def _newest(process_group: ProcessGroup, rank: int) -> Op | None:
    history = process_group.histories.get(rank)
    if history is None:
        return None
    return max(
        (*history.collectives.values(), *history.p2p), key=lambda op: op.created_s or 0.0, default=None
    )


def _global(process_group: ProcessGroup, number: int) -> int | None:
    """Return the global rank of a rank within the group; None: the group has no such member."""
    return process_group.members[number] if number < len(process_group.members) else None
