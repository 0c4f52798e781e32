"""Reads Slurm's reports on jobs and nodes: `sacct`, `scontrol show job` and `scontrol show node`."""

from __future__ import annotations

import re
import time

from gpuwatch.rules.built_in import built_in_rules
from gpuwatch.rules.model import rule_ids
from gpuwatch.runs.saved_outputs.model import BY_SIGNAL, Fields, ToolFinding, ToolLine
from gpuwatch.whole_number import whole_number
from gpuwatch.wire import Severity

SACCT_MARK = "JobID"
SACCT_HEADING = re.compile(r"^\s*JobID(?:Raw)?[ |].{0,400}\bState\b")
JOB_MARK, NODE_MARK = "JobId=", "NodeName="
JOB_HEADING = re.compile(r"^\s*JobId=\d{1,12} (?:ArrayJobId=|JobName=)")
NODE_HEADING = re.compile(r"^\s*NodeName=[\w.-]{1,64} Arch=")

STATES = (
    ("OUT_OF_ME", rule_ids.OOM_HOST_CGROUP),
    ("NODE_FAIL", rule_ids.SLURM_NODE_FAILURE),
    ("BOOT_FAIL", rule_ids.SLURM_NODE_FAILURE),
    ("TIMEOUT", rule_ids.SLURM_TIME_LIMIT),
    ("DEADLINE", rule_ids.SLURM_TIME_LIMIT),
    ("PREEMPTED", rule_ids.SLURM_PREEMPTED),
    ("CANCELLED", rule_ids.SLURM_CANCELLED),
)
"""Pairs: prefix of a job state (sacct truncates states), and failure class."""
REASONS_MARK = "NODELIST"
REASONS_HEADING = re.compile(r"^\s{0,8}REASON\s{1,80}USER\s{1,40}TIMESTAMP\s{1,40}NODELIST\s*$")
_REASON_ROW = re.compile(
    r"^\s{0,8}(?P<reason>\S.{0,120}?)\s{1,80}(?P<user>[\w.-]{1,32})\s{1,40}"
    r"(?P<at>\d{4}-\d\d-\d\dT[\d:]{8}|Unknown)\s{1,40}(?P<nodes>\S{1,400})\s*$"
)
_NODE_FAILED = re.compile(
    r"(?i)not respond|unexpected(?:ly)? ?(?:re)?boot|node (?:unexpectedly )?(?:re)?boot|kill task failed"
    r"|\bxid\b|fell off|\becc\b|\bgpu\b.{0,40}(?:fail|lost|error|missing|count)|\bnhc\b|health ?check"
    r"|hardware|\bhung\b|power|low (?:real)?memory"
)
_ORDINARY_WAITS = ("None", "Resources", "Priority", "Dependency", "BeginTime", "(null)")
_BAD_NODE = re.compile(r"^(?:DOWN|FAIL|ERROR|NO_RESPOND)|\b(?:DOWN|FAIL|NOT_RESPONDING)\b")
_PAIR = re.compile(r"(?<!\S)(?P<key>[A-Za-z][\w:/]{0,40})=(?P<value>\S{0,400})")
_REASON = re.compile(
    r"(?<!\S)Reason=(?P<reason>.{1,400}?)(?: \[(?P<by>[^\]@]{1,64})@(?P<at>[\d:T-]{19})\])?\s*$"
)
_ONE_NODE = re.compile(r"[\w.-]{1,64}")


class Sacct:
    """Reads the table of `sacct`; a job is reported once, by its first row with a failure."""

    def __init__(self) -> None:
        self._columns: list[str] = []
        self._widths: list[tuple[int, int]] = []
        self._found: dict[str, ToolFinding] = {}

    def take(self, line: ToolLine) -> bool:
        """Process a line; return False if it does not belong to the table."""
        text = line.text
        if SACCT_HEADING.match(text):
            self._columns, self._widths = _cells(text, None), []
            return True
        if not text.strip("- "):
            self._widths = [found.span() for found in re.finditer(r"-+", text)]
            return bool(text.strip()) or not self._found
        cells = _cells(text, self._widths)
        if len(cells) < 2 or not re.match(r"\s*\d", cells[0]):
            return False
        self._row(dict(zip(self._columns, cells, strict=False)), line)
        return True

    def findings(self) -> list[ToolFinding]:
        """Return a finding for each job that failed, was cancelled or exceeded a limit (`class_of`)."""
        return list(self._found.values())

    def _row(self, row: dict[str, str], line: ToolLine) -> None:
        job = row.get("JobID", row.get("JobIDRaw", "")).partition(".")[0]
        rule = class_of(row.get("State", ""), row.get("ExitCode", ""))
        if rule is not None:
            host = row.get("NodeList", "")
            self._found.setdefault(
                job,
                ToolFinding(
                    rule, severity_of(rule), line, {"job": job}, at=local_time(row.get("End", "")),
                    host=host if _ONE_NODE.fullmatch(host) else None, by_driver=False,
                ),
            )  # fmt: skip


class Scontrol:
    """Reads the `Key=value` records of `scontrol show` about jobs and nodes."""

    def __init__(self) -> None:
        self._pairs: dict[str, tuple[str, ToolLine]] = {}
        self._reason: tuple[str, float | None, ToolLine] | None = None
        self._found: list[ToolFinding] = []

    def take(self, line: ToolLine) -> bool:
        """Process a line; return False if it is not part of a record."""
        if JOB_HEADING.match(line.text) or NODE_HEADING.match(line.text):
            self._close()
        elif line.text.strip() and "=" not in line.text:
            return False
        for pair in _PAIR.finditer(line.text):
            self._pairs.setdefault(pair["key"], (pair["value"], line))
        reason = _REASON.search(line.text)
        if reason is not None:
            self._reason = reason["reason"], local_time(reason["at"] or ""), line
        return True

    def findings(self) -> list[ToolFinding]:
        """Return a finding for each failed job, job with an unusual wait, and node that is down."""
        self._close()
        return self._found

    def _close(self) -> None:
        pairs, self._pairs = self._pairs, {}
        reason, self._reason = self._reason, None
        if "JobState" in pairs:
            self._job(pairs)
        elif "State" in pairs and "NodeName" in pairs:
            state, line = pairs["State"]
            if _BAD_NODE.search(state):
                fields: Fields = {"state": state}
                at = None
                if reason is not None:
                    fields["reason"], at, line = reason
                node = pairs["NodeName"][0]
                self._found.append(
                    ToolFinding(
                        rule_ids.SLURM_NODE_FAILURE, "error", line, fields, (), at, node, by_driver=False
                    )
                )

    def _job(self, pairs: dict[str, tuple[str, ToolLine]]) -> None:
        state, line = pairs["JobState"]
        reason = pairs.get("Reason", ("None", line))[0]
        if state == "PENDING" and reason not in _ORDINARY_WAITS:
            self._found.append(
                ToolFinding(rule_ids.BATCH_JOB_WAITS, "warning", line, {"reason": reason}, by_driver=False)
            )
        rule = class_of(state, pairs.get("ExitCode", ("", line))[0])
        if rule is None:
            return
        host = pairs.get("NodeList", ("", line))[0]
        at = local_time(pairs.get("EndTime", ("", line))[0])
        fields: Fields = {"job": pairs["JobId"][0]} if "JobId" in pairs else {}
        one = host if _ONE_NODE.fullmatch(host) else None
        self._found.append(ToolFinding(rule, severity_of(rule), line, fields, (), at, one, by_driver=False))


class NodeReasons:
    """Reads the table of Slurm nodes that are down or drained.

    It makes one finding, with the time, for each node whose stated reason is a failure.
    """

    def __init__(self) -> None:
        self._found: list[ToolFinding] = []

    def take(self, line: ToolLine) -> bool:
        """Process a line; return False if it is neither the heading nor a row of the table."""
        row = _REASON_ROW.match(line.text)
        if row is None:
            return REASONS_HEADING.match(line.text) is not None
        at = local_time(row["at"])
        if _NODE_FAILED.search(row["reason"]) and _ONE_NODE.fullmatch(row["nodes"]) and at is not None:
            fields: Fields = {"reason": row["reason"], "node": row["nodes"]}
            self._found.append(
                ToolFinding(
                    rule_ids.SLURM_NODE_FAILURE,
                    "warning",
                    line,
                    fields,
                    (),
                    at,
                    row["nodes"],
                    by_driver=False,
                )
            )
        return True

    def findings(self) -> list[ToolFinding]:
        """Return a finding for each node whose stated reason is a failure."""
        return self._found


def class_of(state: str, exit_code: str) -> str | None:
    """Return the class of a job's end by state (`CANCELLED by 1000`) and exit code (`0:9`: signal 9).

    None if the end is no failure, or has no class.
    """
    for begin, rule in STATES:
        if state.startswith(begin):
            return rule
    signal = whole_number(exit_code.partition(":")[2])
    return BY_SIGNAL.get(signal) if state.startswith("FAILED") and signal is not None else None


def severity_of(rule: str) -> Severity:
    """Return the severity of a job's end: a cancellation was requested, so it is a warning, else an error."""
    return "warning" if "cancelled" in built_in_rules()[rule].kinds else "error"


def local_time(text: str) -> float | None:
    """Return `2026-11-22T02:58:11` in this time zone as unix seconds; None for another text."""
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return None


def _cells(text: str, widths: list[tuple[int, int]] | None) -> list[str]:
    """Return the cells of a row: split at bars, else by the dashes below the heading, else at white space."""
    if "|" in text:
        return [cell.strip() for cell in text.split("|")]
    if widths:
        return [text[begin:end].strip() for begin, end in widths]
    return text.split()
