"""Finds the only rank that logged other lines after the step that all ranks logged last. Pure.

Example: four ranks end with step 41. Below it rank 2 alone logs `fetching shard 17`, and rank 0 reports that
a collective timed out. The others logged nothing below the step: rank 2 is the likely culprit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import structs

from gpuwatch.agent.logs.lines.levels import GRAVE, own_level
from gpuwatch.diagnose.error_outcome.step_track import StepTrack
from gpuwatch.diagnose.job_end.closing import NUMBER, ON_PURPOSE, SAVED, LogEnd, below_steps, is_failed_end
from gpuwatch.diagnose.model.alert import LAST_WORDS, Alert
from gpuwatch.diagnose.model.failure_classes import TIMEOUTS
from gpuwatch.diagnose.model.last_activity import last_line

PEERS = 2
"""Least number of other ranks; the last steps of all ranks may differ by 1."""


def ranks_with_last_words(tracks: Iterable[StepTrack], closings: Mapping[str, LogEnd]) -> tuple[int, ...]:
    """Return the only rank whose log ends with other lines after the common last step; () without one.

    Excluded are lines that state an end, a saved checkpoint or a failure, and lines of a form that another
    rank logs too.

    Args:
        tracks: The steps of the training.
        closings: File -> how its log ends.
    """
    alone = [track for track in tracks if track.rank is not None and track.alone and track.file in closings]
    own = list({(track.rank, track.file): track for track in alone}.values())  # several nodes may see a file
    steps = [track.marks[-1].step for track in own]
    if len({track.rank for track in own}) != len(own) or len(own) <= PEERS or max(steps) - min(steps) > 1:
        return ()
    forms = {track.rank: {_form(line) for line in closings[track.file].lines} for track in own}
    found = []
    for track in own:
        line = last_line(below_steps([track], closings)[1:])
        others = (forms[other.rank] for other in own if other is not track)
        if line is not None and _is_work(line) and not any(_form(line) in each for each in others):
            found.append(track.rank)
    return tuple(rank for rank in found if rank is not None) if len(found) == 1 else ()


def with_last_words(alerts: Iterable[Alert], words: Mapping[str | None, tuple[int, ...]]) -> list[Alert]:
    """Return the alerts; timeouts get the field `LAST_WORDS`: the rank that alone logged more in the end.

    `words`: job -> its result of `ranks_with_last_words`.
    """
    return [
        structs.replace(alert, fields={**alert.fields, LAST_WORDS: words[alert.job][0]})
        if alert in TIMEOUTS and words.get(alert.job)
        else alert
        for alert in alerts
    ]


def _is_work(line: str) -> bool:
    ends = ON_PURPOSE.search(line) or SAVED.search(line) or is_failed_end(line)
    return not ends and own_level(line) not in GRAVE and not line.startswith((" ", "\t", "Traceback"))


def _form(line: str) -> str:
    """Return the line with `#` in place of its numbers."""
    return NUMBER.sub("#", line)
