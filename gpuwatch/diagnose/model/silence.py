"""Silences: alerts that an operator does not want to be notified of for a while."""

from __future__ import annotations

import msgspec

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.wire.limits import GpuIndex, Moment, Name, Rank


class Silence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Matches every alert that agrees in all given fields; stored in the config folder."""

    code: Name
    """A rule's id or a condition's code; `family.*` matches a whole family."""
    node: Name | None = None
    gpu: GpuIndex | None = None
    rank: Rank | None = None
    until: Moment | None = None
    """Unix seconds; None: until removed."""

    def covers(self, alert: Alert, wall: float) -> bool:
        """Return True if the silence applies to this alert at `wall` (unix seconds)."""
        if self.until is not None and wall >= self.until:
            return False
        named = ((self.node, alert.node), (self.gpu, alert.gpu), (self.rank, alert.rank))
        if any(wanted is not None and wanted != has for wanted, has in named):
            return False
        return alert.code == self.code or (self.code.endswith("*") and alert.code.startswith(self.code[:-1]))
