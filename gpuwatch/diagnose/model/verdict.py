"""A verdict on a hang: the rank that the others wait for, with confidence, evidence and open checks.

Each source, the combined sources, incidents and silent jobs use this form.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from gpuwatch.blocks.model import Item, TextBlock, checks, titled

Confidence: TypeAlias = Literal["high", "medium", "low"]
LEVELS: tuple[Confidence, ...] = ("low", "medium", "high")
"""Lowest first."""


EvidenceSource: TypeAlias = Literal["flight", "ras", "stacks", "signs"]
"""The source of a verdict: flight-recorder dumps, NCCL RAS, process stacks, or outside signs."""


class Verdict(Struct, frozen=True):
    """A verdict on a hang: a sentence, the culprits, confidence, evidence, and open checks."""

    source: EvidenceSource
    """The source of the verdict; of several sources combined, the most confident one."""
    wrong: bool
    """True if the source found a problem."""
    sentence: str
    culprits: tuple[int, ...] = ()
    """Global ranks of the culprits; empty: undetermined."""
    confidence: Confidence = "low"
    evidence: tuple[str, ...] = ()
    """Sentences with numbers, strongest first."""
    settle: tuple[str, ...] = ()
    """Checks that would confirm the verdict."""
    note: str = ""
    """The basis of the verdict: number and age of the dumps."""
    job: str | None = None
    """The job of the culprits; None: unknown."""


def grounds(verdict: Verdict) -> list[TextBlock]:
    """Return the evidence of a verdict, and the checks that would confirm it."""
    evidence = [Item(text, sign="dot") for text in verdict.evidence]
    return [*titled("Evidence", evidence), *titled("To confirm", checks(verdict.settle))]
