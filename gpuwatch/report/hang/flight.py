"""Verdicts on flight-recorder dumps as text and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TextIO

from gpuwatch import __version__
from gpuwatch.blocks.model import Line
from gpuwatch.diagnose.hang.flight_recorder.groups import Problem, ProcessGroup
from gpuwatch.diagnose.hang.flight_recorder.verdict import FlightAnalysis
from gpuwatch.diagnose.model.text import ranks_text
from gpuwatch.number_text import plural
from gpuwatch.plain import plain, plain_json
from gpuwatch.report.hang.verdict import verdict_lines
from gpuwatch.report.incidents.json_output import verdict_facts
from gpuwatch.report.once.json_output import Facts
from gpuwatch.report.output.console import console_on, show
from gpuwatch.runs.flight.dump_files import FoundDumps
from gpuwatch.runs.flight.rank_dump import RankDump

MAX_LISTED_FILES = 8
"""Maximum number of omitted dumps and folders that are listed individually."""


def print_flight(read: FoundDumps, analysis: FlightAnalysis, out: TextIO) -> None:
    """Write the report on flight-recorder dumps; colours depend on the terminal."""
    with console_on(out) as console:
        for line in flight_lines(read, analysis):
            show(console, line)


def flight_lines(read: FoundDumps, analysis: FlightAnalysis) -> Iterator[Line]:
    """Yield report lines with the verdict, its evidence, files that were not used, and a summary."""
    yield from verdict_lines(analysis.verdict)
    yield Line("")
    for each in read.skipped:
        if each.unreadable:
            yield Line(plain(f"{each.name}: {each.why}"), "warning")
    if read.twice:
        yield Line(f"several dumps of {ranks_text(read.twice)}: only the newest of each is used", "warning")
    for words in read.apart[:MAX_LISTED_FILES]:
        yield Line(words, "warning")
    if len(read.apart) > MAX_LISTED_FILES:
        yield Line(f"{len(read.apart) - MAX_LISTED_FILES} more skipped for the same reasons", "warning")
    yield Line(summary(read, analysis))


def summary(read: FoundDumps, analysis: FlightAnalysis) -> str:
    """Return `64 dumps (ranks 0-63, nccl) of 3 groups; 2 files not readable`."""
    backends = sorted({dump.backend for dump in read.dumps})
    whose = f" ({ranks_text(dump.rank for dump in read.dumps)}, {', '.join(backends)})" if read.dumps else ""
    parts = [f"{plural(len(read.dumps), 'dump')}{whose} of {plural(len(analysis.process_groups), 'group')}"]
    unreadable = sum(each.unreadable for each in read.skipped)
    if unreadable:
        parts.append(f"{plural(unreadable, 'file')} not readable")
    return "; ".join(parts)


def flight_json(read: FoundDumps, analysis: FlightAnalysis) -> str:
    """Return the report on flight-recorder dumps as JSON text."""
    return plain_json(json.dumps(flight_facts(read, analysis), indent=2, ensure_ascii=False))


def flight_facts(read: FoundDumps, analysis: FlightAnalysis) -> Facts:
    """Return the report on flight-recorder dumps as data; every key is documented in `docs/json.md`."""
    return {
        "gpuwatch": __version__,
        **verdict_facts(analysis.verdict),
        "problems": [problem_facts(each) for each in analysis.problems],
        "groups": [process_group_facts(each) for each in analysis.process_groups],
        "dumps": [dump_facts(each) for each in read.dumps],
        "twice": sorted(read.twice),
        "apart": read.apart,
        "skipped": [
            {"name": each.name, "why": plain(each.why), "unreadable": each.unreadable}
            for each in read.skipped
        ],
    }


def problem_facts(problem: Problem) -> Facts:
    """Return one blocked group as data."""
    return {
        "kind": problem.kind,
        "group": problem.group.name,
        "seq": problem.seq or None,
        "op": problem.op.name,
        "frame": problem.op.frame,
        "culprits": list(problem.culprits),
        "waiting": sorted(problem.waiting),
        "since": problem.since_s,
        "share": round(problem.share, 4),
        "odd": [
            {
                "rank": rank,
                "op": op.name,
                "seq": op.seq,
                "state": op.state,
                "inputs": [list(size) for size in op.inputs],
                "outputs": [list(size) for size in op.outputs],
                "dtypes": sorted({*op.dtypes[0], *op.dtypes[1]}),
                "frame": op.frame,
            }
            for rank, op in sorted(problem.odd.items())
        ],
    }


def process_group_facts(process_group: ProcessGroup) -> Facts:
    """Return one process group as data."""
    lasts = [history.last for history in process_group.histories.values()]
    return {
        "name": process_group.name,
        "desc": process_group.desc,
        "ranks": list(process_group.members),
        "ranks_known": process_group.known,
        "absent": list(process_group.absent),
        "last": {"lowest": min(lasts, default=None), "highest": max(lasts, default=None)},
    }


def dump_facts(dump: RankDump) -> Facts:
    """Return one dump file as data."""
    newest = dump.newest
    return {
        "rank": dump.rank,
        "file": dump.file,
        "version": dump.version,
        "backend": dump.backend,
        "entries": dump.count,
        "last_op": newest.name if newest is not None else None,
        "last_seq": newest.seq if newest is not None else None,
        "last_frame": newest.frame if newest is not None else None,
    }
