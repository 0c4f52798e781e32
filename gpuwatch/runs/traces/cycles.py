"""Selects among the traces of a rank: a profiler with `repeat` writes one per cycle; the newest is judged."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from pathlib import PurePath

from gpuwatch.runs.traces.rank_profile import RankProfile

HANDLER_NAME = re.compile(r"(.{1,200})\.\d{10,20}\.pt\.trace\.json")
"""File name of torch.profiler's `tensorboard_trace_handler`: `WORKER.TIME.pt.trace.json`.

WORKER is host and process.
"""


def newest_cycles(profiles: Iterable[RankProfile]) -> tuple[list[RankProfile], list[RankProfile]]:
    """Return the newest trace of each rank, and the older ones, both in the given order.

    A trace without a rank belongs to the process in its file name; without one, it is a newest trace.
    """
    every = list(profiles)
    newest: dict[Hashable, RankProfile] = {}
    for each in every:
        key = _process_of(each)
        if key not in newest or _age(each) > _age(newest[key]):
            newest[key] = each
    chosen = {id(each) for each in newest.values()}
    return [each for each in every if id(each) in chosen], [each for each in every if id(each) not in chosen]


def _process_of(profile: RankProfile) -> Hashable:
    trace = profile.trace
    if trace.rank is not None:
        return trace.rank, trace.device, trace.process, trace.host
    path = PurePath(trace.file)
    named = HANDLER_NAME.match(path.name)
    return (str(path.parent), named[1] if named else path.name), trace.device, trace.process


def _age(profile: RankProfile) -> tuple[float, str]:
    return profile.begin_us, profile.trace.file
