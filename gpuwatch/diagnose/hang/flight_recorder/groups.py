"""Find the first collective of one process group at which its members diverge.

Example: in group 0 the dumps of ranks 0-2 end with ALLREDUCE seq 41 `started`, the dump of rank 3 with seq 40
`completed`. The lowest last seq is 40, and rank 3 has no entry for 41: the result is Problem(kind="missing",
seq=41, culprits=(3,), waiting={0, 1, 2}). If rank 3 had called BROADCAST at 41, the result would be a
`mismatch` with `odd={3: ...}`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct, field

from gpuwatch.runs.flight.rank_dump import (
    DEFAULT_GROUP,
    GroupHistory,
    GroupInfo,
    Op,
    RankDump,
    Signature,
    elements,
)

Kind: TypeAlias = Literal[
    "mismatch",  # members called different collectives
    "missing",  # some members never called the collective
    "behind",  # some members called it, but their GPU has not started it
    "p2p",  # a send without its receive, or the other way round
    "late",  # some members called it after the others had timed out
    "absent",  # all members with a dump are in one collective; some members have no dump
    "stalled",  # all members are in the collective, and it does not complete
]
WINDOW_COLLECTIVES = 16
"""Number of collectives before the last common one that are compared; more while these differ."""
NO_HISTORY = GroupHistory({}, 0, None, has_states=False, p2p=())
SURE_MAJORITY = 2 / 3
"""Share of a group that a majority needs for full confidence."""


class Problem(Struct, frozen=True):
    """Why one process group makes no progress: the kind, the collective, the culprits, and who waits."""

    kind: Kind
    group: ProcessGroup
    seq: int
    """Sequence number of the collective; 0 for a p2p problem."""
    culprits: tuple[int, ...]
    waiting: frozenset[int]
    """Ranks that have entered the collective and wait."""
    since_s: float | None
    """When the first of the waiting ranks entered (unix seconds on its node); None: unknown."""
    op: Op
    """The call of the majority."""
    odd: Mapping[int, Op] = field(default_factory=dict)
    """Culprit -> its different call at this point, or its last call in this group."""
    share: float = 1.0
    """Share of the members with a dump that agree with each other."""
    peer: int | None = None
    """The waiting peer of a p2p problem."""
    held: tuple[int, ...] = ()
    """Ranks that this group waits for and that wait in another group themselves."""


class ProcessGroup(Struct):
    """A process group and its members' entries in the dumps."""

    name: str
    desc: str
    members: tuple[int, ...]
    """Global ranks in the group's own order."""
    known: bool
    """True if the dumps list the members; False: members are the ranks that were seen in it."""
    histories: dict[int, GroupHistory] = field(default_factory=dict)
    """Rank -> comparable history, of members with a dump."""
    blind: set[int] = field(default_factory=set)
    """Members whose dump no longer holds any entry of this group."""
    unread: frozenset[int] = frozenset()
    """Ranks whose dump may exist but could not be read; that shows nothing about the rank."""

    @property
    def absent(self) -> tuple[int, ...]:
        """Return the members without a dump that was read and used, sorted."""
        return tuple(sorted(set(self.members) - set(self.histories) - self.blind))

    @property
    def without(self) -> tuple[int, ...]:
        """Return the members that left no dump, sorted; those whose dump could not be read are left out."""
        return tuple(rank for rank in self.absent if rank not in self.unread)

    def at(self, seq: int) -> dict[int, Op]:
        """Return rank -> its call with this sequence number; ranks without one are left out."""
        return {
            rank: history.collectives[seq]
            for rank, history in self.histories.items()
            if seq in history.collectives
        }

    @property
    def title(self) -> str:
        """Return `group 3 (tp)`, or `the group of all ranks`."""
        if self.desc == DEFAULT_GROUP:
            return "the group of all ranks"
        desc = f" ({self.desc})" if self.desc not in ("", "undefined") else ""
        return f"group {self.name}{desc}"


def process_groups(
    dumps: Sequence[RankDump], world: int | None = None, unread: frozenset[int] = frozenset()
) -> list[ProcessGroup]:
    """Return the groups of a job that have entries in a dump; groups that were split may share a name."""
    everyone = tuple(range(world or 1 + max((_highest(dump) for dump in dumps), default=-1)))
    counted = world is not None or any(dump.world for dump in dumps)
    found: dict[tuple[str, tuple[int, ...]], ProcessGroup] = {}
    for dump in dumps:
        for name in {**dump.groups, **dump.histories}:
            config = dump.groups.get(name)
            ranks = config.ranks if config is not None else ()
            if (name, ranks) not in found:
                found[name, ranks] = _process_group(name, config, everyone, counted=counted)
    by_rank = {dump.rank: dump for dump in dumps}
    for process_group in found.values():
        own = (
            [by_rank[rank] for rank in process_group.members if rank in by_rank]
            if process_group.members
            else dumps
        )
        _fill(process_group, own)
        process_group.unread = unread
    return [
        process_group
        for process_group in found.values()
        if any(history is not NO_HISTORY for history in process_group.histories.values())
    ]


def _process_group(
    name: str, config: GroupInfo | None, everyone: tuple[int, ...], *, counted: bool
) -> ProcessGroup:
    if config is not None and config.ranks:
        return ProcessGroup(name, config.desc, config.ranks, known=True)
    if name == "0":  # gloo does not record its groups; the first one has all ranks
        return ProcessGroup(name, DEFAULT_GROUP, everyone, known=counted)
    return ProcessGroup(name, config.desc if config is not None else "", (), known=False)


def _fill(process_group: ProcessGroup, dumps: Sequence[RankDump]) -> None:
    """Add the members' histories from the dumps to the group.

    `dumps`: those of the members, or all if the members are unknown.
    """
    reported = bool(process_group.members)
    for dump in dumps:
        history, config = dump.histories.get(process_group.name), dump.groups.get(process_group.name)
        if history is not None and (reported or config is None or not config.ranks):
            process_group.histories[dump.rank] = history
        elif reported and dump.wrapped:
            process_group.blind.add(dump.rank)
        elif reported:
            process_group.histories[dump.rank] = NO_HISTORY
    process_group.members = process_group.members or tuple(sorted(process_group.histories))


def _highest(dump: RankDump) -> int:
    return max((dump.rank, *dump.world, *(max(each.ranks, default=0) for each in dump.groups.values())))


def problem_of(process_group: ProcessGroup) -> Problem | None:
    """Return the first problem that blocks this group; None: none, or it has only sends and receives."""
    lasts = {rank: history.last for rank, history in process_group.histories.items()}
    low, high = min(lasts.values()), max(lasts.values())
    if high == 0:
        return None  # only sends and receives
    opens = [history.open for history in process_group.histories.values() if history.open is not None]
    states = any(history.has_states for history in process_group.histories.values())
    if states and not opens and low == high:
        return None  # everything has completed
    differing = _mismatch(process_group, min(opens) if opens else None, low, states=states)
    if differing is not None:
        return differing
    if opens and min(opens) <= low:
        return _all_in_it(process_group, min(opens))
    if low < high:
        return _missing(process_group, lasts, low + 1)
    if process_group.without:
        return _absent(process_group, low)
    return None if states else _late(process_group, low)


def _mismatch(
    process_group: ProcessGroup, first_open: int | None, low: int, *, states: bool
) -> Problem | None:
    """Return the problem of the first collective that members called differently; None: there is none.

    `states`: the dumps record which collectives have ended; else the newest ones are compared backwards.
    """
    if len(process_group.histories) < 2:
        return None
    oldest = max(min(history.collectives, default=1) for history in process_group.histories.values())
    if states:
        begin = first_open if first_open is not None else low + 1
        steps: Iterable[int] = range(max(begin, oldest), min(begin + WINDOW_COLLECTIVES, low + 1))
    else:
        steps = range(low, max(oldest, 1) - 1, -1)
    found, left = None, WINDOW_COLLECTIVES
    for seq in steps:
        if states and found is not None:
            break
        differing = _vote(process_group, seq)
        if differing is not None:
            found, left = differing, WINDOW_COLLECTIVES
        left -= 1
        if not left:
            break
    return found


def _vote(process_group: ProcessGroup, seq: int) -> Problem | None:
    ops = process_group.at(seq)
    if len(ops) < 2:
        return None
    votes: Counter[Signature] = Counter(op.signature for op in ops.values())
    if len(votes) == 1:
        return _uneven(process_group, ops, seq)
    if all(op.state == "completed" for op in ops.values()):
        return None
    (winner, most), (_, second) = votes.most_common(2)
    odd = {rank: op for rank, op in ops.items() if op.signature != winner}
    tied = most == second
    chosen = next(op for op in ops.values() if op.signature == winner)
    return Problem(
        kind="mismatch",
        group=process_group,
        seq=seq,
        culprits=() if tied else tuple(sorted(odd)),
        waiting=frozenset(ops),
        since_s=_first(ops.values()),
        op=chosen,
        odd=odd,
        share=0.5 if tied else most / len(ops),
    )


def _uneven(process_group: ProcessGroup, ops: Mapping[int, Op], seq: int) -> Problem | None:
    """Return the problem of an all_to_all in which the sizes sent and received do not match, or None."""
    op = next(iter(ops.values()))
    if not op.name.startswith("all_to_all") or len(ops) < len(process_group.members):
        return None
    sent = sum(elements(each.inputs) for each in ops.values())
    taken = sum(elements(each.outputs) for each in ops.values())
    if sent == taken or all(each.state == "completed" for each in ops.values()):
        return None
    return Problem("mismatch", process_group, seq, (), frozenset(ops), _first(ops.values()), op, share=0.0)


def _all_in_it(process_group: ProcessGroup, seq: int) -> Problem:
    """Return the problem (behind, absent, stalled) of a collective that all members with a dump called."""
    ops = process_group.at(seq)
    begun = {rank for rank, op in ops.items() if op.state != "scheduled"}
    inside = frozenset(rank for rank, op in ops.items() if op.state == "started")
    behind = tuple(sorted(set(ops) - begun))
    op = next(iter(ops.values()))
    if behind and begun:
        return Problem(
            kind="behind",
            group=process_group,
            seq=seq,
            culprits=behind,
            waiting=inside,
            since_s=_first(ops[rank] for rank in begun),
            op=op,
            odd={rank: ops[rank] for rank in behind},
            share=len(begun) / len(ops),
        )
    if process_group.absent:
        return _absent(process_group, seq)
    ended = {rank for rank, each in ops.items() if each.state == "completed"}
    odd = {rank: each for rank, each in ops.items() if rank not in ended} if ended else {}
    since = _first(ops.values())
    return Problem(
        "stalled", process_group, seq, (), inside or frozenset(ops), since, op, odd, len(ended) / len(ops)
    )


def _missing(process_group: ProcessGroup, lasts: Mapping[int, int], seq: int) -> Problem:
    there = process_group.at(seq)
    missing = sorted(rank for rank, last in lasts.items() if last < seq)
    if not there:  # overwritten: members without the entry have passed the collective
        there = {
            rank: history.collectives[history.last]
            for rank, history in process_group.histories.items()
            if lasts[rank] >= seq
        }
    last_ops = {rank: process_group.histories[rank].collectives.get(lasts[rank]) for rank in missing}
    return Problem(
        kind="missing",
        group=process_group,
        seq=seq,
        culprits=tuple(missing),
        waiting=frozenset(rank for rank, op in there.items() if op.state != "completed"),
        since_s=_first(there.values()),
        op=_most(there.values()),
        odd={rank: op for rank, op in last_ops.items() if op is not None},
        share=1 - len(missing) / len(lasts),
    )


def _absent(process_group: ProcessGroup, seq: int) -> Problem:
    ops = process_group.at(seq)
    return Problem(
        kind="absent",
        group=process_group,
        seq=seq,
        culprits=process_group.without,
        waiting=frozenset(ops),
        since_s=_first(ops.values()),
        op=_most(ops.values()),
        share=len(ops) / len(process_group.members),
    )


def _late(process_group: ProcessGroup, seq: int) -> Problem | None:
    """Return the problem of a rank that entered the collective after the others had timed out, or None."""
    ops = process_group.at(seq)
    begun = _first(ops.values())
    if begun is None:
        return None
    late = {
        rank: op
        for rank, op in ops.items()
        if op.created_s is not None and op.timeout_s is not None and op.created_s - begun >= op.timeout_s
    }
    if not late or len(late) == len(ops):
        return None
    waiting = frozenset(set(ops) - set(late))
    op = _most([ops[rank] for rank in waiting])
    share = len(waiting) / len(ops)
    return Problem("late", process_group, seq, tuple(sorted(late)), waiting, begun, op, late, share)


def _first(ops: Iterable[Op]) -> float | None:
    return min((op.created_s for op in ops if op.created_s is not None), default=None)


def _most(ops: Collection[Op]) -> Op:
    """Return the call that most members made (any of those that agree)."""
    counts = Counter(op.signature for op in ops)
    return max(ops, key=lambda op: counts[op.signature])
