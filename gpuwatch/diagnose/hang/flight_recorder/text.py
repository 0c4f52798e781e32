"""Verdicts of flight-recorder dumps in sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from gpuwatch.diagnose.hang.flight_recorder.groups import SURE_MAJORITY, Problem, ProcessGroup
from gpuwatch.diagnose.model.text import clock, ranks_text
from gpuwatch.diagnose.model.verdict import Confidence, Verdict
from gpuwatch.number_text import plural
from gpuwatch.runs.flight.rank_dump import Op, RankDump

Newest = Mapping[int, Op]
"""Rank -> the last entry of the rank's dump."""

MAX_SHOWN_RANKS = 8
"""Most ranks that the evidence lists individually."""
SAME_MOMENT = (
    "whether all dumps were written at the same moment: a job that continues normally looks like this too"
)


def nothing_verdict() -> Verdict:
    """Return the verdict `no dump could be read`, which names no problem."""
    return Verdict("flight", wrong=False, sentence="no dump could be read")


def healthy_verdict(dumps: Sequence[RankDump], process_groups: Sequence[ProcessGroup]) -> Verdict:
    """Return the verdict on dumps without a problem; evidence: the last collective of the first groups."""
    if not process_groups:
        return _no_entries(dumps)
    blind = not any(
        history.has_states for process_group in process_groups for history in process_group.histories.values()
    )
    settle = (
        ("gloo does not record whether a collective has ended: all ranks may still hang in the last one",)
        if blind
        else ()
    )
    groups = plural(len(process_groups), "process group")
    text = f"nothing wrong: the {len(dumps)} dumps agree in {groups} up to the last collective"
    if len(dumps) == 1:
        text = "nothing wrong in the only dump: what the other ranks did is not known"
    lasts = [
        (process_group, max(history.last for history in process_group.histories.values()))
        for process_group in list(process_groups)[:MAX_SHOWN_RANKS]
    ]
    evidence = tuple(
        f"{process_group.title}: {plural(len(process_group.histories), 'rank')} at #{last}"
        for process_group, last in lasts
    )
    return Verdict("flight", wrong=False, sentence=text, evidence=evidence, settle=settle)


def _no_entries(dumps: Sequence[RankDump]) -> Verdict:
    """Return the verdict on dumps in which no rank has recorded an entry."""
    return Verdict(
        "flight",
        wrong=False,
        sentence=f"no verdict: no collective is recorded in {plural(len(dumps), 'dump')}",
        settle=(
            "if the recorder is off, run again with TORCH_FR_BUFFER_SIZE=2000 "
            "(older torch: TORCH_NCCL_TRACE_BUFFER_SIZE)",
        ),
    )


def problem_verdict(
    cause: Problem, others: Sequence[Problem], explained: Sequence[Problem], newest: Newest
) -> Verdict:
    """Return the verdict on `cause`; its evidence also lists the other causes and the explained problems."""
    evidence = [*_proofs(cause, newest), *_further(others, "besides"), *_further(explained, "follows")]
    settle = _settle(cause)
    if len(others) and cause.kind != "stalled":
        verb = "is" if len(others) == 1 else "are"
        settle.append(f"{plural(len(others), 'other group')} {verb} blocked for other reasons: see below")
    return Verdict(
        source="flight",
        wrong=True,
        sentence=_sentence(cause, newest),
        culprits=cause.culprits,
        confidence=_confidence(cause),
        evidence=tuple(evidence),
        settle=tuple(settle),
    )


def circle_verdict(circle: Sequence[Problem], newest: Newest) -> Verdict:
    """Return the verdict on groups that wait for each other in a cycle (a deadlock)."""
    parts = [
        f"{ranks_text(each.waiting)} in {_called(each)} of {each.group.title} for {ranks_text(each.culprits)}"
        for each in circle
    ]
    ranks = tuple(sorted({rank for each in circle for rank in each.culprits}))
    proofs = [proof for each in circle for proof in _proofs(each, newest)]
    return Verdict(
        source="flight",
        wrong=True,
        sentence="deadlock: " + ", and ".join(parts),
        culprits=ranks,
        confidence="high" if not any(each.group.absent for each in circle) else "medium",
        evidence=tuple(proofs),
        settle=("the order in which these ranks call the groups: it must be the same everywhere",),
    )


def _sentence(problem: Problem, newest: Newest) -> str:
    who, what, group = ranks_text(problem.culprits), _called(problem), problem.group.title
    since = f" since {clock(problem.since_s)}" if problem.since_s is not None else ""
    rest, lone = plural(len(problem.waiting), "rank"), len(problem.waiting) == 1
    waits = "waits" if lone else "wait"
    match problem.kind:
        case "missing":
            wait = f"{rest} of {group} {waits}{since}" if problem.waiting else f"the others of {group} are"
            return f"{who} never entered {what}, in which {wait}{_last_call(problem, newest)}"
        case "behind":
            gpus = "the GPU has" if len(problem.culprits) == 1 else "their GPUs have"
            return (
                f"{who} called {what} like all of {group}, but {gpus} not begun it, "
                f"while {rest} {waits} in it{since}"
            )
        case "late":
            return f"{who} entered {what} of {group} only after the others had timed out{_lag(problem)}"
        case "absent":
            if not problem.culprits:
                verb = "is" if lone else "are"
                return (
                    f"no culprit can be named: {rest} of {group} {verb} in {what}{since}, and "
                    f"{_unread(problem.group)}"
                )
            place = f"{what} of {group}" if problem.peer is None else f"{what} of rank {problem.peer}"
            return f"{who} left no dump; all others were in {place}{since}"
        case "p2p":
            return f"rank {problem.peer} waits{since} in {what} for {who}, which never called its side of it"
        case "stalled":
            return _stalled(problem, f"{what}{since} and it does not end")
        case _:
            return _mismatch(problem)


def _stalled(problem: Problem, what: str) -> str:
    ranks = f"all {plural(len(problem.group.histories), 'rank')} of {problem.group.title}"
    if _without_starts(problem):
        cause = "the network is stuck, or the GPU of a rank is busy with an earlier kernel"
        return f"{ranks} have queued {what}: {cause}; the dumps hold no start times"
    return f"{ranks} are in {what}: no rank is missing, so the kernel or the network is stuck"


def _without_starts(problem: Problem) -> bool:
    """Return True if no dump has a start of this collective on the GPU: NCCL records it only on request."""
    return all(op.state == "scheduled" for op in problem.group.at(problem.seq).values())


def _mismatch(problem: Problem) -> str:
    group, theirs = problem.group.title, _described(problem.op, problem)
    if problem.peer is not None:
        (other, op), *_ = problem.odd.items()
        return (
            f"rank {problem.peer} and rank {other} do not agree on what is sent: {theirs} against "
            f"{_described(op, problem)}"
        )
    if not problem.odd:
        return f"the sizes in {_called(problem)} of {group} do not match: more is sent than received, or less"
    named = Counter(_described(op, problem) for op in problem.odd.values()).most_common(1)[0][0]
    frame = next((op.frame for op in problem.odd.values() if op.frame), None)
    where = f" in {frame}" if frame else ""
    count = len(problem.group.histories) - len(problem.odd)
    if not problem.culprits:
        return (
            f"the ranks of {group} do not agree at #{problem.seq}, half against half: "
            f"{ranks_text(problem.odd)} called {named}{where}, the others {theirs}"
        )
    others = f"{count} of {plural(len(problem.group.histories), 'rank')}"
    who = ranks_text(problem.culprits)
    return f"{who} called {named} at #{problem.seq}{where}, where {others} called {theirs}"


def _described(op: Op, problem: Problem) -> str:
    """Return a call's name; if all differing calls have that name, with its sizes and types."""
    names = {op.name, problem.op.name, *(each.name for each in problem.odd.values())}
    if len(names) > 1 and problem.peer is None:
        return op.name
    sizes = " ".join(str(list(size)) for size in op.inputs or op.outputs) or "no tensor"
    types = " ".join(dict.fromkeys((*op.dtypes[0], *op.dtypes[1])))
    return f"{op.name} of {sizes[:80]} {types}".rstrip()


def _called(problem: Problem) -> str:
    return f"{problem.op.name} #{problem.seq}" if problem.seq else problem.op.name


def _last_call(problem: Problem, newest: Newest) -> str:
    """Return `; its last call was ...` for the first culprit's newest entry, whatever its group.

    Without an entry: `; its dump is empty` for a single culprit, "" for several.
    """
    op = newest.get(problem.culprits[0])
    if op is None:
        return "; its dump is empty" if len(problem.culprits) == 1 else ""
    whose = "its" if len(problem.culprits) == 1 else f"rank {problem.culprits[0]}'s"
    frame = f" in {op.frame}" if op.frame else ""
    return f"; {whose} last call was {op.name} #{op.seq}{frame}"


def _lag(problem: Problem) -> str:
    lags = [op.created_s - problem.since_s for op in problem.odd.values() if op.created_s and problem.since_s]
    return f", {max(lags):.0f} s late" if lags else ""


def _proofs(problem: Problem, newest: Newest) -> list[str]:
    process_group = problem.group
    proofs = []
    if problem.seq:
        members = len(process_group.members)
        proofs.append(
            f"{process_group.title}: {len(problem.waiting)} of {plural(members, 'rank')} "
            f"in {_called(problem)}" + (f" at {problem.op.frame}" if problem.op.frame else "")
        )
    for rank in problem.culprits[:MAX_SHOWN_RANKS]:
        op = newest.get(rank)
        own = problem.odd.get(rank)
        if problem.kind in {"mismatch", "behind", "late"} and own is not None:
            op = own
        if op is not None:
            began = f" at {clock(op.created_s)}" if op.created_s else ""
            frame = f" in {op.frame}" if op.frame else ""
            proofs.append(f"rank {rank}: {op.name} #{op.seq}, {op.state}{began}{frame}")
        elif rank in process_group.histories:
            proofs.append(f"rank {rank}: its dump has no entry")
    if len(problem.culprits) > MAX_SHOWN_RANKS:
        proofs.append(f"and {plural(len(problem.culprits) - MAX_SHOWN_RANKS, 'more rank')}")
    if problem.held:
        proofs.append(f"{ranks_text(problem.held)} did not enter it either: blocked in another group")
    if process_group.without and problem.kind != "absent":
        proofs.append(f"{ranks_text(process_group.without)} left no dump")
    if set(process_group.absent) - set(process_group.without):
        proofs.append(_unread(process_group))
    if not process_group.known:
        proofs.append(
            f"the dumps do not list the members of {process_group.title}: inferred from the ranks seen in it"
        )
    return proofs


def _further(problems: Sequence[Problem], word: str) -> list[str]:
    reported = [f"{word}: {_sentence(each, {})}" for each in problems[:MAX_SHOWN_RANKS]]
    left = len(problems) - MAX_SHOWN_RANKS
    return reported + ([f"{word}: {plural(left, 'group')} more"] if left > 0 else [])


def _confidence(problem: Problem) -> Confidence:
    absent = bool(problem.group.absent)
    match problem.kind:
        case "missing":
            if problem.share < 0.5 or (absent and len(problem.group.absent) >= len(problem.culprits)):
                return "low"
            return "medium" if absent or not problem.waiting or not problem.group.known else "high"
        case "mismatch":
            if not problem.culprits:
                return "low"
            return "high" if problem.share >= SURE_MAJORITY and not absent else "medium"
        case "p2p":
            return "medium"
        case "absent":
            sure = (
                problem.share >= 0.5
                and len(problem.culprits) <= 2
                and problem.culprits == problem.group.absent
            )
            return "medium" if sure else "low"
        case "behind" | "late":
            return "medium" if problem.share > 0.5 else "low"
        case _:
            return "medium"


def _settle(problem: Problem) -> list[str]:
    if problem.kind == "absent" and not problem.culprits:
        return [
            f"the dumps of {ranks_text(problem.group.absent)}: read them on their nodes (gpuwatch flight)"
        ]
    who, many = ranks_text(problem.culprits), len(problem.culprits) > 1
    stacks = f"the {'stacks' if many else 'stack'} of {who} (gpuwatch stacks): what runs there instead"
    words = {
        "missing": [stacks, SAME_MOMENT],
        "mismatch": [f"the code path of {who}: a branch that depends on the rank or on data"],
        "behind": [f"the {'GPUs' if many else 'GPU'} of {who} and what runs before it on the same stream"],
        "late": [f"what {who} did before, and the nodes' clocks: the times come from several nodes"],
        "absent": [f"the log and exit code of {who}: killed before writing a dump, or its file was lost"],
        "p2p": [stacks],
        "stalled": ["the links between these ranks (gpuwatch probe) once the job is gone, NCCL's RAS, Xids"],
    }[problem.kind]
    if problem.kind == "stalled" and _without_starts(problem):
        words.insert(
            0, "the next hang with TORCH_NCCL_ENABLE_TIMING=1: the dumps then show whose GPU is behind"
        )
    if problem.kind == "mismatch" and not problem.culprits:
        words = ["no majority: only the code shows which call is right"]
    if problem.kind == "missing" and problem.share < 0.5:
        words.insert(0, "most ranks never entered the collective: perhaps the others made one call too many")
    if problem.group.absent and problem.kind != "absent":
        words.append(f"the dumps of {ranks_text(problem.group.absent)}: they may be the cause as well")
    return words


def _unread(process_group: ProcessGroup) -> str:
    lost = [rank for rank in process_group.absent if rank in process_group.unread]
    return f"the dump{'s' * (len(lost) > 1)} of {ranks_text(lost)} could not be read"
