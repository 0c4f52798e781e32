"""Compares the stacks of py-spy that were saved beside a job's logs; reads these files again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from gpuwatch.diagnose.hang.answer import without_ranks
from gpuwatch.diagnose.hang.hang_watch import CODE as HANG
from gpuwatch.diagnose.hang.stacks.compare import judge_stacks
from gpuwatch.diagnose.hang.stacks.groups import RankStack, main_thread
from gpuwatch.diagnose.hang.stacks.locations import line
from gpuwatch.diagnose.job_end.job_end import JobEnd
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.rank_index import RankIndex
from gpuwatch.diagnose.model.verdict import Verdict
from gpuwatch.runs.files.packing import is_section
from gpuwatch.runs.flight.stack_dumps import stacks_of
from gpuwatch.runs.scan.result import LogScan

FRAME_END = ")"
"""End of the last line of a saved output of py-spy: `train (train.py:99)`."""
MIN_STACKS = 2
MIN_REPORTED = 3
"""Least stacks by which a hang is reported that no line states."""
MAX_FRAMES = 12
OVER = ("finished",)


def saved_stacks(
    files: Iterable[LogScan], pids: Mapping[int, int] | None = None
) -> list[tuple[LogScan, RankStack]]:
    """Return the file and stack of each rank; [] if two stacks are of one rank, or of one with several.

    `pids`: pid -> rank, for files and lines that name no rank.
    """
    found = list(_each_stack(files, pids or {}))
    counts = Counter(stack.rank for _, stack in found)
    return found if len(counts) == len(found) else []


def _each_stack(files: Iterable[LogScan], pids: Mapping[int, int]) -> Iterator[tuple[LogScan, RankStack]]:
    read: set[Path] = set()
    for file in files:
        is_text = file.packing is None or is_section(file.packing)
        ends = bool(file.last_lines) and file.last_lines[-1].endswith(FRAME_END)
        if not is_text or not ends or file.path in read:
            continue
        read.add(file.path)
        stacks = stacks_of(file.path)
        for each in stacks:
            own = file.rank if len(stacks) == 1 else None
            rank = next((n for n in (each.rank, own, pids.get(each.stack.pid)) if n is not None), None)
            if rank is not None:
                yield file, RankStack(rank, file.node or "", each.stack.pid, stack=each.stack)


def stack_verdict(files: Iterable[LogScan], pids: Mapping[int, int] | None = None) -> Verdict | None:
    """Return which ranks are in another place than all others, by saved stacks; None: they do not show it."""
    stacks = [stack for _, stack in saved_stacks(files, pids)]
    verdicts = [each.verdict for each in judge_stacks(stacks)] if len(stacks) >= MIN_STACKS else []
    return verdicts[0] if len(verdicts) == 1 and verdicts[0].wrong else None


def pids_of(where: RankIndex) -> dict[int, int]:
    """Return pid -> rank for the processes of ranks whose pid is known, without pids of two ranks."""
    ranks: dict[int, set[int]] = {}
    for place in where.places.ranks:
        if place.pid is not None:
            ranks.setdefault(place.pid, set()).add(place.rank)
    return {pid: each.pop() for pid, each in ranks.items() if len(each) == 1}


def stack_alerts(
    files: Sequence[LogScan], end: JobEnd, alerts: Iterable[Alert], where: RankIndex
) -> list[Alert]:
    """Return the alert, if any, for the ranks that others waited for when their stacks were saved.

    The list is empty if the job finished, or a line states why it failed.
    """
    reported = any(alert.severity in ("error", "critical") and alert.role == "root" for alert in alerts)
    if reported or end.state in OVER:
        return []
    stacks = saved_stacks(files, pids_of(where))
    verdict = stack_verdict(files, pids_of(where))
    if verdict is None or len(stacks) < MIN_REPORTED or verdict.confidence == "low":
        return []
    rank = verdict.culprits[0] if len(verdict.culprits) == 1 else None
    shown = [(file, each) for file, each in stacks if each.rank in verdict.culprits]
    proof = tuple(_proof(file, each) for file, each in shown)
    at = max((file.last_time for file in files if file.last_time is not None), default=0.0)
    place = None if rank is None else where.of(rank)
    text = verdict.sentence if rank is None else without_ranks(verdict.sentence)
    return [
        Alert(
            id=f"{HANG}@{proof[0].file}:{shown[0][1].rank}", code=HANG, severity="error",
            title="The job hangs", text=text, proof=proof, role="root", rank=rank,
            node=(place.node or None) if place is not None else None,
            first=at or shown[0][0].mtime, last=at or shown[0][0].mtime, timed=False, bound="undated",
            fields={"confidence": verdict.confidence, "settle": "; ".join(verdict.settle)},
        )
    ]  # fmt: skip


def _proof(file: LogScan, each: RankStack) -> Proof:
    thread = main_thread(each)
    frames = [] if thread is None else [line(frame) for frame in thread.frames[:MAX_FRAMES]]
    text = frames[0] if frames else f"pid {each.pid}"
    return Proof("line", text, None, False, each.node or None, file.name, None, tuple(frames) or (text,))
