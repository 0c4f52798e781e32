"""Ranks whose own logs end far before the announced last step, while other ranks reach it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import PurePath

from gpuwatch.diagnose.error_outcome.step_track import StepTrack, begins_anew
from gpuwatch.diagnose.job_end.closing import NUMBER, ON_PURPOSE, LogEnd, below_steps, is_failed_end

MIN_MARKS = 20
"""Fewer logged steps may be those of a program whose other ranks log their first steps alone. One rank of
several is none of these: the others of its kind log on."""
PEERS, MAX_SHORT_SHARE = 3, 0.125
"""So many ranks go through where few logged steps count; no more than this share (or than one) does not."""
SPREADS = 4
APART_STEPS = 16
"""Ranks of one job wait for each other: a few logged steps less are another moment of logging or of data."""
RECENT_MARKS, SPARSER = 10, 4
"""A rank whose last steps lie so many times farther apart than those of another logs now and then."""
PAUSE_S, PAUSE_STEPS = 10.0, 10
"""A job that pauses so long, and so many step times, after a rank's last step goes on without it."""
WAITS = re.compile(
    r"(?i)\b(?:wait(?:ing|s)?|blocked|enter(?:ing|ed|s)?|calling|start(?:ing|ed)?|in)\b.{0,40}?(?:\b|_)"
    r"(?:all_?reduce|all_?gather|reduce_?scatter|broadcast|barrier|collective|all_?to_?all|synchroniz\w+)\b"
)
"""A line after which a rank depends on the others."""
RESIZED = re.compile(
    r"(?i)\b(?:elastic\w*|scal(?:e|ed|ing)[ -]?(?:in|down)|resiz\w*|member(?:s|ship)?|rendezvous|rdzv|removed"
    r"|evict\w*|drain\w*|world[ _]size)\b"
)
"""In the last lines of a rank: the job goes on without it."""


def ranks_cut_short(
    tracks: Iterable[StepTrack], total: int | None, closings: Mapping[str, LogEnd]
) -> tuple[int, ...]:
    """The ranks that logged their steps as the others did, up to one where their log ends without a word.

    Ranks that log at other moments, that leave with a line about it, that other ranks pause for (an elastic
    job) or that begin anew are none of them; nor are several that cease at one step where rank 0 alone
    logs on.

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
    """The one rank that ended a logged step before all others, below which it logged what none of them did.

    The others, `PEERS` at least, all end with the line of the same step. One step less alone may be another
    moment of logging; a line about something else states what kept the rank from the next one.
    """
    own = [track for track in tracks if track.rank is not None and track.alone]
    if len({track.rank for track in own}) != len(own) or len(own) <= PEERS:
        return ()
    last = min(own, key=lambda track: track.marks[-1].step)
    others = [track for track in own if track is not last]
    ends = {track.marks[-1].step for track in others}
    own_words = {_shape(line) for line in below_steps([last], closings)[1:]}
    if len(ends) > 1 or ends == {last.marks[-1].step} or not own_words:
        return ()
    if any(len(below_steps([track], closings)) != 1 for track in others):
        return ()
    shared = {_shape(line) for track in others for line in closings[track.file].lines}
    return () if last.rank is None or own_words & shared else (last.rank,)


def absent_from_collective(tracks: Iterable[StepTrack], closings: Mapping[str, LogEnd]) -> tuple[int, ...]:
    """The one rank whose log does not end with a wait, where those of all others do: `PEERS` at least."""
    own = [track for track in tracks if track.rank is not None and track.alone and track.file in closings]
    last = {track.rank: next(reversed(closings[track.file].lines), "") for track in own}
    waits = {rank for rank, line in last.items() if WAITS.search(line)}
    absent = [rank for rank in last if rank not in waits and rank is not None]
    alone = len(last) == len(own) and len(waits) >= PEERS and len(absent) == 1
    return tuple(absent) if alone and not _says_why(last[absent[0]]) else ()


def _says_why(line: str) -> bool:
    """Whether a last line states that the rank left on purpose, or by an error."""
    return is_failed_end(line) or ON_PURPOSE.search(line) is not None


def _shape(line: str) -> str:
    """A line without its numbers."""
    return NUMBER.sub("#", line)


def far_behind(tracks: Iterable[StepTrack]) -> tuple[int, ...]:
    """The few ranks whose logs end far before those of all others, which end near each other.

    Far is more than `APART_STEPS` logged steps, and `SPREADS` times what lies between the others.
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
    for count in range(1, few + 1):
        others = ends[count:]
        if len(others) < PEERS:
            break
        first, last = others[0].marks[-1].step, others[-1].marks[-1].step
        gap = max(_gap(track, track.marks[-1].step) for track in ends)
        if first - ends[count - 1].marks[-1].step > max(APART_STEPS * gap, SPREADS * (last - first)):
            return tuple(sorted(track.rank for track in ends[:count] if track.rank is not None))
    return ()


def nodes_cut_short(
    tracks: Iterable[StepTrack], total: int | None, closings: Mapping[str, LogEnd]
) -> dict[str, StepTrack]:
    """The nodes whose one log, of no known rank, ceases without a word while that of another node finishes.

    Arguments as of `ranks_cut_short`. Node -> its steps.
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
    """Whether the steps cease while those of one that is through, of the same job, go on to the last one."""
    return not track.complete and any(
        _of_one_job(track, other, shared=shared) and _leaves_behind(track, other, closings, least)
        for other in through
    )


def _leaves_behind(short: StepTrack, whole: StepTrack, closings: Mapping[str, LogEnd], least: int) -> bool:
    """Whether two ranks logged the same steps together, at least `least` of them, and one of them ceased.

    In a run of a few logged steps half of them are far.
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
    """Whether two ranks log into one folder, or into folders that differ in one name: of a node, of a rank.

    `shared`: a rank has steps in several folders, as those of several jobs hold the same ranks.
    """
    if _folder(track) == _folder(other):
        return True
    here, there = PurePath(track.file).parent.parts, PurePath(other.file).parent.parts
    names = zip(here, there, strict=False)
    return not shared and len(here) == len(there) and sum(one != another for one, another in names) == 1


def _folder(track: StepTrack) -> PurePath:
    """The folder of all logs of an attempt: torchrun makes one for each rank (`attempt_0/3/stdout.log`)."""
    folder = PurePath(track.file).parent
    return folder.parent / PurePath(track.file).name if folder.name.isdecimal() else folder


def _gap(track: StepTrack, until: int) -> int:
    """The most steps between two logged ones among the last up to a step; of a long log not all are kept."""
    steps = [mark.step for mark in track.marks if mark.step <= until][-RECENT_MARKS:]
    return max((later - before for before, later in pairwise(steps)), default=1)


def _breaks_off(track: StepTrack, closings: Mapping[str, LogEnd]) -> bool:
    """Whether a log ends right below the last step, without a word about leaving or about a smaller job."""
    closing, last = closings.get(track.file), track.marks[-1]
    lines = below_steps([track], closings)
    if closing is None or not lines or str(last.step) not in NUMBER.findall(lines[0].replace(",", "")):
        return False
    if last.at is not None and closing.at - last.at > PAUSE_S:
        return False
    leaving = (line for line in lines[1:] if not is_failed_end(line))
    return not any(ON_PURPOSE.search(line) or RESIZED.search(line) for line in leaving)


def _pauses(track: StepTrack, step: int) -> bool:
    """Whether a rank waits after a step far longer than before it, and then goes on."""
    gaps = [
        (before.step, later.at - before.at)
        for before, later in pairwise(track.marks)
        if before.at is not None and later.at is not None
    ]
    usual = sorted(gap for _, gap in gaps)
    quiet_s = max(PAUSE_S, PAUSE_STEPS * usual[len(usual) // 2]) if usual else PAUSE_S
    near = APART_STEPS * _gap(track, step)
    return any(gap > quiet_s and abs(before - step) <= near for before, gap in gaps)
