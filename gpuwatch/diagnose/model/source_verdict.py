"""The verdict of one evidence source on a hang: the rank that the others wait for, and the confidence."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from gpuwatch.diagnose.model.confidence import Confidence

EvidenceSource: TypeAlias = Literal["flight", "ras", "stacks"]
"""Flight-recorder dumps, NCCL RAS, or process stacks."""


class SourceVerdict(Struct, frozen=True):
    """One source's verdict on a hang: a sentence, the culprits, confidence, evidence, and open checks."""

    source: EvidenceSource
    wrong: bool
    """True if the source found a problem."""
    sentence: str
    culprits: tuple[int, ...] = ()
    """Global ranks; empty: undetermined."""
    confidence: Confidence = "low"
    evidence: tuple[str, ...] = ()
    """Sentences with numbers, strongest first."""
    settle: tuple[str, ...] = ()
    """Checks that would confirm the verdict."""
    note: str = ""
    """The basis of the verdict: number and age of the dumps."""
    job: str | None = None
    """The job of the culprits; None: unknown."""
