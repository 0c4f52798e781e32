"""How a job ended, by the steps that its ranks logged: finished, running, stopped early, or unknown."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

from msgspec import structs

from gpuwatch.diagnose.alerts.unexplained import quoted
from gpuwatch.diagnose.error_outcome.recovery_by_steps import FINISHED, StepTrack, reached
from gpuwatch.diagnose.hang.hang_watch import CODE as HANG
from gpuwatch.diagnose.incidents.grouping import QUIET_ALONE
from gpuwatch.diagnose.job_end.closing import (
    NUMBER,
    ON_PURPOSE,
    LogEnd,
    below_steps,
    ends_with_failure,
    epoch_of,
    has_stalled,
    is_failed_end,
    signal_of,
)
from gpuwatch.diagnose.job_end.epoch_end import (
    SHORT_STEPS,
    ended_in_epoch,
    ends_on_purpose,
    has_several_epochs,
)
from gpuwatch.diagnose.job_end.planned_end import with_interruption
from gpuwatch.diagnose.job_end.stopped_ranks import far_behind, nodes_cut_short, ranks_cut_short
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.failure_classes import SCHEDULER
from gpuwatch.diagnose.model.incident import UNKNOWN
from gpuwatch.diagnose.model.text import ranks_text

State: TypeAlias = Literal["finished", "running", "stopped", "unknown"]

RUN_STEPS, RUN_BYTES = 100, 16 << 10
"""So many logged steps, or steps over so much of a file, are a run; less may be a pasted excerpt."""
RANK_STEPS = 20
"""The same of each of several ranks with files of their own."""
PEERS, BEHIND_STEPS = 3, 2
"""A rank that ended so many logged steps before at least so many others, all at the same step, is behind."""
MAX_BEHIND_SHARE = 0.125
"""More ranks than this share (or than one) do not count as behind: they log at other moments."""
_WORD = re.compile(r"[^\W\d_]{3}")

OWN_RULE = re.compile(
    r"(?i)\bearly[ _-]?stop(?:ped|ping)?(?: (?:was|is|has been))? ?"
    r"(?:triggered|now|reached|activated|condition met)\b"
    r"|\bearly[ _-]?stop(?:s|ped|ping)?\b.{0,120}"
    r"\b(?:stopp(?:ing|ed)|exhausted|exceeded|reached|end(?:ing|ed)|halt(?:ing|ed)?)\b"
    r"|\bstopp(?:ing|ed) (?:the )?(?:training |run )?early\b|\btraining (?:was )?stopped early\b"
    r"|\b(?:improve(?:d|ments?)?|patience)\b.{0,80}"
    r"\b(?:stopp(?:ing|ed)|exhausted|exceeded|ran out|ending|terminating)\b"
    r"|\bpatience (?:of )?\d{0,6} ?(?:was |is )?(?:reached|over)\b"
    r"|\bearly[ _-]?stop\w* counter: (\d{1,6}) (?:out )?(?:of|/) \1\b"
)
"""In the last lines of a log: a rule of the training (early stopping, patience) ended it."""


@dataclass(frozen=True)
class RankEnd:
    """The last step that a rank logged."""

    rank: int
    step: int
    at: float | None
    """Unix seconds; None: undated."""


@dataclass(frozen=True)
class JobEnd:
    """The outcome of what a scan was given."""

    state: State
    step: int | None = None
    """The furthest step."""
    total_steps: int | None = None
    ranks: tuple[RankEnd, ...] = ()
    """Of all ranks that log steps of their own."""
    behind: tuple[int, ...] = ()
    """Ranks that ended before all others."""
    early: bool = False
    """A rule of its own (early stopping) finished it before the announced end."""
    epoch: tuple[int, int] | None = None
    """The last epoch that its log names and the number of epochs, where that is not the last one."""
    finished: tuple[int, ...] = ()
    """Ranks that reached the announced last step while those behind stopped far before it."""
    nodes: tuple[tuple[str, int], ...] = ()
    """Nodes whose log, of no known rank, stopped while another's finished, each with its last step."""
    signal: str | None = None
    """SIGINT (Ctrl-C) or SIGTERM, where the log shows that one ended it and no failure."""

    @property
    def text(self) -> str:
        """`stopped at step 41,342 of 100,000: rank 5 first, the others at 41,344`."""
        total = "" if self.total_steps is None else f" of {self.total_steps:,}"
        if self.epoch is not None:
            total += f" in epoch {self.epoch[0]:,} of {self.epoch[1]:,}"
        at = total if self.step is None else f" at step {self.step:,}{total}"
        if self.early and self.step is not None:
            return f"ended early by its own rule{at}"
        if self.state == "finished":
            return f"finished{at}"
        if self.state == "running":
            return f"still written,{at}" if at else "still written"
        if self.signal is not None and not self.behind and not self.nodes:
            how = "interrupted" if self.signal == "SIGINT" else "terminated"
            return f"{how} ({self.signal}){at}"
        if self.state == "stopped":
            return self._stopped(at, total)
        return "how it ended is not logged" + (f",{at.removeprefix(' at')}" if at else "")

    def _stopped(self, at: str, total: str) -> str:
        if self.nodes:
            names = ", ".join(node for node, _ in self.nodes)
            logs = "log" if len(self.nodes) == 1 else "logs"
            first = min(step for _, step in self.nodes)
            return f"the {logs} of {names} stopped at step {first:,}{total}; others finished"
        if not self.behind:
            return f"stopped{at}"
        first = min(each.step for each in self.ranks if each.rank in self.behind)
        if self.finished:
            others = ranks_text(self.finished)
            return f"{ranks_text(self.behind)} stopped at step {first:,}{total}; {others} finished"
        return (
            f"stopped at step {first:,}{total}: {ranks_text(self.behind)} first, the others at {self.step:,}"
        )


def job_end(
    tracks: Sequence[StepTrack],
    alerts: Sequence[Alert],
    closings: Mapping[str, LogEnd],
    *,
    growing: bool,
    settled: bool,
) -> JobEnd:
    """How a job ended.

    Args:
        tracks: The steps of its ranks.
        alerts: Findings, `FINISHED` among them.
        closings: File -> how its log ends.
        growing: Whether its files are written now.
        settled: Whether its files are known not to be written any more.
    """
    main = main_tracks(tracks)
    epoch = epoch_of(main, closings) if main else ended_in_epoch(tracks, closings)
    furthest = max((track.marks[-1].step for track in main), default=None)
    total = max((track.total_steps for track in main if track.total_steps is not None), default=None)
    ranks = rank_ends(main)
    behind = ranks_behind(main, ranks, 1 if has_stalled(main, closings) else BEHIND_STEPS)
    behind = behind or far_behind(main)
    ends = [alert for alert in alerts if alert.code == FINISHED]
    complete = furthest is not None and reached(furthest, total) and epoch is None
    run = is_run(main) or (settled and is_short_run(main, closings)) or ends_with_failure(main, closings)
    stopped = furthest is not None and bool(behind or ((total or epoch) is not None and run))
    stopped = stopped or (not main and epoch is not None and settled and not ends_on_purpose(closings))
    early = ended_by_rule(main, closings) and not any(_is_failure(alert) for alert in alerts)
    short = () if early else ranks_cut_short(main, total, closings)
    lost = {} if early or short or growing else nodes_cut_short(main, total, closings)
    state: State = "unknown"
    if growing:
        state = "running"
    elif lost:
        state, behind = "stopped", ()
    elif short:
        state, behind = "stopped", short
    elif complete or early or any(_is_last(end, main) for end in ends):
        state = "finished"
    elif stopped:
        state = "stopped"
    failed = any(_is_failure(alert) for alert in with_interruption(alerts))
    return JobEnd(
        state,
        furthest,
        total,
        ranks,
        behind if state == "stopped" else (),
        early and state == "finished" and not complete,
        epoch,
        tuple(each.rank for each in ranks if reached(each.step, total)) if short else (),
        tuple((node, track.marks[-1].step) for node, track in sorted(lost.items())),
        signal_of(main, closings) if state in ("stopped", "unknown") and not failed else None,
    )


def main_tracks(tracks: Sequence[StepTrack]) -> list[StepTrack]:
    """The tracks of the training: not the bars of single epochs, nor those of another length."""
    whole = [track for track in tracks if track.marks and not track.per_epoch]
    totals = [track.total_steps for track in whole if track.total_steps is not None]
    if not totals:
        return whole
    counts = Counter(totals)
    total = max(counts, key=lambda each: (counts[each], each))
    return [track for track in whole if track.total_steps in (None, total)]


def rank_ends(tracks: Iterable[StepTrack]) -> tuple[RankEnd, ...]:
    """The last step of each rank."""
    found: dict[int, RankEnd] = {}
    for track in tracks:
        mark = track.marks[-1]
        if track.rank is not None and (track.rank not in found or found[track.rank].step < mark.step):
            found[track.rank] = RankEnd(track.rank, mark.step, mark.at)
    return tuple(found[rank] for rank in sorted(found))


def ranks_behind(
    tracks: Iterable[StepTrack], ranks: Sequence[RankEnd], least: int = BEHIND_STEPS
) -> tuple[int, ...]:
    """The ranks that ended at least `least` logged steps before the others, which ended together."""
    furthest = max((each.step for each in ranks), default=0)
    stride = min((stride_of(track) for track in tracks), default=1)
    behind = [each for each in ranks if furthest - each.step >= least * stride]
    others = [each for each in ranks if furthest - each.step < least * stride]
    together = len(others) >= PEERS and all(furthest - each.step < stride for each in others)
    return (
        tuple(each.rank for each in behind)
        if together and len(behind) <= max(1, int(MAX_BEHIND_SHARE * len(ranks)))
        else ()
    )


def stride_of(track: StepTrack) -> int:
    """How many steps lie between two logged ones, at least."""
    gaps = [later.step - before.step for before, later in pairwise(track.marks) if later.step > before.step]
    return min(gaps, default=1)


def is_run(tracks: Sequence[StepTrack]) -> bool:
    """Whether these are the steps of a run, and not an excerpt of a few lines."""
    of_ranks = {track.rank for track in tracks if len(track.marks) >= RANK_STEPS} - {None}
    return len(of_ranks) > 1 or any(
        len(track.marks) >= RUN_STEPS
        or (track.marks[-1].offset or 0) - (track.marks[0].offset or 0) >= RUN_BYTES
        for track in tracks
    )


def is_short_run(tracks: Sequence[StepTrack], closings: Mapping[str, LogEnd]) -> bool:
    """Whether these are the steps of a log from its start: tens of lines with a total or epochs."""
    return any(
        (track.total_steps is not None or has_several_epochs(closings.get(track.file)))
        and len(track.marks) >= SHORT_STEPS
        for track in tracks
    )


def ended_by_rule(tracks: Sequence[StepTrack], closings: Mapping[str, LogEnd]) -> bool:
    """Whether the last lines of a log of these tracks state that a rule of the training ended it."""
    files = {track.file for track in tracks}
    return any(
        OWN_RULE.search(line) for file, each in closings.items() if file in files for line in each.lines
    )


def stop_alerts(
    end: JobEnd, tracks: Sequence[StepTrack], alerts: Iterable[Alert], closings: Mapping[str, LogEnd]
) -> list[Alert]:
    """What a job that stopped before its announced end states by this alone; nothing where a line shows why.

    The rank that stopped first is a hang without a line. Where no rank stands out, the cause is unknown.

    Args:
        end: How the job ended.
        tracks: The steps of its ranks.
        alerts: What its lines state.
        closings: File -> how its log ends.
    """
    alerts = list(alerts)
    reported = any(
        alert.code in SCHEDULER
        or alert.code == "proc.sigterm"
        or (_is_failure(alert) and alert.code not in QUIET_ALONE)  # what a survivor states is no cause
        for alert in alerts
    )
    if end.state != "stopped" or reported or len(end.behind) > 1:
        return []
    if end.behind:
        (rank,) = end.behind
        track = next(
            each for each in tracks if each.rank == rank and each.marks[-1].step == _step_of(end, rank)
        )
        settle = f"the last lines of rank {rank}, and its node's kernel log"
        code = UNKNOWN if end.finished else HANG
        return [_stop(end, track, closings, code, rank, "A rank stopped first", settle)]
    main = main_tracks(tracks)
    if not main:
        return []
    stopped = [each for each in main if each.node in dict(end.nodes)] or main
    closing = below_steps(stopped, closings)
    if any(ON_PURPOSE.search(line) and not is_failed_end(line) for line in closing):
        return []
    track = max(stopped, key=lambda each: each.marks[-1].step)
    settle = "the scheduler's record of the job, and the kernel logs of its nodes"
    found = _stop(end, track, closings, UNKNOWN, None, "The log ends before the announced last step", settle)
    # A few lines may be an excerpt of a job that went on; no peer is lost in one.
    sure = is_run(main) or ends_with_failure(main, closings) or any(map(_is_failure, alerts))
    return [found if sure else structs.replace(found, severity="warning")]


def _stop(
    end: JobEnd,
    track: StepTrack,
    closings: Mapping[str, LogEnd],
    code: str,
    rank: int | None,
    title: str,
    settle: str,
) -> Alert:
    mark = track.marks[-1]
    at = closings[track.file].at if mark.at is None else mark.at
    words = last_words(closings[track.file].lines, mark.step)
    did = end.text.removeprefix(f"{ranks_text(end.behind)} ") if end.finished else end.text
    text = f"{did}; no line says why" if words is None else f"{did}; then {quoted(words)}"
    below = tuple(below_steps([track], closings)[1:])
    proof = Proof("line", text, at, mark.at is not None, track.node, track.file, mark.offset, (text, *below))
    return Alert(
        id=f"{code}@{track.file}:{rank}", code=code, severity="error", title=title, text=text,
        proof=(proof,), role="root", node=None if rank is None else track.node, rank=rank, job=track.job,
        first=at, last=at, timed=mark.at is not None,
        fields={"confidence": "medium", "settle": settle},
    )  # fmt: skip


def last_words(lines: Sequence[str], step: int) -> str | None:
    """The last line of a log, where it has words and stands below the line of the last step; else None."""
    line = next((each for each in reversed(lines) if each.strip()), "")
    numbers = {number.replace(",", "") for number in NUMBER.findall(line)}
    reported = str(step) not in numbers or is_failed_end(line)
    return line if reported and _WORD.search(line) else None


def _is_failure(alert: Alert) -> bool:
    return alert.severity in ("error", "critical") and alert.role != "hint"


def _step_of(end: JobEnd, rank: int) -> int:
    return next(each.step for each in end.ranks if each.rank == rank)


def _is_last(end: Alert, tracks: Iterable[StepTrack]) -> bool:
    """Whether no rank steps on below a line about the end in its own file."""
    proof = end.proof[0]
    offset = max(proof.offset or 0, end.last_offset or 0)
    return all(
        track.file != proof.file or (track.marks[-1].offset or 0) <= offset or track.marks[-1].step < 2
        for track in tracks
    )
