"""Reads the ranks that a log lists as missing: Horovod's stall report, JAX's barrier, other errors."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from gpuwatch.agent.logs.lines.normalise import messages
from gpuwatch.agent.patterns.module_pattern import pattern_of
from gpuwatch.diagnose.model.alert import Alert

NAMED_RANKS = ("culprit_ranks", "missing_ranks", "lagging_ranks")
"""Fields that list culprits, as `3`, `3, 4` or `[3, 4]`."""
MAX_LISTED = 4096

_INLINE = pattern_of(
    r"(?i)\b(?:missing (?:ranks|tasks|processes)|stuck (?:ranks|processes|workers)|remote ranks?"
    r"|(?:tasks|ranks|processes|workers|hosts)(?: that)? (?:never|not|have not|did not) "
    r"(?:arrived?|joined?|responded|registered|reached(?: it)?)): ?\[?(\d[\d, ]*)"
)
"""Matches a list of Horovod before 0.19: `tensor [missing ranks: 1, 3]`, one line per tensor."""
_HEAD = pattern_of(
    r"(?i)\b(?:missing ranks|stalled ranks|ranks missing|ranks? that (?:did not join|have not joined)):?\s*$"
)
_HEAD_WORD = pattern_of(r"(?i)missing|stalled|\bnot join")
"""Matches one of the words of which each line that `_HEAD` can match has one."""
_ENTRY = pattern_of(r"(?:^|[>\]:] ?|[\s\"])(\d{1,6}): ?\[")
"""Matches an entry of Horovod since 0.19, below the line `Missing ranks:`: `1: [tensor, tensor]`."""
_TASKS = pattern_of(
    r"(?i)(?:\btimed[ -]out task names|\bstopped sending heartbeats\)"
    r"|\btasks (?:that )?(?:never|not|have not|did not) (?:yet )?(?:arrived?|joined?|reached(?: it)?)):(.*)"
)
_TASK = pattern_of(r"/task:(\d{1,6})\b")
"""Matches a task that did not reach a barrier (JAX, TensorFlow); its number is the process index."""
_LOST_TASK = pattern_of(r"/task:(\d{1,6}) (?:heartbeat timeout|has been set to ERROR)")
"""Matches a task that the coordination service of JAX or TensorFlow lost."""


SEARCHED_CHARS = 4096
"""Most characters of a line that are searched, as in agents (`agent/logs/matching/matcher.py`)."""


def absent_ranks(alert: Alert) -> tuple[int, ...]:
    """Return the ranks that a field of an alert lists as missing, in its order; else those in its lines.

    The latter are sorted, at most MAX_LISTED. May be empty.
    """
    for name in NAMED_RANKS:
        numbers = _numbers(alert.fields.get(name))
        if numbers:
            return numbers
    found: set[int] = set()
    for proof in alert.proof:
        found.update(_in_lines(tuple(proof.lines)))
    return tuple(sorted(found)[:MAX_LISTED])


def other_ranks(alert: Alert) -> tuple[int, ...]:
    """Return the other ranks that a line names: those that it lists as missing, else its peer."""
    peer = alert.fields.get("peer_rank")
    return absent_ranks(alert) or ((peer,) if isinstance(peer, int) else ())


def absent_in(alerts: Iterable[Alert]) -> set[int]:
    """Return the ranks that any of these alerts lists as missing."""
    return {rank for alert in alerts for rank in absent_ranks(alert)}


@lru_cache(maxsize=8192)
def _in_lines(lines: tuple[str, ...]) -> frozenset[int]:
    """Return the ranks that the lines of a proof list; cached, since each judgement asks for all proofs."""
    found: set[int] = set()
    below_head = below_tasks = False
    for line in (whole[:SEARCHED_CHARS] for whole in lines):
        inline, tasks = _INLINE.search(line), _TASKS.search(line)
        if inline is not None:
            found.update(_numbers(inline[1]))
        found.update(map(int, _LOST_TASK.findall(line)))
        entry = _ENTRY.search(line) if below_head else None
        if entry is not None:
            found.add(int(entry[1]))
        below_head = entry is not None or (_HEAD_WORD.search(line) is not None and _is_head(line))
        named = _TASK.findall(tasks[1] if tasks is not None else line if below_tasks else "")
        found.update(map(int, named))
        below_tasks = tasks is not None or (below_tasks and bool(named))
    return frozenset(found)


def _is_head(line: str) -> bool:
    """Return True if the message of a line, without the logger's prefix, announces a list of ranks."""
    return _HEAD.search(messages(line.encode())[0][-1][0]) is not None


def _numbers(value: object) -> tuple[int, ...]:
    if isinstance(value, int):
        return (value,)
    if not isinstance(value, str):
        return ()
    words = value.replace("[", " ").replace("]", " ").replace(",", " ").split()
    return tuple(int(word) for word in words if word.isdecimal() and len(word) < 8)
