"""The alert for a log that stops, without a line that a rule knows or a level that marks an error. Pure.

Example: a log ends with `worker 5 vanished, aborting run`. No rule has this wording and no logger marked it
as an error, but nothing follows it and the job's end is not logged otherwise, so these words are the best
evidence. The same line in the middle of a run is no evidence: what follows shows that the run went on.
If steps were logged, fewer words suffice: `supervisor: workers hung, closing` below the last step is
neither a good end nor ordinary work, has a word of trouble, and nothing follows it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import structs

from gpuwatch.agent.logs.lines.levels import GRAVE, own_level
from gpuwatch.agent.logs.matching.text_form import MAX_NEAR, is_in_text
from gpuwatch.agent.patterns.module_pattern import pattern_of
from gpuwatch.diagnose.alerts.deduplication.unexplained import quoted
from gpuwatch.diagnose.alerts.from_findings import EXCEPTION
from gpuwatch.diagnose.job_end.closing import NUMBER, is_failed_end
from gpuwatch.diagnose.job_end.end_alerts.quiet_errors import RAISED
from gpuwatch.diagnose.job_end.job_end import JobEnd, is_failure
from gpuwatch.diagnose.last_lines.endings import (
    form,
    is_intended,
    is_ordinary,
    states_good_end,
)
from gpuwatch.diagnose.last_lines.failures import (
    is_foreign,
    is_quiet,
    states_failure,
    states_machine_trouble,
)
from gpuwatch.diagnose.last_lines.trouble_words import has_trouble_words
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.failure_classes import UNEXPLAINED
from gpuwatch.rules.model.rule_ids import RANK_ERROR_UNEXPLAINED
from gpuwatch.runs.scan.result import LogScan

CLOSING_LINES = 2
"""Number of last lines of a log that are examined: a failure, and what a launcher adds to it."""
MIN_STEPS = 3
"""Least logged steps by which a log counts as that of a training."""
REQUEST = pattern_of(r"(?i)\bHTTP/\d|\brequests?\b")
"""Matches a line of a server, whose log may end with the error of a single request."""


def failed_closing_alerts(files: Iterable[LogScan], end: JobEnd, alerts: Iterable[Alert]) -> list[Alert]:
    """Return a warning for each log that ends with words of failure or of trouble with the machine.

    Empty if a line reports a failure already, or if it is known how the job ended. Logs that another alert
    is about, and those that state an intended end, are left out.

    Args:
        files: The logs of the job; kernel logs are left out (their programs are not the job).
        end: How the job ended.
        alerts: The alerts from the lines of the job.
    """
    alerts = [alert for alert in alerts if alert.severity != "info"]
    if end.state != "unknown" or end.signal is not None or any(map(is_failure, alerts)):
        return []
    known = {proof.file for alert in alerts for proof in alert.proof}
    return [
        alert
        for file in files
        if not file.kernel and file.name not in known and not any(map(_is_settled, file.last_lines[-1:]))
        for alert in _of(file)
    ]


def with_final_errors(alerts: Iterable[Alert], files: Iterable[LogScan], end: JobEnd) -> list[Alert]:
    """Return the alerts; a warning becomes an error if it is an error line with which a log of steps ends.

    A warning about an exception that nothing caught becomes an error if a log ends with it. In both cases the
    error ended the work of its log: no step and no other line follows, and nothing states how the job ended.
    Unchanged if the job finished, is still being written, or a signal ended it.

    Args:
        alerts: The alerts from the lines of the job, with the severities that later lines gave them.
        files: The logs of the job.
        end: How the job ended.
    """
    if end.state not in ("unknown", "stopped") or end.signal is not None:
        return list(alerts)
    alerts = list(alerts)
    logs = {file.name: file for file in files if not file.kernel and file.last_lines}
    unknown = {proof.text for alert in alerts if alert in UNEXPLAINED for proof in alert.proof}
    return [
        structs.replace(alert, severity="error") if _is_final(alert, logs, unknown) else alert
        for alert in alerts
    ]


def _has_worked(file: LogScan) -> bool:
    """Return True if lines follow a log's last step, or MIN_STEPS of its last ones differ in numbers only."""
    lines = {line for line in file.last_lines[:-1] if REQUEST.search(line) is None}
    forms = Counter(form(line) for line in lines if NUMBER.search(line))
    return bool(below_last_step(file)) or max(forms.values(), default=0) >= MIN_STEPS


def _is_final(alert: Alert, logs: Mapping[str, LogScan], unknown: Collection[str]) -> bool:
    """Return True if the last line of a log is an uncaught exception, or an error line below steps.

    `unknown`: lines that are alerts by their level or exception alone.
    """
    if alert.severity != "warning" or alert.recovered or alert.role == "echo" or not alert.proof:
        return False
    file = logs.get(alert.proof[-1].file or "")
    last = "" if file is None else file.last_lines[-1]
    line = next((proof.text for proof in alert.proof if proof.text.rstrip().endswith(last)), None)
    if file is None or line is None or is_foreign(last) or _is_settled(last):
        return False
    if EXCEPTION.match(last):
        return True
    is_error = alert in UNEXPLAINED or (line not in unknown and RAISED.search(last) is not None)
    return is_error and own_level(line) in GRAVE and _has_worked(file)


def last_words_of(file: LogScan) -> str | None:
    """Return the first line of trouble below the last step.

    None if there is none, or if a line states a good end. An intended end counts as good. A line that has the
    form of one above the last step belongs to the work.
    """
    below = below_last_step(file)
    if below is None or any(states_good_end(line) or is_intended(line) for line in below):
        return None
    above = {form(line) for line in file.last_lines[: len(file.last_lines) - len(below)]}
    own = [line for line in below if form(line) not in above and not is_foreign(line)]
    return next((line for line in own if _is_strange(line) and has_trouble_words(line)), None)


def _is_strange(line: str) -> bool:
    """Return True if this line, from below the last step, is not ordinary.

    For a line of a quiet level (debug, info, warning): True if it states a failure or trouble of the machine.
    """
    if is_quiet(line):
        return states_failure(line, quiet=True) or states_machine_trouble(line)
    return not is_ordinary(line)


def below_last_step(file: LogScan) -> Sequence[str] | None:
    """Return the last lines of a log from below the line of its last step on.

    None: the log has fewer than `MIN_STEPS` steps, or none of its last lines names the last one.
    """
    points = [point for series in file.series if not series.per_epoch for point in series.points]
    if len(points) < MIN_STEPS:
        return None
    step = str(max(points, key=lambda point: point.offset or 0).step)
    lines = file.last_lines
    forms = Counter(map(form, lines))
    named = [
        number
        for number, line in enumerate(lines)
        if step in {each.replace(",", "") for each in NUMBER.findall(line)} and not is_failed_end(line)
    ]
    if not named:
        return None
    usual = max((forms[form(lines[number])], -number) for number in named)
    last = max(number for number in named if form(lines[number]) == form(lines[-usual[1]]))
    return lines[last + 1 :]


def _is_settled(line: str) -> bool:
    """Return True if a log that ends with this line ended well, or on purpose."""
    return is_intended(line) or states_good_end(line)


def _is_text(line: str, lines: Sequence[str]) -> bool:
    """Return True if the lines around one of the last lines show that it is part of a text."""
    at = lines.index(line)
    return is_in_text(line, list(lines[:at][::-1]), list(lines[at + 1 : at + 1 + MAX_NEAR]))


def _of(file: LogScan) -> list[Alert]:
    line = next((each for each in file.last_lines[-CLOSING_LINES:] if states_failure(each)), None)
    line = last_words_of(file) if line is None else line
    line = next(filter(states_machine_trouble, file.last_lines[-1:]), None) if line is None else line
    if line is None or _is_text(line, file.last_lines):
        return []
    at = file.mtime if file.last_time is None else file.last_time
    text = quoted(line)
    proof = Proof("line", line, None, False, file.node, file.name, None, (line,))
    return [
        Alert(
            id=f"{RANK_ERROR_UNEXPLAINED}@{file.name}:end", code=RANK_ERROR_UNEXPLAINED, severity="warning",
            title="The log ends with a failure that no rule explains", text=text, proof=(proof,), role="root",
            node=file.node, rank=file.rank, first=at, last=at, timed=False, bound="undated",
            fields={"confidence": "low", "settle": "the lines above it in this log"},
        )
    ]  # fmt: skip
