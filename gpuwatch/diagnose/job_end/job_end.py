"""How a job ended, from the steps that its ranks logged: finished, running, stopped early, or unknown.

Example: four ranks log `step 500/1000` last and their files no longer grow: stopped at step 500 of 1,000.
If rank 2 logged step 487 last, it is `behind`. After `step 1000/1000` of all ranks the job is finished,
also if an error follows. Without a total it is finished by a line of its own (`Training finished`, early
stopping), or unknown, unless a rank is behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from gpuwatch.agent.patterns.module_pattern import pattern_of
from gpuwatch.diagnose.error_outcome.step_track import StepTrack, reached
from gpuwatch.diagnose.job_end.closing import (
    LogEnd,
    below_steps,
    ends_with_failure,
    epoch_of,
    has_stalled,
    signal_of,
    states_whole,
)
from gpuwatch.diagnose.job_end.epoch_end import ended_in_epoch, ends_on_purpose, place_in_epoch
from gpuwatch.diagnose.job_end.planned_end import INTERRUPTED, leave_of, with_interruption
from gpuwatch.diagnose.job_end.stopped_ranks import (
    absent_from_collective,
    busy_behind,
    far_behind,
    nodes_cut_short,
    ranks_cut_short,
)
from gpuwatch.diagnose.job_end.training_tracks import (
    BEHIND_STEPS,
    RankEnd,
    begins_at_start,
    behind_in_step,
    is_run,
    is_short_run,
    main_tracks,
    rank_ends,
    ranks_behind,
)
from gpuwatch.diagnose.last_lines.endings import is_intended, states_job_end
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import FINISHED
from gpuwatch.diagnose.model.text import ranks_text

State: TypeAlias = Literal["finished", "running", "stopped", "unknown"]


OWN_RULE = pattern_of(
    r"(?i)\bearly[ _-]?stop(?:ped|ping)?(?: (?:was|is|has been))? ?"
    r"(?:triggered|now|reached|activated|condition met)\b"
    r"|\bearly[ _-]?stop(?:s|ped|ping)?\b.{0,120}"
    r"\b(?:stopp(?:ing|ed)|exhausted|exceeded|reached|end(?:ing|ed)|halt(?:ing|ed)?)\b"
    r"|\bstopp(?:ing|ed) (?:the )?(?:training |run )?early\b|\btraining (?:was )?stopped early\b"
    r"|\b(?:improve(?:d|ments?)?|patience)\b.{0,80}"
    r"\b(?:stopp(?:ing|ed)|exhausted|exceeded|ran out|ending|terminating)\b"
    r"|\bpatience (?:of )?\d{0,6} ?(?:was |is )?(?:reached|over)\b"
    r"|\b(?:max[ _]?(?:duration|time|run_?time|train_?time|hours|minutes)|(?:time|duration|wall[ -]?clock"
    r"|compute|token)[ _](?:budget|limit))\b[^.;]{0,40}"
    r"\b(?:reached|hit|used(?: up)?|exhausted|elapsed|is over|met)\b"
    r"|\b(?:reached|hit|used up|exhausted) (?:the |its )?(?:max(?:imum)?[ _]|time|duration|wall[ -]?clock"
    r"|compute|token)[ _]?(?:duration|time|run_?time|budget|limit)\b"
    r"|\bexit(?:ing|ed)? (?:program |training |the loop )?after \d[\d.,]{0,12}"
    r" (?:s|sec|seconds|min|minutes|h|hours)\b"
    r"|\bearly[ _-]?stop\w* counter: (\d{1,6}) (?:out )?(?:of|/) \1\b"
)
"""Matches the statement that a rule of the training (early stopping, patience, a duration) ended it."""


class JobEnd(Struct, frozen=True):
    """How a job ended: its state, the last step of each rank, the ranks behind, the signal that ended it."""

    state: State
    step: int | None = None
    """The highest step."""
    total_steps: int | None = None
    ranks: tuple[RankEnd, ...] = ()
    """The last step of every rank that logs its own steps."""
    behind: tuple[int, ...] = ()
    """Ranks that ended before all others."""
    early: bool = False
    """True if a rule of the training (early stopping) ended the job before its announced end."""
    epoch: tuple[int, int] | None = None
    """The last epoch that the logs name and the number of epochs; None if it is the last one or unknown."""
    place: tuple[int, int, int | None] | None = None
    """Epoch, last step in it and steps per epoch (None: unknown), if steps restart with every epoch."""
    finished: tuple[int, ...] = ()
    """Ranks that reached the announced last step while those behind stopped far before it."""
    nodes: tuple[tuple[str, int], ...] = ()
    """Node and last step of each log of unknown rank that stopped while another node's log finished."""
    signal: str | None = None
    """The signal that ended the job without a failure, if the log shows it: SIGINT (Ctrl-C) or SIGTERM."""
    orderly: bool = False
    """True if the job saved its state on a signal and then stated a good end."""

    @property
    def text(self) -> str:
        """Return the outcome: `stopped at step 41,342 of 100,000: rank 5 first, the others at 41,344`."""
        total = "" if self.total_steps is None else f" of {self.total_steps:,}"
        if self.epoch is not None:
            total += f" in epoch {self.epoch[0]:,} of {self.epoch[1]:,}"
        at = self._place(total) if self.step is None else f" at step {self.step:,}{total}"
        if self.early and self.step is not None:
            return f"ended by its own stopping rule{at}"
        if self.state == "finished":
            return f"finished{at}"
        if self.state == "running":
            return f"still written,{at}" if at else "still written"
        if self.signal is not None and not self.behind and not self.nodes:
            how = "interrupted" if self.signal == "SIGINT" else "terminated"
            return f"{how} ({self.signal}){at}"
        if self.state == "stopped":
            return self._stopped(at, total)
        last = f" (last {at.removeprefix(' at ')})" if at.startswith(" at ") else ""
        return f"the logs do not show how the job ended{last}"

    def _place(self, total: str) -> str:
        """Return text such as ` at step 700 of 744 in epoch 5` for logs that count steps per epoch.

        For other logs it is `total`, which also replaces the epoch if it is not empty.
        """
        if self.place is None:
            return total
        epoch, step, steps = self.place
        of = "" if steps is None or step > steps else f" of {steps:,}"
        return f" at step {step:,}{of}{total or f' in epoch {epoch:,}'}"

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
        if first == self.step:
            absent = ranks_text(self.behind)
            return f"stopped at step {first:,}{total}: {absent} did not reach what the others wait for"
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
    whole: bool = False,
) -> JobEnd:
    """Return how a job ended, by its steps and the last lines of its logs.

    Args:
        tracks: The steps of its ranks.
        alerts: The alerts from findings, with those of class `FINISHED`.
        closings: File -> how its log ends.
        growing: Whether its files are being written now.
        settled: Whether its files are known not to be written any more.
        whole: Whether they are a job's own files, not excerpts: then a few steps also count as a run.
    """
    main = main_tracks(tracks)
    epoch = epoch_of(main, closings) if main else ended_in_epoch(tracks, closings)
    furthest = max((track.marks[-1].step for track in main), default=None)
    total = max((track.total_steps for track in main if track.total_steps is not None), default=None)
    ranks = rank_ends(main)
    behind = _left_behind(main, ranks, closings)
    complete = furthest is not None and epoch is None
    complete = complete and (reached(furthest or 0, total) or states_whole(main, total, closings))
    early = ended_by_rule(main, closings) and not any(is_failure(alert) for alert in alerts)
    short = () if early else ranks_cut_short(main, total, closings)
    lost = {} if early or short or growing else nodes_cut_short(main, total, closings)
    failed = any(is_failure(alert) for alert in with_interruption(alerts))
    ended_by = _ended_by(main, alerts, closings)
    state: State = "unknown"
    if growing:
        state = "running"
    elif lost:
        state, behind = "stopped", ()
    elif short:
        state, behind = "stopped", short
    elif complete or early or any(_is_last(each, main) for each in alerts if each in FINISHED):
        state = "finished"
    elif behind or _stops(main, total or epoch, closings, settled=settled, whole=whole):
        state = "stopped"
    elif not failed and ended_by is None and ends_well(main, closings):
        state = "finished"
    signal = ended_by if state in ("stopped", "unknown") and not failed else None
    return JobEnd(
        state=state,
        step=furthest,
        total_steps=total,
        ranks=ranks,
        behind=behind if state == "stopped" else (),
        early=early and state == "finished" and not complete,
        epoch=epoch,
        place=place_in_epoch(tracks) if furthest is None and state != "finished" else None,
        finished=tuple(each.rank for each in ranks if reached(each.step, total)) if short else (),
        nodes=tuple((node, track.marks[-1].step) for node, track in sorted(lost.items())),
        signal=signal,
        orderly=signal is not None and not behind and leaves_in_order(closings),
    )


def _is_run(main: Sequence[StepTrack], closings: Mapping[str, LogEnd], *, settled: bool, whole: bool) -> bool:
    """Return True if the tracks are those of a training, not an excerpt of one."""
    run = is_run(main) or (settled and is_short_run(main, closings)) or ends_with_failure(main, closings)
    return run or (whole and settled and begins_at_start(main))


def _stops(
    main: Sequence[StepTrack], planned: object, closings: Mapping[str, LogEnd], *, settled: bool, whole: bool
) -> bool:
    """Return True if a run stops below its planned end, a step or an epoch (None: no plan is known)."""
    if main:
        return planned is not None and _is_run(main, closings, settled=settled, whole=whole)
    return planned is not None and settled and not ends_on_purpose(closings)


def _ended_by(
    main: Sequence[StepTrack], alerts: Sequence[Alert], closings: Mapping[str, LogEnd]
) -> str | None:
    """Return the signal that ended the job, by its lines; None: none is stated."""
    return "SIGINT" if any(each in INTERRUPTED for each in alerts) else signal_of(main, closings)


def _left_behind(
    main: Sequence[StepTrack], ranks: Sequence[RankEnd], closings: Mapping[str, LogEnd]
) -> tuple[int, ...]:
    """Return the ranks that stopped while the others went on, by the first of five tests that finds some."""
    return (
        ranks_behind(main, ranks, 1 if has_stalled(main, closings) else BEHIND_STEPS)
        or absent_from_collective(main, closings)
        or busy_behind(main, closings)
        or far_behind(main)
        or behind_in_step(main)
    )


def ended_by_rule(tracks: Sequence[StepTrack], closings: Mapping[str, LogEnd]) -> bool:
    """Return True if the last lines of these tracks' logs state that a rule of the training ended it."""
    files = {track.file for track in tracks}
    return any(
        OWN_RULE.search(line) for file, each in closings.items() if file in files for line in each.lines
    )


def leaves_in_order(closings: Mapping[str, LogEnd]) -> bool:
    """Return True if a job saved its state when it was asked to end, and its log then states a good end."""
    leaves = [leave_of(each.lines) for each in closings.values()]
    return any(leave.saved and leave.closed for leave in leaves)


def ends_well(tracks: Sequence[StepTrack], closings: Mapping[str, LogEnd]) -> bool:
    """Return True if each log with steps states a good end of the job below its last step, no intended one.

    If no log has steps, return True if the last line of any log states a good end.
    """
    if not tracks:
        return any(states_job_end(line) for each in closings.values() for line in each.lines[-1:])
    by_file = {track.file: below_steps([track], closings)[1:] for track in tracks}
    return all(
        any(map(states_job_end, lines)) and not any(map(is_intended, lines)) for lines in by_file.values()
    )


def is_failure(alert: Alert) -> bool:
    """Return True if an alert is a failure itself, not a hint of one."""
    return alert.severity in ("error", "critical") and alert.role != "hint"


def _is_last(end: Alert, tracks: Iterable[StepTrack]) -> bool:
    """Return True if no step of number 2 or more is logged below the alert `end`, in the file of its line."""
    proof = end.proof[0]
    offset = max(proof.offset or 0, end.last_offset or 0)
    return all(
        track.file != proof.file or (track.marks[-1].offset or 0) <= offset or track.marks[-1].step < 2
        for track in tracks
    )
