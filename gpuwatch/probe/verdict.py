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
    """The name: gpu-003, gpu-003 mlx5_2, gpu-003 egress, gpu-001 -> gpu-006, gpu-003 GPU 4."""
    ratio: float | None
    """The rate as a fraction of the 90th percentile of its link class; None: see `state`."""
    evidence: tuple[str, ...]
    """Sentences with numbers, the strongest first."""
    state: str = ""
    """The state if there is no ratio: dead, took no part, did not start."""

    @property
    def node(self) -> str:
        """Return the node of the component; of a link, the one that sends."""
        return self.name.partition(" ")[0]


class ProbeVerdict(Struct, frozen=True):
    """The verdict on everything measured so far: status, sentence, culprits."""

    status: Status
    sentence: str
    culprits: tuple[Culprit, ...] = ()
    evidence: tuple[str, ...] = ()
    """Sentences about all links, such as "12 of 56 links under 0.7 of the best tenth"."""
    alerts: tuple[str, ...] = ()
    """Sentences about TCP instead of IB, counters that increased, regressions against the baseline."""
    advice: tuple[str, ...] = ()
    """Sentences that compare with the expected-bandwidth table, and next steps."""
