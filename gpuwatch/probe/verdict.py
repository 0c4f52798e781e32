"""The verdict of a probe: one status, one sentence, and the culprits."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

Status: TypeAlias = Literal["ok", "bad", "noisy", "failed"]
CulpritKind: TypeAlias = Literal["node", "nic", "direction", "link", "gpu"]


class Culprit(Struct, frozen=True):
    """One component that is slow or dead."""

    kind: CulpritKind
    name: str
    """gpu-003, gpu-003 mlx5_2, gpu-003 egress, gpu-001 -> gpu-006, gpu-003 GPU 4."""
    ratio: float | None
    """Fraction of what peers of the same link class reach (their 90th percentile); None: see `state`."""
    evidence: tuple[str, ...]
    """Sentences with numbers, the strongest first."""
    state: str = ""
    """Its state if it has no ratio: dead, took no part, did not start."""


class ProbeVerdict(Struct, frozen=True):
    """The verdict on everything measured so far: status, sentence, culprits."""

    status: Status
    sentence: str
    culprits: tuple[Culprit, ...] = ()
    evidence: tuple[str, ...] = ()
    """Statements about the whole: 12 of 56 links under 0.7 of the best tenth."""
    alerts: tuple[str, ...] = ()
    """TCP instead of IB, counters that increased, regressions against the baseline."""
    advice: tuple[str, ...] = ()
    """The comparison with the expected-bandwidth table, and what to do next."""
