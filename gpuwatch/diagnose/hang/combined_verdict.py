"""Who is everyone waiting for: what the witnesses of a hang say, put together into one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gpuwatch.diagnose.hang.flight_recorder.job_dumps import FlightEvidence
from gpuwatch.diagnose.hang.ras.model import Ras
from gpuwatch.diagnose.hang.ras.verdict import NOBODY, Locate, judge_ras
from gpuwatch.diagnose.hang.stacks.compare import JobStacks, RankStack, judge_stacks
from gpuwatch.diagnose.model.confidence import LEVELS
from gpuwatch.diagnose.model.incident import HangCheck
from gpuwatch.diagnose.model.source_verdict import SourceVerdict
from gpuwatch.diagnose.model.text import place, ranges

NAMES = {"flight": "flight recorder", "ras": "NCCL's RAS", "stacks": "stacks"}
SETTLED_BY = {"flight": "flight recorder's dumps", "stacks": "(gpuwatch stacks)"}
"""What a doubt's remedy says where this witness would take it away; once it was heard, it is not told."""
SHOWN_PLACES = 8


def waiting_for(testimonies: Sequence[SourceVerdict]) -> SourceVerdict | None:
    """The surest witness's sentence, with what the others say as evidence; None without any.

    Where two name the same rank, that is surer than either alone; where they name different ones, it is less
    sure, and both are told.
    """
    heard = sorted(testimonies, key=_weight, reverse=True)
    if not heard:
        return None
    first, others = heard[0], heard[1:]
    evidence = [*first.evidence, *(_told(each) for each in others)]
    heard_already = [SETTLED_BY[each.witness] for each in heard if each.witness in SETTLED_BY]
    settle = [
        line
        for line in dict.fromkeys(line for each in (first, *others) for line in each.settle)
        if not any(mark in line for mark in heard_already)
    ]
    if not first.wrong or not first.culprits:
        return replace(first, evidence=tuple(evidence), settle=tuple(settle))
    accusing = [each for each in others if each.wrong and each.culprits]
    agreeing = [
        each for each in accusing if each.confidence != "low" and set(each.culprits) & set(first.culprits)
    ]
    against = [each for each in accusing if not set(each.culprits) & set(first.culprits)]
    level = LEVELS.index(first.confidence)
    if agreeing:
        level = min(level + 1, len(LEVELS) - 1)
        evidence.insert(0, f"{NAMES[agreeing[0].witness]} and {NAMES[first.witness]} name the same rank")
    elif against:
        level = max(level - 1, 0)
        other = against[0]
        settle.insert(0, f"{NAMES[other.witness]} name rank {ranges(other.culprits)} instead: look at both")
    return replace(first, confidence=LEVELS[level], evidence=tuple(evidence), settle=tuple(settle))


def _told(said: SourceVerdict) -> str:
    if said.witness == "ras":
        return said.sentence
    return f"{NAMES[said.witness]}{f' ({said.note})' if said.note else ''}: {said.sentence}"


def _weight(said: SourceVerdict) -> tuple[bool, bool, int]:
    return said.wrong, bool(said.culprits), LEVELS.index(said.confidence)


def kept(heard: HangReport, at: float) -> HangCheck | None:
    """What an incident keeps of it; None: nothing was heard. `at` is when they were asked (unix seconds)."""
    said = heard.verdict
    if said is None:
        return None
    return HangCheck(
        at, said.sentence, said.wrong, said.culprits, said.confidence, said.evidence, said.settle, heard.do
    )


@dataclass(frozen=True)
class HangReport:
    """Everything that the ranks and NCCL said when they were asked."""

    verdict: SourceVerdict | None
    """None: there are no ranks."""
    jobs: tuple[JobStacks, ...]
    """The largest first."""
    ras: tuple[Ras, ...]
    ras_said: SourceVerdict | None
    """None: RAS was not asked, or did not answer."""
    ras_trouble: Mapping[str, str]
    """Node -> why its NCCL said nothing."""
    dumps: FlightEvidence | None = None
    """None: nobody asked for dumps, or they are not judged yet."""
    do: tuple[tuple[str, str], ...] = ()
    """What to do: what it does, and the command to copy; the gentlest first."""

    @property
    def accused(self) -> tuple[str | None, tuple[int, ...]] | None:
        """The job whose ranks the verdict names, and those; None: none, or it may be one of several jobs."""
        said = self.verdict
        if said is None or not said.wrong or not said.culprits:
            return None
        if said.witness == "flight" and self.dumps is not None and self.dumps.jobs:
            return self.dumps.jobs[0].job, said.culprits
        if said.witness == "stacks" or len(self.jobs) == 1:
            job = next((each for each in self.jobs if each.testimony.wrong), self.jobs[0])
            return job.job, said.culprits
        return None


def hear(
    stacks: Sequence[RankStack],
    ras: Sequence[Ras],
    ras_trouble: Mapping[str, str],
    locate: Locate,
    flight: FlightEvidence | None = None,
    names: Mapping[str, str] = NOBODY,
) -> HangReport:
    """Judge what came; `flight` is what the jobs' dumps say, `names` is address -> node."""
    jobs = tuple(judge_stacks(stacks))
    said = judge_ras(ras, locate, names) if ras else None
    job = next((each for each in jobs if each.testimony.wrong), jobs[0] if jobs else None)
    witnesses = (_named(job, jobs) if job else None, flight.testimony if flight else None, said)
    verdict = waiting_for([each for each in witnesses if each is not None])
    if verdict is not None and verdict.witness == "flight" and flight is not None:
        verdict = _placed(verdict, [each for each in stacks if each.job == flight.jobs[0].job])
    return HangReport(verdict, jobs, tuple(ras), said, ras_trouble, flight)


def _named(job: JobStacks, jobs: Sequence[JobStacks]) -> SourceVerdict:
    """What the stacks of a job say, with its name where there are several."""
    said = job.testimony
    return (
        said if len(jobs) == 1 or not job.job else replace(said, sentence=f"job {job.job}: {said.sentence}")
    )


def _placed(said: SourceVerdict, stacks: Sequence[RankStack]) -> SourceVerdict:
    """Dumps know ranks alone: where the culprits run is added."""
    places = {each.rank: place(each.rank, each.node, each.gpu) for each in stacks}
    known = [places[rank] for rank in said.culprits if rank in places]
    if not known:
        return said
    start = f"rank {said.culprits[0]} "
    if len(said.culprits) == 1 and said.sentence.startswith(start):
        return replace(said, sentence=f"{known[0]} {said.sentence[len(start) :]}")
    more = f" and {len(known) - SHOWN_PLACES} more" if len(known) > SHOWN_PLACES else ""
    return replace(said, evidence=(f"{', '.join(known[:SHOWN_PLACES])}{more}", *said.evidence))
