"""Findings by general words: dropped where the line denies, counts as 0, supposes or repairs the trouble.

Rules that search for trouble in a program's own words put the words of the trouble into a group `sign`;
counts that must differ are in `have` and `want`. Example: the rule of lost GPUs finds `GPU 3 has fallen off
the bus` and also `no GPU has fallen off the bus`, whose sign is denied.
"""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from gpuwatch.agent.logs.lines.levels import GRAVE, own_level
from gpuwatch.diagnose.alerts.finding_place import LocatedFinding
from gpuwatch.diagnose.error_outcome.refutation import SIGN
from gpuwatch.diagnose.last_lines.polarity import is_live
from gpuwatch.diagnose.model.failure_classes import UNEXPLAINED
from gpuwatch.wire import Finding


def as_stated(found: LocatedFinding) -> LocatedFinding | None:
    """Return the finding; None if its line does not state the trouble that its words name.

    A line that its writer calls an error stays one, of unknown kind.
    """
    finding = found.finding
    if SIGN not in finding.fields or _is_stated(finding):
        return found
    if own_level(_line(finding)) not in GRAVE:
        return None
    return replace(found, finding=structs.replace(finding, rule=UNEXPLAINED, severity="warning", fields={}))


def _is_stated(finding: Finding) -> bool:
    have, want = finding.fields.get("have"), finding.fields.get("want")
    if isinstance(have, int) and isinstance(want, int) and have >= want:
        return False
    line, sign = _line(finding), str(finding.fields[SIGN])
    at = line.find(sign)
    if at < 0:
        return True
    while at >= 0:
        if is_live(line, at, at + len(sign), lasting=True):
            return True
        at = line.find(sign, at + 1)
    return False


def _line(finding: Finding) -> str:
    return finding.lines[finding.key] if finding.key < len(finding.lines) else ""
