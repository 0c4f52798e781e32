"""Finds the rank that began an operation which all others finished: a hang without a log line. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from gpuwatch.diagnose.alerts.deduplication.unexplained import quoted
from gpuwatch.diagnose.hang.hang_watch import CODE as HANG
from gpuwatch.diagnose.job_end.job_end import JobEnd
from gpuwatch.diagnose.last_lines.endings import form
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.failure_classes import SCHEDULER
from gpuwatch.runs.scan.result import LogScan
from gpuwatch.runs.steps.unfinished import MIN_FINISHED_PEERS, Unfinished

NEAR_END = 6
"""Number of last lines of each log that are compared."""
MAX_ODD = 2
"""Most logs with a last line of their own for one to stand out: the rank's, and the job's main log."""
OVER = ("finished", "running")


def other_ranks(count: int) -> str:
    """Return a number of further ranks as text: `3 other ranks`, `1 other rank`."""
    return f"{count} other rank{'s' * (count != 1)}"


def unfinished_alerts(
    found: Unfinished | None, end: JobEnd, alerts: Iterable[Alert], files: Iterable[LogScan]
) -> list[Alert]:
    """Return the alert, if any, for the rank that began something and did not log its end.

    The list is empty if the job finished or continues, or a line reports a failure.
    """
    reported = any(
        (alert.severity in ("error", "critical") and alert.role != "hint") or alert in SCHEDULER
        for alert in alerts
    )
    files = list(files)
    text = ""
    if found is not None:
        text = f"began {found.what} and did not log its end; {other_ranks(found.peers)} did"
    elif (odd := one_line_short(files)) is not None:
        found, follows = odd
        text = f"last {quoted(found.text)}; {found.peers} other ranks went on and {quoted(follows)}"
    file = None if found is None else next((each for each in files if each.name == found.file), None)
    if found is None or file is None or reported or end.state in OVER:
        return []
    at = file.mtime if file.last_time is None else file.last_time
    node = found.host or file.node
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


def one_line_short(files: Iterable[LogScan]) -> tuple[Unfinished, str] | None:
    """Return the line with which only one rank's own log ends, and what all others logged next; or None.

    The other ranks all logged one more line, of another form: seven ranks log `Saving checkpoint at step 90`
    and `Saved checkpoint for step 90`, the eighth only the first. Lines are compared without their numbers.
    """
    logs = {
        each.rank: each for each in files if each.rank is not None and each.last_lines and not each.kernel
    }
    ends = {rank: [form(line) for line in each.last_lines[-NEAR_END:]] for rank, each in logs.items()}
    usual = Counter(forms[-1] for forms in ends.values())
    odd = [rank for rank, forms in ends.items() if usual[forms[-1]] == 1]
    for rank in odd if len(odd) <= MAX_ODD else ():
        forms = ends[rank]
        next_forms = Counter(_follower(forms[-1], others) for other, others in ends.items() if other != rank)
        follower, count = next(iter(next_forms.most_common(1)), (None, 0))
        if follower in (None, forms[-1]) or count < MIN_FINISHED_PEERS or len(next_forms) > 1:
            continue
        peer = next(other for other in ends if other != rank)
        at = ends[peer].index(str(follower))
        said = logs[peer].last_lines[-NEAR_END:][at]
        line = logs[rank].last_lines[-1]
        return Unfinished(line, rank, count, None, logs[rank].name, line), said
    return None


def _follower(last: str, forms: Sequence[str]) -> str | None:
    """Return the form of the line below the last line that has the form `last`.

    None: there is no such line.
    """
    at = max((number for number, each in enumerate(forms) if each == last), default=None)
    return None if at is None or at + 1 == len(forms) else forms[at + 1]
