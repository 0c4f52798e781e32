"""Who is everyone waiting for: what the witnesses of a hang say, put together into one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gpuwatch.diagnose.ras import Ras
from gpuwatch.diagnose.ras_verdict import NOBODY, Locate, judge_ras
from gpuwatch.diagnose.stacks import JobStacks, RankStack, judge_stacks
from gpuwatch.diagnose.testimony import Confidence, Testimony
from gpuwatch.diagnose.wording import ranges

NAMES = {"flight": "flight recorder", "ras": "NCCL's RAS", "stacks": "stacks"}
ORDER: tuple[Confidence, ...] = ("low", "medium", "high")


def waiting_for(testimonies: Sequence[Testimony]) -> Testimony | None:
    """The surest witness's sentence, with what the others say as evidence; None without any.

    Where two name the same rank, that is surer than either alone; where they name different ones, it is less
    sure, and both are told.
    """
    heard = sorted(testimonies, key=_weight, reverse=True)
    if not heard:
        return None
    first, others = heard[0], heard[1:]
    evidence = [*first.evidence, *(_told(each) for each in others)]
    settle = list(dict.fromkeys([*first.settle, *(line for each in others for line in each.settle)]))
    if not first.wrong or not first.culprits:
        return replace(first, evidence=tuple(evidence), settle=tuple(settle))
    accusing = [each for each in others if each.wrong and each.culprits]
    agreeing = [each for each in accusing if set(each.culprits) & set(first.culprits)]
    level = ORDER.index(first.confidence)
    if agreeing:
        level = min(level + 1, len(ORDER) - 1)
        evidence.insert(0, f"{NAMES[agreeing[0].witness]} and {NAMES[first.witness]} name the same rank")
    elif accusing:
        level = max(level - 1, 0)
        other = accusing[0]
        settle.insert(0, f"{NAMES[other.witness]} name rank {ranges(other.culprits)} instead: look at both")
    return replace(first, confidence=ORDER[level], evidence=tuple(evidence), settle=tuple(settle))


def _told(said: Testimony) -> str:
    return said.sentence if said.witness == "ras" else f"{NAMES[said.witness]}: {said.sentence}"


def _weight(said: Testimony) -> tuple[bool, bool, int]:
    return said.wrong, bool(said.culprits), ORDER.index(said.confidence)


@dataclass(frozen=True)
class Hearing:
    """Everything that the ranks and NCCL said when they were asked."""

    verdict: Testimony | None
    """None: there are no ranks."""
    jobs: tuple[JobStacks, ...]
    """The largest first."""
    ras: tuple[Ras, ...]
    ras_said: Testimony | None
    """None: RAS was not asked, or did not answer."""
    ras_trouble: Mapping[str, str]
    """Node -> why its NCCL said nothing."""


def hear(
    stacks: Sequence[RankStack],
    ras: Sequence[Ras],
    ras_trouble: Mapping[str, str],
    locate: Locate,
    flight: Testimony | None = None,
    names: Mapping[str, str] = NOBODY,
) -> Hearing:
    """Judge what came; `flight` is what the job's dumps say, `names` is address -> node."""
    jobs = tuple(judge_stacks(stacks))
    said = judge_ras(ras, locate, names) if ras else None
    job = next((each for each in jobs if each.testimony.wrong), jobs[0] if jobs else None)
    heard = [each for each in (job.testimony if job is not None else None, said, flight) if each is not None]
    return Hearing(waiting_for(heard), jobs, tuple(ras), said, ras_trouble)
