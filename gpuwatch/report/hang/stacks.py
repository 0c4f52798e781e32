"""A hang report as text and JSON: the verdict, the ranks by location, NCCL RAS."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TextIO

from gpuwatch import __version__
from gpuwatch.blocks.lines import INDENT, text_lines
from gpuwatch.blocks.model import Line, commands, titled
from gpuwatch.diagnose.hang.combined_verdict import HangReport
from gpuwatch.diagnose.hang.flight_recorder.job_dumps import (
    NO_PIPES,
    FlightEvidence,
    JobDumps,
    dumps_text,
    reasons_text,
)
from gpuwatch.diagnose.hang.ras.model import Bucket, Communicator, Ras, RasRank
from gpuwatch.diagnose.hang.stacks.groups import JobStacks, RankStack, StackGroup
from gpuwatch.diagnose.model.text import NO_RANK_SEEN, ranks_text
from gpuwatch.diagnose.model.verdict import Verdict
from gpuwatch.number_text import plural, ranges
from gpuwatch.plain import plain, plain_json
from gpuwatch.report.hang.process_stacks import SeenProcess, process_facts, process_lines
from gpuwatch.report.hang.verdict import verdict_lines
from gpuwatch.report.incidents.json_output import verdict_facts
from gpuwatch.report.once.json_output import Facts
from gpuwatch.report.output.console import console_on, show
from gpuwatch.report.output.renamed_keys import with_new_names


def print_stacks(
    hang_check: HangReport,
    unasked: Mapping[str, str],
    out: TextIO,
    seen: Sequence[SeenProcess] = (),
    wall: float | None = None,
) -> None:
    """Write the report on the ranks' stacks as of `wall` (unix seconds; None: now); colours as possible."""
    with console_on(out) as console:
        for line in stacks_lines(hang_check, unasked, seen, wall):
            show(console, line)


def stacks_lines(
    hang_check: HangReport,
    unasked: Mapping[str, str],
    seen: Sequence[SeenProcess] = (),
    wall: float | None = None,
) -> Iterator[Line]:
    """Yield the lines of the report on a hang.

    They are: the verdict and the next commands, each job's ranks by code location, dumps, single processes,
    the nodes that were not queried, and why NCCL RAS did not answer.

    `unasked`: node -> why it was not queried. `wall`: unix seconds, None: now.
    """
    if hang_check.verdict is None:
        yield Line(NO_RANK_SEEN, "plain" if seen else "warning")
    else:
        yield from verdict_lines(hang_check.verdict)
        yield from command_lines(hang_check)
    for job in hang_check.jobs:
        yield Line("")
        yield from job_lines(job, alone=len(hang_check.jobs) == 1)
    if hang_check.dumps is not None:
        yield Line("")
        yield from dumps_lines(hang_check.dumps, time.time() if wall is None else wall)
    if seen:
        yield Line("")
        yield from process_lines(seen)
    for node, why in unasked.items():
        yield Line(plain(f"{node}: {why}"), "warning")
    if hang_check.ras_trouble and not hang_check.ras:
        node, why = next(iter(hang_check.ras_trouble.items()))
        yield Line(plain(f"no answer from NCCL RAS ({node}: {why})"))


def command_lines(hang_check: HangReport) -> list[Line]:
    """Return report lines with the next steps, as commands to copy."""
    return list(text_lines(titled("What to do", commands(hang_check.do))))


def dumps_lines(dumps: FlightEvidence, wall: float) -> Iterator[Line]:
    """Yield report lines about the dumps read of each job, ranks without one, and ranks that can write one.

    `wall`: unix seconds.
    """
    for job in dumps.jobs:
        named = f"job {job.job}: " if job.job else ""
        yield Line(plain(f"{named}{dumps_text(job, wall)}"))
        for line in reasons_text(job.without):
            yield Line(plain(f"{INDENT}{line}"), "warning")
    if dumps.places and not any(job.read for job in dumps.jobs):
        places = ", ".join(f"{place}N" for place in dumps.places)
        yield Line(plain(f"{INDENT}no dumps found; expected at {places} (N: rank)"))
    if dumps.may_write:
        yield Line(f"{INDENT}{ranks_text(dumps.may_write)} can write dumps now (--trigger-dumps)")
    else:
        yield Line(f"{INDENT}{NO_PIPES}")


def job_lines(job: JobStacks, *, alone: bool) -> Iterator[Line]:
    """Yield one job's ranks by location, smallest group first, then those without an answer.

    With its own verdict unless it is `alone`.
    """
    count = sum(len(spot.ranks) for spot in job.spots)
    named = f"job {job.job}: " if job.job else ""
    yield Line(plain(f"{named}{plural(count, 'rank')} in {plural(len(job.spots), 'distinct stack')}"))
    if not alone:
        yield Line(plain(f"{INDENT}{job.verdict.sentence}"), "critical" if job.verdict.wrong else "ok")
    for spot in job.spots:
        yield Line(plain(f"{INDENT}{len(spot.ranks):4}  {_ranks(spot.ranks)}  {spot.what}"))
        for frame in spot.frames:
            yield Line(plain(f"{INDENT}          {frame}"), "muted")
    reasons = {rank.stack.why for spot in job.spots for rank in spot.ranks if rank.stack is not None}
    for why in sorted(reason for reason in reasons if reason):
        yield Line(plain(f"{INDENT}without Python stacks: {why}"))
    unseen: dict[str, list[RankStack]] = {}
    for each in job.unseen:
        unseen.setdefault(each.missing or "no answer", []).append(each)
    for why, ranks in unseen.items():
        yield Line(plain(f"{INDENT}{_ranks(ranks)}: {why}"), "warning")


def _ranks(ranks: Sequence[RankStack]) -> str:
    if len(ranks) == 1:
        gpu = f" GPU {ranks[0].gpu}" if ranks[0].gpu is not None else ""
        return f"rank {ranks[0].rank} ({ranks[0].node}{gpu}, pid {ranks[0].pid})"
    return f"ranks {ranges(each.rank for each in ranks)}"


# --------------------------------------------------------------------------- JSON


def stacks_json(hang_check: HangReport, unasked: Mapping[str, str], seen: Sequence[SeenProcess] = ()) -> str:
    """Return the report on the ranks' stacks as JSON text."""
    return plain_json(json.dumps(stacks_facts(hang_check, unasked, seen), indent=2, ensure_ascii=False))


def stacks_facts(
    hang_check: HangReport, unasked: Mapping[str, str], seen: Sequence[SeenProcess] = ()
) -> Facts:
    """Return the report on the ranks' stacks as data; every key is documented in `docs/json.md`."""
    nothing, ras = Verdict("stacks", wrong=False, sentence=NO_RANK_SEEN), hang_check.ras_verdicts
    return with_new_names(
        {
            "gpuwatch": __version__,
            **verdict_facts(hang_check.verdict or nothing),
            "do": [{"what": plain(what), "command": plain(command)} for what, command in hang_check.do],
            "jobs": [job_facts(each) for each in hang_check.jobs],
            "processes": [process_facts(each) for each in seen],
            "dumps": None if hang_check.dumps is None else dumps_facts(hang_check.dumps),
            "ras": None if ras is None else ras_facts(ras, hang_check.ras),
            "ras_trouble": {node: plain(why) for node, why in hang_check.ras_trouble.items()},
            "unasked": {node: plain(why) for node, why in unasked.items()},
        }
    )


def dumps_facts(dumps: FlightEvidence) -> Facts:
    """Return the flight recorders of all jobs as data."""
    return {
        "may_write": list(dumps.may_write),
        "places": [plain(place) for place in dumps.places],
        "jobs": [job_dumps_facts(job) for job in dumps.jobs],
    }


def job_dumps_facts(job: JobDumps) -> Facts:
    """Return the flight recorders of one job as data."""
    nothing = Verdict("flight", wrong=False, sentence="no dump was read")
    return {
        "job": job.job,
        **verdict_facts(job.verdict or nothing),
        "ranks": job.ranks,
        "asked": job.asked,
        "read": [
            {
                "rank": each.rank,
                "node": each.node,
                "path": plain(each.path),
                "size_bytes": each.size_bytes,
                "written_at": each.written_at,
            }
            for each in job.read
        ],
        "without": {str(rank): plain(why) for rank, why in job.without.items()},
    }


def job_facts(job: JobStacks) -> Facts:
    """Return one job as data."""
    return {
        "job": job.job,
        **verdict_facts(job.verdict),
        "by": job.by,
        "absent": list(job.absent),
        "places": [spot_facts(spot) for spot in job.spots],
        "unseen": [
            {"rank": each.rank, "node": each.node, "pid": each.pid, "why": each.missing}
            for each in job.unseen
        ],
    }


def spot_facts(spot: StackGroup) -> Facts:
    """Return one location with its ranks as data."""
    return {
        "what": spot.what,
        "waits": spot.waits,
        "frames": list(spot.frames),
        "ranks": [rank_facts(each) for each in spot.ranks],
    }


def rank_facts(each: RankStack) -> Facts:
    """Return one rank's process as data."""
    stack = each.stack
    thread = stack.threads[0] if stack is not None and stack.threads else None
    return {
        "rank": each.rank,
        "node": each.node,
        "gpu": each.gpu,
        "pid": each.pid,
        "state": thread.state if thread is not None else None,
        "wchan": thread.wchan if thread is not None else None,
        "syscall": thread.syscall if thread is not None else None,
        "cpu_pct": stack.cpu_pct if stack is not None else None,
        "threads": sorted({each.name for each in stack.threads}) if stack is not None else [],
        "without_python": stack.why if stack is not None else None,
    }


def ras_facts(verdict: Verdict, answers: Iterable[Ras]) -> Facts:
    """Return the verdict and the answers of NCCL RAS as data."""
    return {
        **verdict_facts(verdict),
        "answers": [
            {
                "node": ras.node,
                "address": ras.address,
                "nccl": ras.version,
                "timeouts": ras.timeouts,
                "communicators": [communicator_facts(each) for each in ras.communicators],
            }
            for ras in answers
        ],
    }


def communicator_facts(each: Communicator) -> Facts:
    """Return one communicator as data."""
    return {
        "hash": each.hash,
        "size": each.size,
        "silent": [peer_facts(peer) for peer in each.silent],
        "dead": [peer_facts(peer) for peer in each.dead],
        "left": [peer_facts(peer) for peer in each.left],
        "failed": [{**peer_facts(peer), "error": words} for peer, words in each.failed],
        "ending": [{**peer_facts(peer), "state": words} for peer, words in each.ending],
        "launched": {name: [bucket_facts(b) for b in buckets] for name, buckets in each.launched.items()},
    }


def peer_facts(peer: RasRank) -> Facts:
    """Return one rank of a communicator as data."""
    return {"rank": peer.rank, "host": peer.host, "pid": peer.pid, "gpu": peer.gpu}


def bucket_facts(bucket: Bucket) -> Facts:
    """Return one group of ranks with equal counts as data."""
    return {"count": bucket.count, "size": bucket.size, "ranks": [peer.rank for peer in bucket.peers]}
