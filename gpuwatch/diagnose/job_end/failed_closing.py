"""The alert of a log whose last lines state a failure in words that no rule knows and no level marks. Pure.

Example: a log ends with `worker 5 vanished, aborting run`. No rule has this wording and no logger marked it
as an error, but nothing follows it and the job's end is not logged otherwise, so these words are the best
evidence. The same line in the middle of a run is none: what follows shows that the run went on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpuwatch.agent.logs.lines.levels import own_level
from gpuwatch.agent.logs.lines.programs import head_program
from gpuwatch.agent.logs.matching.event_form import is_absent, is_continuing, is_event
from gpuwatch.diagnose.alerts.unexplained import quoted
from gpuwatch.diagnose.job_end.job_end import JobEnd, is_failure
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.failure_classes import UNEXPLAINED
from gpuwatch.runs.scan.result import LogScan

CLOSING_LINES = 2
"""Last lines of a log that are examined: a failure, and what a launcher adds to it."""
MAX_LINE_CHARS = 400
"""A longer line is data or a command, no message."""
FAILURE_WORDS = re.compile(
    r"(?i)\b(?:failed|fails"
    r"|(?:error|failure|exception)(?=!|$|: ?\S| -?\d| (?:occurred|while|during|in|code) )"
    r"|cannot|can['\N{RIGHT SINGLE QUOTATION MARK}]?t"
    r"|(?:could|did|was|were|is|are|does)(?: not|n't)(?: be)? (?:\w{1,20} ){0,2}?"
    r"(?:responding|reachable|found|written?|read|open(?:ed)?|load(?:ed)?|start(?:ed)?|connect(?:ed)?|available"
    r"|allocate[d]?|initiali[sz]e[d]?|create[d]?|save[d]?|finite|permitted|exist|respond)"
    r"|unable to|abort(?:ed|ing)?|killed|died|dead|crash(?:ed|ing)?|panic(?:ked)?|fatal|lost|vanished"
    r"|unresponsive|unreachable|unhealthy|refused|denied|not permitted|no such (?:file|device|process)"
    r"|corrupt(?:ed|ion)?|diverged|exhausted|unexpected(?:ly)?|hangs?|hung|stuck|disconnected|evicted"
    r"|preempt(?:ed)?|giv(?:ing|en) up|gave up|out of (?:memory|space)|disk (?:is )?full|no space|core dumped"
    r"|already in use|(?:contains?|became|is|are|went) (?:inf|nan)"
    r"|terminat(?:ing|ed) (?:the )?(?:run|job|training|process|worker)"
    r"|died through|requires? (?:a )?(?:reset|reboot)|lower than configured|command not found)\b"
)
"""Words with which programs state a failure."""
INTENDED = re.compile(
    r"(?i)\b(?:early[ -]?stop\w*|no improvement|patience|KeyboardInterrupt|ctrl[- ]?c|sig(?:int|term|usr1)"
    r"|cancel\w*|time[ -]?limit|wall ?time|requeu\w*|by (?:the )?user)\b|\^C"
)
"""Wording in the last line for an end that somebody wanted, or that was planned."""
NONE_OF_IT = re.compile(
    r"(?i)\b(?:no|0|zero|without(?: any)?|any|not|never|non)[ -](?:\w{1,20} ){0,2}$"
    r"|\b(?:if|when|on|for|handle|handles|handling|catch|count|counts?|rate|num|total|max)[ _=:]{1,3}$"
)
"""Words before one of those that deny or count it."""
KERNEL_RECORD = re.compile("kernel: ")
"""The head of a line of the kernel; what it reports of the job has rules."""
TABLE_ROW = re.compile(
    r"\W{0,2}[|+]|.{0,80}\S {2,}[:|]|.{0,80} {3,}\S|\w[\w ]{0,60}: (?:0|[Nn]o|[Nn]one|N/A)$"
)
"""A row of a table, or a name and its value, as tools print them."""
QUIET_HEAD = re.compile(r"\W{0,2}[DIVW](?: |\d{4}\b)")
"""The head of a record of a logger that states its level by a letter."""
QUIET_LEVELS = ("debug", "info", "warning")
"""The writer's own levels for what ends nothing; errors are found where they stand."""


def failed_closing_alerts(files: Iterable[LogScan], end: JobEnd, alerts: Iterable[Alert]) -> list[Alert]:
    """Return a warning for each log that ends with words of failure.

    Empty where a line reports a failure already, where the job finished or is being written, or where the log
    states an intended end.

    Args:
        files: The logs of the job; kernel logs are left out (their programs are not the job).
        end: How the job ended.
        alerts: What its lines state.
    """
    alerts = [alert for alert in alerts if alert.severity != "info"]
    if end.state != "unknown" or end.signal is not None or any(map(is_failure, alerts)):
        return []
    known = {proof.file for alert in alerts for proof in alert.proof}
    return [
        alert
        for file in files
        if not file.kernel and file.name not in known and not any(map(INTENDED.search, file.last_lines[-1:]))
        for alert in _of(file)
    ]


def states_failure(line: str) -> bool:
    """True if a line without a level of its own states a failure as an event."""
    if (
        len(line) > MAX_LINE_CHARS
        or head_program(line)
        or KERNEL_RECORD.match(line)
        or TABLE_ROW.match(line)
        or own_level(line) in QUIET_LEVELS
        or QUIET_HEAD.match(line)
        or is_continuing(line)
    ):
        return False
    return any(
        not NONE_OF_IT.search(line, 0, found.start())
        and not _joins(line, found.start(), found.end())
        and is_event(line, found.start())
        and not is_absent(line, found.end())
        for found in FAILURE_WORDS.finditer(line)
    )


def _joins(line: str, start: int, end: int) -> bool:
    """True if the word is a part of a longer name: `error_rate`, `max-errors`, `errors=0`."""
    before, after = line[start - 1 : start], line[end : end + 1]
    return before in ("-", "_", "/", ".", "=", "'", '"', "`") or after in (
        "-",
        "_",
        "/",
        "=",
        "'",
        '"',
        "`",
        "(",
    )


def _of(file: LogScan) -> list[Alert]:
    line = next((each for each in file.last_lines[-CLOSING_LINES:] if states_failure(each)), None)
    if line is None:
        return []
    at = file.mtime if file.last_time is None else file.last_time
    text = quoted(line)
    proof = Proof("line", line, None, False, file.node, file.name, None, (line,))
    return [
        Alert(
            id=f"{UNEXPLAINED}@{file.name}:end", code=UNEXPLAINED, severity="warning",
            title="The log ends with a failure that no rule explains", text=text, proof=(proof,), role="root",
            node=file.node, rank=file.rank, first=at, last=at, timed=False, bound="undated",
            fields={"confidence": "low", "settle": "the lines above it in this log"},
        )
    ]  # fmt: skip
