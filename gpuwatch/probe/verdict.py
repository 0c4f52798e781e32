"""What a probe comes to: one status, one sentence, and who is to blame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Status: TypeAlias = Literal["ok", "bad", "noisy", "failed"]
CulpritKind: TypeAlias = Literal["node", "nic", "direction", "link", "gpu"]


@dataclass(frozen=True)
class Culprit:
    """One part that is slow or dead."""

    kind: CulpritKind
    name: str
    """gpu-003, gpu-003 mlx5_2, gpu-003 egress, gpu-001 -> gpu-006, gpu-003 GPU 4."""
    ratio: float | None
    """Of what peers of the same link class reach (their 90th percentile); None: see `state`."""
    evidence: tuple[str, ...]
    """Sentences with numbers, strongest first."""
    state: str = ""
    """What is with it where no ratio states it: dead, took no part, did not start."""


@dataclass(frozen=True)
class Verdict:
    """The judgement over everything measured so far."""

    status: Status
    sentence: str
    culprits: tuple[Culprit, ...] = ()
    evidence: tuple[str, ...] = ()
    """What holds for the whole: 12 of 56 links under 0.7 of the best tenth."""
    alerts: tuple[str, ...] = ()
    """Expected IB and got TCP, counters that moved, regressions against the baseline."""
    advice: tuple[str, ...] = ()
    """How it compares with the expected-bandwidth table, and what to do next."""
