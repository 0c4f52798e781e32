"""Ranks whose own logs end far before the announced last step while other ranks reach it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import PurePath

from gpuwatch.diagnose.error_outcome.step_track import StepTrack, begins_anew
from gpuwatch.diagnose.job_end.closing import NUMBER, ON_PURPOSE, LogEnd, below_steps, is_failed_end

MIN_MARKS = 20
"""Least logged steps that show that a rank stopped; with fewer, it may only log less than rank 0.

If a single rank of several stops while its peers continue to log, fewer are enough.
"""
PEERS, MAX_SHORT_SHARE = 3, 0.125
"""Ranks that must finish if few steps are logged, and the share of ranks (or one) that may stop short."""
SPREADS = 4
APART_STEPS = 16
"""Least difference in logged steps that counts; ranks of one job wait for each other."""
RECENT_MARKS, SPARSER = 10, 4
"""A rank logs only occasionally if its last 10 steps are 4 times farther apart than another rank's."""
PAUSE_S, PAUSE_STEPS = 10.0, 10
"""A job that pauses for this long after a rank's last step continues without the rank.

In seconds, and in times between two steps; both must pass.
"""
WAITS = re.compile(
    r"(?i)\b(?:wait(?:ing|s)?|blocked|enter(?:ing|ed|s)?|calling|start(?:ing|ed)?|in)\b.{0,40}?(?:\b|_)"
    r"(?:all_?reduce|all_?gather|reduce_?scatter|broadcast|barrier|collective|all_?to_?all|synchroniz\w+)\b"
)
"""Matches a line after which a rank depends on the others."""
RESIZED = re.compile(
    r"(?i)\b(?:elastic\w*|scal(?:e|ed|ing)[ -]?(?:in|down)|resiz\w*|member(?:s|ship)?|rendezvous|rdzv|removed"
    r"|evict\w*|drain\w*|world[ _]size)\b"
)
"""Matches wording in a rank's last lines by which the job continues without it."""


def ranks_cut_short(
    tracks: Iterable[StepTrack], total: int | None, closings: Mapping[str, LogEnd]
) -> tuple[int, ...]:
    """Return the ranks that logged the same steps as the others until their logs end without an explanation.

    Excluded are ranks that log at other times, that log why they leave, that other ranks pause for (an
    elastic job) or that restart, and several that stop at one step while only rank 0 logs on.

    Args:
        tracks: The steps of the training.
        total: The announced number of steps.
        closings: File -> how its log ends.
    """
    own = [track for track in tracks if track.rank is not None and track.total_steps == total and track.alone]
    furthest: dict[int, StepTrack] = {}
    for track in own:
        rank = track.rank or 0
        if rank not in furthest or furthest[rank].marks[-1].step < track.marks[-1].step:
            furthest[rank] = track
    through = [track for track in furthest.values() if track.complete]
    shared = len({(track.rank, _folder(track)) for track in own}) > len(furthest)
    lone = max(1, int(MAX_SHORT_SHARE * len(furthest))) if len(through) >= PEERS else 0
    least = 1 if len(furthest) - len(through) <= lone else MIN_MARKS
    short = [
        track
        for track in furthest.values()
        if _falls_short(track, through, closings, shared=shared, least=least)
    ]
    ends = {track.marks[-1].step for track in short}
    if [track.rank for track in through] == [0] and len(short) > len(ends) == 1:
        return ()
    return tuple(sorted(track.rank for track in short if track.rank is not None))


def busy_behind(tracks: Iterable[StepTrack], closings: Mapping[str, LogEnd]) -> tuple[int, ...]:
    """Return the only rank that ended a logged step before all others, after a line that only it logged.

    Empty if there is none. The others, at least `PEERS`, all end with the line of the same step. One step
    less alone may be a difference in logging; the rank's own line shows what delayed it. A saved stack that
    differs from those of the others (`LogEnd.elsewhere`) also counts.
    """
    own = [track for track in tracks if track.rank is not None and track.alone]
    if len({track.rank for track in own}) != len(own) or len(own) <= PEERS:
        return ()
    last = min(own, key=lambda track: track.marks[-1].step)
    others = [track for track in own if track is not last]
    ends = {track.marks[-1].step for track in others}
    own_words = {_shape(line) for line in below_steps([last], closings)[1:]}
    if len(ends) > 1 or ends == {last.marks[-1].step} or not (own_words or closings[last.file].elsewhere):
        return ()
    if any(len(below_steps([track], closings)) != 1 for track in others):
        return ()
    shared = {_shape(line) for track in others for line in closings[track.file].lines}
    return () if last.rank is None or own_words & shared else (last.rank,)


def absent_from_collective(tracks: Iterable[StepTrack], closings: Mapping[str, LogEnd]) -> tuple[int, ...]:
    """Return the only rank whose log does not end with a wait, if the logs of at least `PEERS` others all do.

    Else (), also if the last line of that rank gives a reason for its end.
    """
    own = [track for track in tracks if track.rank is not None and track.alone and track.file in closings]
    last = {track.rank: next(reversed(closings[track.file].lines), "") for track in own}
    waits = {rank for rank, line in last.items() if WAITS.search(line)}
    absent = [rank for rank in last if rank not in waits and rank is not None]
    alone = len(last) == len(own) and len(waits) >= PEERS and len(absent) == 1
    return tuple(absent) if alone and not _says_why(last[absent[0]]) else ()


def _says_why(line: str) -> bool:
    """Return True if a last line shows that the rank left on purpose or by an error."""
    return is_failed_end(line) or ON_PURPOSE.search(line) is not None


def _shape(line: str) -> str:
    """Return the line with `#` for its numbers."""
    return NUMBER.sub("#", line)


def far_behind(tracks: Iterable[StepTrack]) -> tuple[int, ...]:
    """Return the few ranks whose logs end far before those of all others, which end close together.

    Empty if there are none. Far is more than `APART_STEPS` logged steps, and `SPREADS` times the spread
    of the others.
    """
    furthest: dict[int, StepTrack] = {}
    for track in tracks:
        if track.rank is None or track.total_steps is None or not track.alone or begins_anew(track.marks):
            continue
        known = furthest.setdefault(track.rank, track)
        if known.marks[-1].step < track.marks[-1].step:
            furthest[track.rank] = track
    ends = sorted(furthest.values(), key=lambda track: track.marks[-1].step)
    few = max(1, int(MAX_SHORT_SHARE * len(ends)))
    gap = max((_gap(track, track.marks[-1].step) for track in ends), default=1)
    for count in range(1, few + 1):
        others = ends[count:]
        if len(others) < PEERS:
            break
        first, last = others[0].marks[-1].step, others[-1].marks[-1].step
        if first - ends[count - 1].marks[-1].step > max(APART_STEPS * gap, SPREADS * (last - first)):
            return tuple(sorted(track.rank for track in ends[:count] if track.rank is not None))
    return ()


def nodes_cut_short(
    tracks: Iterable[StepTrack], total: int | None, closings: Mapping[str, LogEnd]
) -> dict[str, StepTrack]:
    """Return node -> its steps, for nodes whose log breaks off while another node's log completes.

    Each of these nodes has one log, whose rank is unknown; empty if a node has several. Arguments as for
    `ranks_cut_short`.
    """
    own = [track for track in tracks if track.rank is None and track.total_steps == total and track.alone]
    by_node = {track.node: track for track in own if track.node is not None}
    if len(by_node) != len(own):
        return {}
    through = [track for track in own if track.complete]
    return {
        node: track
        for node, track in by_node.items()
        if _falls_short(track, through, closings, shared=False, least=MIN_MARKS)
    }


def _falls_short(
    track: StepTrack,
    through: Iterable[StepTrack],
    closings: Mapping[str, LogEnd],
    *,
    shared: bool,
    least: int,
) -> bool:
    """Return True if the steps of `track` stop while a finished track of the same job reaches the last one.

    `least`: the number of steps that both must have logged.
    """
    return not track.complete and any(
        _of_one_job(track, other, shared=shared) and _leaves_behind(track, other, closings, least)
        for other in through
    )


def _leaves_behind(short: StepTrack, whole: StepTrack, closings: Mapping[str, LogEnd], least: int) -> bool:
    """Return True if two ranks logged at least `least` of the same steps and the rank of `short` stopped.

    In a run of a few logged steps, half of them suffice.
    """
    last, furthest = short.marks[-1], whole.marks[-1].step
    gap = _gap(short, last.step) if len(short.marks) > 1 else _gap(whole, furthest)
    far = APART_STEPS * gap if least > 1 else min(APART_STEPS * gap, furthest // 2)
    return (
        len(short.marks) >= least
        and furthest - last.step > far
        and gap <= SPARSER * _gap(whole, last.step if len(short.marks) > 1 else furthest)
        and abs(short.marks[0].step - whole.marks[0].step) <= gap
        and not begins_anew(short.marks)
        and not begins_anew(whole.marks)
        and _breaks_off(short, closings)
        and not _pauses(whole, last.step)
    )


def _of_one_job(track: StepTrack, other: StepTrack, *, shared: bool) -> bool:
    """Return True if two ranks log into one folder, or into folders that differ in one component.

    That component is the node or the rank. `shared`: a rank has steps in several folders, as if several jobs
    had the same ranks; then the folder must be the same.
    """
    if _folder(track) == _folder(other):
        return True
    here, there = PurePath(track.file).parent.parts, PurePath(other.file).parent.parts
    names = zip(here, there, strict=False)
    return not shared and len(here) == len(there) and sum(one != another for one, another in names) == 1


def _folder(track: StepTrack) -> PurePath:
    """Return a path that the ranks of one attempt share, by which their logs are grouped.

    It is the folder; for torchrun's `attempt_0/3/stdout.log`, where 3 is the rank, `attempt_0/stdout.log`.
    """
    folder = PurePath(track.file).parent
    return folder.parent / PurePath(track.file).name if folder.name.isdecimal() else folder


def _gap(track: StepTrack, until: int) -> int:
    """Return the largest gap between the last RECENT_MARKS logged steps up to step `until`; 1 without two."""
    steps = [mark.step for mark in track.marks if mark.step <= until][-RECENT_MARKS:]
    return max((later - before for before, later in pairwise(steps)), default=1)


def _breaks_off(track: StepTrack, closings: Mapping[str, LogEnd]) -> bool:
    """Return True if a log ends right after the last step, with no line about leaving or a smaller job."""
    closing, last = closings.get(track.file), track.marks[-1]
    lines = below_steps([track], closings)
    if closing is None or not lines or str(last.step) not in NUMBER.findall(lines[0].replace(",", "")):
        return False
    if last.at is not None and closing.at - last.at > PAUSE_S:
        return False
    leaving = (line for line in lines[1:] if not is_failed_end(line))
    return not any(ON_PURPOSE.search(line) or RESIZED.search(line) for line in leaving)


def _pauses(track: StepTrack, step: int) -> bool:
    """Return True if a rank waits near a step far longer than usual, and then continues."""
    gaps = [
        (before.step, later.at - before.at)
        for before, later in pairwise(track.marks)
        if before.at is not None and later.at is not None
    ]
    usual = sorted(gap for _, gap in gaps)
    quiet_s = max(PAUSE_S, PAUSE_STEPS * usual[len(usual) // 2]) if usual else PAUSE_S
    near = APART_STEPS * _gap(track, step)
    return any(gap > quiet_s and abs(before - step) <= near for before, gap in gaps)
