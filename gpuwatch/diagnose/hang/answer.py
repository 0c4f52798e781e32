"""The answer of a silent job's ranks to a hang query, and how it changes the outside verdict."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from gpuwatch.diagnose.hang.classifier import Grounds, SilentHang, silent_hang
from gpuwatch.diagnose.hang.combined_verdict import HangReport, kept
from gpuwatch.diagnose.hang.rank_signs import RankSigns
from gpuwatch.diagnose.model.incident import HangCheck
from gpuwatch.diagnose.model.verdict import LEVELS
from gpuwatch.number_text import duration


class HangAnswer(Struct, frozen=True):
    """The answer of one silent job's ranks to one hang query, and whether it settles who is waited for."""

    hang_check: HangCheck
    """The answer in the form that the incident stores."""
    settles: bool
    """True if the answer names ranks by frames or NCCL's counts, and these do not pause for other work."""
    repeatable: bool = False
    """True if only the confidence is missing: the same answer again would show that the ranks do not move."""
    repeated: bool = False
    """True if two answers found the ranks at the same lines."""

    @property
    def pauses(self) -> bool:
        """Return True if all ranks that the answer names save, evaluate or prepare something."""
        named = self.hang_check.verdict.culprits
        return bool(named) and set(named) <= set(self.hang_check.pausing)


def answer_of(hang_report: HangReport, at: float) -> HangAnswer | None:
    """Return the answer for the incident of this job; None: the report has no verdict.

    Args:
        hang_report: The result of the query.
        at: When its ranks were asked (unix seconds).
    """
    hang_check = kept(hang_report, at)
    if hang_check is None:
        return None
    verdict = hang_check.verdict
    known = verdict.source == "ras" or any(each.by == "python" for each in hang_report.jobs)
    named = known and verdict.wrong and bool(verdict.culprits) and not hang_report.pausing
    return HangAnswer(hang_check, named and verdict.confidence != "low", repeatable=named)


def confirmed(before: HangAnswer, after: HangAnswer) -> HangAnswer:
    """Return the later of two answers about one silence; the earlier one if only that one settles it.

    If both name the same ranks in the same place, the confidence of the later one is at least medium.
    """
    earlier, later = before.hang_check.verdict, after.hang_check.verdict
    same = (earlier.culprits, earlier.sentence) == (later.culprits, later.sentence)
    if not (before.repeatable and after.repeatable and same):
        return after if after.settles or not before.settles else before
    apart_s = after.hang_check.at - before.hang_check.at
    evidence = (*later.evidence, f"the same {duration(apart_s)} before")
    level = LEVELS[max(LEVELS.index("medium"), LEVELS.index(later.confidence))]
    verdict = replace(later, confidence=level, evidence=evidence)
    return replace(after, hang_check=replace(after.hang_check, verdict=verdict), repeated=True)


def refined(hang: SilentHang, answer: HangAnswer, ranks: Sequence[RankSigns]) -> SilentHang:
    """Return the outside verdict, changed to the ranks that the answer names, with its evidence.

    If the answer names none of `ranks` or no fault, or the outside signs name others more confidently, only
    the answer's sentence is added as evidence.
    """
    outside, answered = hang.verdict, answer.hang_check.verdict
    asked = f"hang analysis: {answered.sentence}"
    named = tuple(rank for rank in ranks if rank.rank in answered.culprits)
    agree = bool(set(outside.culprits) & set(answered.culprits))
    surer = LEVELS.index(outside.confidence) > LEVELS.index(answered.confidence)
    if not answered.wrong or not named or (outside.culprits and not agree and surer):
        return replace(hang, verdict=replace(outside, evidence=(*outside.evidence, asked)))
    confidence = answered.confidence
    if outside.culprits and not agree:
        confidence = LEVELS[max(0, LEVELS.index(confidence) - 1)]
        asked = (
            f"process and GPU state pointed at {', '.join(rank.place for rank in hang.suspects[:4])} instead"
        )
    elif agree and surer:
        confidence = outside.confidence
    repeated = asked.endswith(answered.sentence)
    refined_hang = silent_hang(
        outside.job,
        hang.reading,
        named,
        without_ranks(answered.sentence),
        Grounds(
            (*outside.evidence, *([] if repeated else [asked]), *answered.evidence),
            confidence,
            answered.settle or outside.settle,
        ),
    )
    return replace(refined_hang, guessed=hang.guessed)


def without_ranks(sentence: str) -> str:
    """Return the sentence without its leading ranks.

    Example result: `in data_loader_next (train.py:9), while 3 of 4 ranks are in all_reduce`.
    """
    start = re.match(r"(?:job \S+: )?ranks? [0-9, -]+(?: \([^)]{1,200}\))? (?:is |are )?", sentence)
    return sentence[start.end() :] if start else sentence
