"""Joins the three logs of a training session: one process writes them, each with a part of its numbers."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from gpuwatch.fleet.logs.logged_steps import LoggedStep
from gpuwatch.fleet.logs.progress import KEPT_STEPS, RankProgress

SESSION_LOG = re.compile(r"(?P<session>.+)_(?:main|multigpu|performance)\.log\Z")


def joined_sessions(writers: Iterable[RankProgress]) -> list[RankProgress]:
    """Return the writers, with those of one session and rank joined at the place of the first.

    The log with the losses provides the steps; the others add what it lacks.
    """
    found: dict[object, list[RankProgress]] = {}
    for writer in writers:
        session = _session_of(writer.file)
        key: object = id(writer) if session is None else (writer.node, session, writer.rank or 0)
        found.setdefault(key, []).append(writer)
    return [group[0] if len(group) == 1 else _joined(group) for group in found.values()]


@lru_cache(maxsize=16_384)
def _session_of(file: str) -> str | None:
    """Return a log's path without the end that names one of a session's three logs; None: no such end."""
    found = SESSION_LOG.match(file)
    return None if found is None else found["session"]


def _joined(logs: list[RankProgress]) -> RankProgress:
    first, *others = sorted(logs, key=_richness, reverse=True)
    stepped = [log.stepped_at for log in logs if log.stepped_at is not None]
    return replace(
        first,
        rank=next((log.rank for log in (first, *others) if log.rank is not None), None),
        local_rank=next((log.local_rank for log in (first, *others) if log.local_rank is not None), None),
        job=next((log.job for log in (first, *others) if log.job is not None), None),
        values={name: value for log in (*others[::-1], first) for name, value in log.values.items()},
        phases={name: value for log in (*others[::-1], first) for name, value in log.phases.items()},
        timings={name: value for log in (*others[::-1], first) for name, value in log.timings.items()},
        steps=_with_communication(first.steps, others),
        received_at=max(log.received_at for log in logs),
        stepped_live=any(log.stepped_live for log in logs),
        stepped_at=max(stepped, default=None),
        version=sum(log.version for log in logs),
    )


def _richness(log: RankProgress) -> tuple[bool, int, int]:
    return "loss" in log.values, len(log.values), len(log.steps)


def _with_communication(steps: deque[LoggedStep], others: Iterable[RankProgress]) -> deque[LoggedStep]:
    """Return the steps, with communication times added that only another log has."""
    known = {
        step.step: step.communication_s
        for log in others
        for step in log.steps
        if step.communication_s is not None
    }
    if not known or any(step.communication_s is not None for step in steps):
        return steps
    return deque((replace(step, communication_s=known.get(step.step)) for step in steps), maxlen=KEPT_STEPS)
