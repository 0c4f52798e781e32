"""What one source of evidence states about a hang: the rank that all others wait for, and how sure it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from gpuwatch.diagnose.model.confidence import Confidence

EvidenceSource: TypeAlias = Literal["flight", "ras", "stacks"]
"""The flight recorder's dumps, NCCL's RAS, the stacks of the processes."""


@dataclass(frozen=True)
class SourceVerdict:
    """One sentence and what it rests on."""

    source: EvidenceSource
    wrong: bool
    """Whether it saw anything wrong at all."""
    sentence: str
    culprits: tuple[int, ...] = ()
    """Global ranks; empty where it cannot determine it."""
    confidence: Confidence = "low"
    evidence: tuple[str, ...] = ()
    """Sentences with numbers, strongest first."""
    settle: tuple[str, ...] = ()
    """What would take away the remaining doubt."""
    note: str = ""
    """What it was made of: how many dumps, how old."""
