"""Judges kernel or driver lines in logs other than the kernel's: any process can print them."""

from __future__ import annotations

from pathlib import PurePosixPath

from msgspec import Struct

from gpuwatch.fleet.jobs.places import Places
from gpuwatch.wire import KERNEL_LOG, Finding, Severity


class KernelClaim(Struct, frozen=True):
    """The judgement of a kernel or driver line in another log: doubt, severity, and whether it is refuted."""

    doubt: str
    severity: Severity
    refuted: bool
    """True: the node's own kernel log is read and does not contain it."""


def kernel_claim(finding: Finding, node: str | None, places: Places, at: float | None) -> KernelClaim | None:
    """Return how far a kernel line outside of the kernel log is to be trusted, and its severity.

    None if the job has ended and the file is not one of its logs. If the kernel log has the line too, both
    are merged later and the doubt is dropped.

    Args:
        finding: A finding of a kernel rule, in a file that is not the kernel log.
        node: The node that the finding is about; None: unknown.
        places: Which kernel logs are read.
        at: When the line was written (unix seconds); None: unknown.
    """
    if not places.live and finding.file not in places.job_logs:
        return None
    name = PurePosixPath(finding.file).name
    whose = f"rank {finding.rank}'s log" if finding.rank is not None else name
    if not places.live and not _covered(node, at, places):
        return KernelClaim(
            f"printed in {whose}; no kernel log of that time is here", finding.severity, refuted=False
        )
    if places.live and node is not None and node not in places.kernel_logs:
        return KernelClaim(
            f"printed in {whose}; the kernel log of {node} cannot be read", finding.severity, refuted=False
        )
    severity: Severity = "info" if finding.severity == "info" else "warning"
    log = "no kernel log confirms it" if node is None else f"the kernel log of {node} does not confirm it"
    return KernelClaim(f"printed in {whose}; {log}", severity, refuted=True)


def anybody_may_have_written(file: str, places: Places) -> bool:
    """Return True if a user of the job may have forged the kernel or driver lines of a collected file."""
    return not places.live and file != KERNEL_LOG and file not in places.system_logs


def _covered(node: str | None, at: float | None, places: Places) -> bool:
    """Return True if the kernel log of the node is available and covers that time."""
    return (
        node is not None
        and at is not None
        and any(whose == node and first <= at <= last for whose, first, last in places.kernel_spans)
    )
