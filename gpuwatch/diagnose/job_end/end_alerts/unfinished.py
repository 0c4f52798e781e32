"""The rank that began an operation that all others finished: a hang without a log line. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from gpuwatch.diagnose.hang.hang_watch import CODE as HANG
from gpuwatch.diagnose.job_end.job_end import JobEnd
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.failure_classes import SCHEDULER
from gpuwatch.runs.scan.result import LogScan
from gpuwatch.runs.steps.unfinished import Unfinished

OVER = ("finished", "running")


def unfinished_alerts(
    found: Unfinished | None, end: JobEnd, alerts: Iterable[Alert], files: Iterable[LogScan]
) -> list[Alert]:
    """Return the alert for the hang of one rank (0 or 1).

    Empty if the job finished or continues, or a line reports a failure.
    """
    reported = any(
        (alert.severity in ("error", "critical") and alert.role != "hint") or alert in SCHEDULER
        for alert in alerts
    )
    file = None if found is None else next((each for each in files if each.name == found.file), None)
    if found is None or file is None or reported or end.state in OVER:
        return []
    at = file.mtime if file.last_time is None else file.last_time
    node = found.host or file.node
    text = f"began {found.what} and did not log its end; {found.peers} other ranks did"
    settle = f"the stack of rank {found.rank}, and its node's kernel log"
    proof = Proof("line", found.text, None, False, node, found.file, None, (found.text,))
    return [
        Alert(
            id=f"{HANG}@{found.file}:{found.rank}", code=HANG, severity="error",
            title="A rank did not reach the end", text=text, proof=(proof,), role="root", node=node,
            rank=found.rank, first=at, last=at, timed=False, bound="undated",
            fields={"confidence": "medium", "settle": settle},
        )
    ]  # fmt: skip
