"""Combine the verdicts of all hang sources (stacks, RAS, flight recorder) into one.

Example: the stacks name rank 3 with medium confidence, and so does RAS, where rank 3 is one collective
behind. The result names rank 3 with high confidence; its evidence has the sentences of both. If RAS named
rank 5, the confidence would be low, and `settle` would ask to look at both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from gpuwatch.diagnose.hang.flight_recorder.job_dumps import FlightEvidence
from gpuwatch.diagnose.hang.pausing_lines import with_pause
from gpuwatch.diagnose.hang.ras.model import Ras
from gpuwatch.diagnose.hang.ras.verdict import NOBODY, Locate, judge_ras
from gpuwatch.diagnose.hang.stacks.compare import judge_stacks
from gpuwatch.diagnose.hang.stacks.groups import JobStacks, RankStack
from gpuwatch.diagnose.hang.stacks.pausing import pausing_ranks
from gpuwatch.diagnose.model.incident import HangCheck
from gpuwatch.diagnose.model.text import place
from gpuwatch.diagnose.model.verdict import LEVELS, Verdict
from gpuwatch.number_text import listed, ranges

NAMES = {"flight": "flight recorder", "ras": "NCCL's RAS", "stacks": "stacks"}
SETTLED_BY = {"flight": "flight recorder's dumps", "stacks": "(gpuwatch stacks)"}
"""Source -> the check that would confirm a verdict; not offered once that source has answered."""
SHOWN_PLACES = 8


def waiting_for(verdicts: Sequence[Verdict]) -> Verdict | None:
    """Return the strongest verdict, with the others as evidence; None without any.

    One that finds a hang is stronger than others, then one that names ranks, then the more confident one. A
    second source that names one of its ranks (not with low confidence) raises the confidence by a level; one
    that names other ranks of the job lowers it, and a check of both is added.
    """
    hang_report = sorted(verdicts, key=_weight, reverse=True)
    if not hang_report:
        return None
    first, others = hang_report[0], hang_report[1:]
    evidence = [*first.evidence, *(_verdict_text(each) for each in others)]
    already_answered = [SETTLED_BY[each.source] for each in hang_report if each.source in SETTLED_BY]
    settle = [
        line
        for line in dict.fromkeys(line for each in (first, *others) for line in each.settle)
        if not any(mark in line for mark in already_answered)
    ]
    if not first.wrong or not first.culprits:
        return replace(first, evidence=tuple(evidence), settle=tuple(settle))
    naming = [each for each in others if each.wrong and each.culprits and _of_one_job(each, first)]
    agreeing = [
        each for each in naming if each.confidence != "low" and set(each.culprits) & set(first.culprits)
    ]
    against = [each for each in naming if not set(each.culprits) & set(first.culprits)]
    level = LEVELS.index(first.confidence)
    if agreeing:
        level = min(level + 1, len(LEVELS) - 1)
        evidence.insert(0, f"{NAMES[agreeing[0].source]} and {NAMES[first.source]} name the same rank")
    elif against:
        level = max(level - 1, 0)
        other = against[0]
        settle.insert(0, f"{NAMES[other.source]} name rank {ranges(other.culprits)} instead: look at both")
    return replace(first, confidence=LEVELS[level], evidence=tuple(evidence), settle=tuple(settle))


def _of_one_job(one: Verdict, other: Verdict) -> bool:
    return one.job is None or other.job is None or one.job == other.job


def _verdict_text(stated: Verdict) -> str:
    if stated.source == "ras":
        return stated.sentence
    return f"{NAMES[stated.source]}{f' ({stated.note})' if stated.note else ''}: {stated.sentence}"


def _weight(stated: Verdict) -> tuple[bool, bool, int]:
    return stated.wrong, bool(stated.culprits), LEVELS.index(stated.confidence)


def kept(hang_report: HangReport, at: float) -> HangCheck | None:
    """Return the part of a report that an incident stores; None: the report has no verdict.

    `at`: when the ranks were queried (unix seconds).
    """
    stated = hang_report.verdict
    if stated is None:
        return None
    return HangCheck(at, stated, hang_report.do, hang_report.pausing)


class HangReport(Struct, frozen=True):
    """The result of a hang query: what stacks, NCCL RAS and dumps show, the combined verdict, next steps."""

    verdict: Verdict | None
    """None: there are no ranks."""
    jobs: tuple[JobStacks, ...]
    """Largest job first."""
    ras: tuple[Ras, ...]
    ras_verdicts: Verdict | None
    """The strongest verdict of NCCL RAS; None: it was not queried, or did not answer."""
    ras_trouble: Mapping[str, str]
    """Node -> why NCCL RAS gave no answer there."""
    dumps: FlightEvidence | None = None
    """The verdicts on the dumps; None: no dumps were requested, or they are still being judged."""
    do: tuple[tuple[str, str], ...] = ()
    """Next steps: description and command to copy; least disruptive first."""
    paused: frozenset[int] = frozenset()
    """The ranks that pause by their last lines, or by the files that they write."""

    @property
    def answered(self) -> bool:
        """Return True if a stack, RAS or a flight-recorder dump was received."""
        dumped = self.dumps is not None and any(job.read for job in self.dumps.jobs)
        return dumped or bool(self.ras) or any(job.spots for job in self.jobs)

    @property
    def pausing(self) -> tuple[int, ...]:
        """Return the ranks that the verdict names and that pause, by stacks, last lines or files, sorted."""
        stated = self.verdict
        if stated is None:
            return ()
        named = self.paused.intersection(stated.culprits)
        return tuple(sorted({*pausing_ranks(self.jobs, stated.job, stated.culprits), *named}))

    @property
    def named_ranks(self) -> tuple[str | None, tuple[int, ...]] | None:
        """Return the job and the ranks that the verdict names.

        None: the verdict names no rank, or the job is ambiguous.
        """
        stated = self.verdict
        if stated is None or not stated.wrong or not stated.culprits:
            return None
        if stated.source == "flight" and self.dumps is not None and self.dumps.jobs:
            return self.dumps.jobs[0].job, stated.culprits
        if stated.source == "ras" and stated.job is not None:
            return stated.job, stated.culprits
        if stated.source == "stacks" or len(self.jobs) == 1:
            job = next((each for each in self.jobs if each.verdict.wrong), self.jobs[0])
            return job.job, stated.culprits
        return None


def analyze(
    stacks: Sequence[RankStack],
    ras: Sequence[Ras],
    ras_trouble: Mapping[str, str],
    locate: Locate,
    flight: FlightEvidence | None = None,
    names: Mapping[str, str] = NOBODY,
) -> HangReport:
    """Return the report on the answers to a hang query: the verdicts and the combined one, no next steps.

    Args:
        stacks: The stacks of all ranks that were queried.
        ras: The answers of NCCL RAS.
        ras_trouble: Node -> why NCCL RAS gave no answer there.
        locate: Host and pid -> global rank.
        flight: The verdicts of the dumps; None: none were requested.
        names: Address -> node.
    """
    jobs = tuple(judge_stacks(stacks))
    job = next((each for each in jobs if each.verdict.wrong), jobs[0] if jobs else None)
    counted = judge_jobs(ras, stacks, locate, names)
    stated = max(counted, key=_weight, default=None)
    dumped = None if flight is None else flight.verdict
    if flight is not None and dumped is not None and len(flight.jobs) == 1:
        dumped = replace(dumped, job=flight.jobs[0].job)
    sources = (None if job is None else _named(job.verdict, job.job, len(jobs)), dumped, stated)
    verdict = waiting_for([each for each in sources if each is not None])
    if verdict is not None and verdict.source == "flight" and flight is not None:
        verdict = _placed(verdict, [each for each in stacks if each.job == flight.jobs[0].job])
    return HangReport(verdict, jobs, tuple(ras), stated, ras_trouble, flight)


def with_pauses(received: HangReport, doing: Mapping[int, str], writing: Mapping[int, str]) -> HangReport:
    """Return the report with the ranks that pause; if all culprits do, its verdict states it.

    `doing`: rank -> its last line, which announces a pause. `writing`: rank -> the file that it writes.
    """
    verdict = None if received.verdict is None else with_pause(received.verdict, doing, writing)
    return replace(received, verdict=verdict, paused=frozenset({*doing, *writing}))


def judge_jobs(
    ras: Sequence[Ras], stacks: Sequence[RankStack], locate: Locate, names: Mapping[str, str]
) -> list[Verdict]:
    """Return a verdict from RAS for each job; one verdict for several jobs whose ranks use one address."""
    asked: dict[frozenset[str | None], list[Ras]] = {}
    for answer in ras:
        asked.setdefault(answer.jobs, []).append(answer)
    found = []
    for jobs, answers in asked.items():
        running = {each.rank for each in stacks if each.stack is not None and (not jobs or each.job in jobs)}
        job = next(iter(jobs)) if len(jobs) == 1 else None
        known = len({each.job for each in stacks})
        found.append(_named(judge_ras(answers, locate, names, running), job, known))
    return found


def _named(stated: Verdict, job: str | None, jobs: int) -> Verdict:
    """Return a verdict with its job, also in front of its sentence if there are several."""
    sentence = stated.sentence if jobs <= 1 or not job else f"job {job}: {stated.sentence}"
    return replace(stated, sentence=sentence, job=job)


def _placed(stated: Verdict, stacks: Sequence[RankStack]) -> Verdict:
    """Return the verdict of the dumps, with the nodes and GPUs of the culprits (dumps know ranks only)."""
    places = {each.rank: place(each.rank, each.node, each.gpu) for each in stacks}
    known = [places[rank] for rank in stated.culprits if rank in places]
    if not known:
        return stated
    start = f"rank {stated.culprits[0]} "
    if len(stated.culprits) == 1 and stated.sentence.startswith(start):
        return replace(stated, sentence=f"{known[0]} {stated.sentence[len(start) :]}")
    return replace(stated, evidence=(listed(known, SHOWN_PLACES), *stated.evidence))
