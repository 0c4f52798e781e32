"""Reads reports of PBS, LSF, Grid Engine and squeue about jobs that ended badly and nodes that are down."""

from __future__ import annotations

import re

from gpuwatch.rules.model import rule_ids
from gpuwatch.runs.saved_outputs.model import BY_SIGNAL, Fields, ToolFinding, ToolLine
from gpuwatch.runs.saved_outputs.slurm import severity_of

NODE_DOWN, FAILED = rule_ids.SLURM_NODE_FAILURE, rule_ids.BATCH_JOB_FAILED
PBS_MARKS = ("Job Id: ", "Job: ")
PBS_HEADING = re.compile(r"^Job(?: Id)?: (?=\d{1,12}(?:\[\d{0,6}\])?\.)")
_PBS_STATUS = re.compile(r"\bExit_status ?= ?(?P<code>-?\d{1,6})\b")
_PBS_HOST = re.compile(r"\bexec_host = (?P<hosts>[A-Za-z]\S{0,4000})")
_PBS_NODE = re.compile(r"\bnode (?P<node>[A-Za-z][\w.-]{0,120}) requested job die\b")
_PBS_LINE = re.compile(r"^(?:\s|\d\d/\d\d/\d{4} \d\d:\d\d:\d\d  ?[A-Z] |$)")
HOSTS_MARK = "HOST_NAME"
HOSTS_HEADING = re.compile(r"^HOST_NAME\s{1,40}(?i:status)\s")
_LSF_ROW = re.compile(r"^(?P<node>[A-Za-z][\w.-]{0,120})\s{1,40}(?P<state>[a-z]\w{1,20})\b")
_LSF_DOWN = ("unavail", "unreach")
JOBS_MARK = "JOBID "
LSF_HEADING = re.compile(r"^JOBID\s{1,20}USER\s{1,20}STAT\s")
_LSF_JOB = re.compile(r"^(?P<job>\d{1,12})\s{1,20}\S{1,64}\s{1,20}(?P<state>[A-Z]{3,6})\s")
SQUEUE_HEADING = re.compile(r"^\s{0,20}JOBID\s.{0,200}\b(?:ST|STATE)\b.{0,200}\bNODELIST\b")
_SQUEUE_ROW = re.compile(
    r"^\s{0,20}(?P<job>\d{1,12})(?:[._]\w{1,20})?\s.{0,200}?\s(?P<state>[A-Z]{1,2}|[A-Z_]{4,20})\s{1,20}(?:\d{1,3}-)?[\d:]{4,10}\s"
)
_STATES = {
    "NF": NODE_DOWN, "NODE_FAIL": NODE_DOWN, "BF": NODE_DOWN, "BOOT_FAIL": NODE_DOWN,
    "OOM": rule_ids.OOM_HOST_CGROUP, "OUT_OF_MEMORY": rule_ids.OOM_HOST_CGROUP,
    "TO": rule_ids.SLURM_TIME_LIMIT, "TIMEOUT": rule_ids.SLURM_TIME_LIMIT,
    "PR": rule_ids.SLURM_PREEMPTED, "PREEMPTED": rule_ids.SLURM_PREEMPTED, "F": FAILED, "FAILED": FAILED,
}  # fmt: skip
"""Compact and long states of jobs in squeue that are failures -> class."""
QUEUES_MARK = "queuename"
QUEUES_HEADING = re.compile(r"^queuename\s{1,40}qtype\s")
_QUEUE_ROW = re.compile(
    r"^[\w.-]{1,64}@(?P<node>[A-Za-z][\w.-]{0,120})\s.{0,120}\s(?P<state>[a-zA-Z]{1,6})\s*$"
)


def of_exit_status(code: str) -> str | None:
    """Return the class of a PBS or Grid Engine exit status: 128 or 256 and the signal; None: no signal."""
    number = int(code)
    signal = number - 256 if number > 256 else number - 128
    return BY_SIGNAL.get(signal)


class PbsJob:
    """Reads `qstat -f` and `tracejob`: the exit status of a job, its only host, a node that ended it."""

    def __init__(self) -> None:
        self._job = self._host = ""
        self._status: tuple[str, ToolLine] | None = None
        self._found: list[ToolFinding] = []

    def take(self, line: ToolLine) -> bool:
        """Process a line; return False if the output ended before it."""
        if PBS_HEADING.match(line.text):
            self._close()
            self._job = line.text.partition(": ")[2].strip()
            return True
        if _PBS_LINE.match(line.text) is None:
            return False
        host, status, node = (
            _PBS_HOST.search(line.text),
            _PBS_STATUS.search(line.text),
            _PBS_NODE.search(line.text),
        )
        if host is not None and len({each.partition("/")[0] for each in host["hosts"].split("+")}) == 1:
            self._host = host["hosts"].partition("/")[0]
        if status is not None:
            self._status = status["code"], line
        if node is not None:
            self._found.append(
                ToolFinding(NODE_DOWN, "error", line, {"job": self._job}, host=node["node"], by_driver=False)
            )
        return True

    def findings(self) -> list[ToolFinding]:
        """Return a finding for each job with an exit status other than 0, and for nodes that ended one."""
        self._close()
        return self._found

    def _close(self) -> None:
        if self._status is not None and self._status[0] != "0":
            code, line = self._status
            fields: Fields = {"job": self._job, "exitcode": code}
            rule = of_exit_status(code) or FAILED
            self._found.append(
                ToolFinding(rule, "error", line, fields, host=self._host or None, by_driver=False)
            )
        self._status, self._host = None, ""


class StatusTable:
    """Reads the rows of a table; a subclass judges each."""

    heading: re.Pattern[str]
    row: re.Pattern[str]

    def __init__(self) -> None:
        self._found: list[ToolFinding] = []

    def take(self, line: ToolLine) -> bool:
        """Process a line; return False if it is neither the heading nor a row."""
        row = self.row.match(line.text)
        if row is None:
            return self.heading.match(line.text) is not None or not line.text.strip("- ")
        found = self.judge(row, line)
        if found is not None:
            self._found.append(found)
        return True

    def judge(self, row: re.Match[str], line: ToolLine) -> ToolFinding | None:
        """Return a finding if a row of the batch system's output states a failure, else None."""
        raise NotImplementedError

    def findings(self) -> list[ToolFinding]:
        """Return the findings of all rows."""
        return self._found


def _node_down(row: re.Match[str], line: ToolLine) -> ToolFinding:
    fields: Fields = {"state": row["state"]}
    return ToolFinding(NODE_DOWN, "warning", line, fields, host=row["node"], by_driver=False)


class LsfHosts(StatusTable):
    """Reads `bhosts`: hosts that do not answer."""

    heading, row = HOSTS_HEADING, _LSF_ROW

    def judge(self, row: re.Match[str], line: ToolLine) -> ToolFinding | None:
        """Return a finding for a host that is unavailable or unreachable, else None."""
        return _node_down(row, line) if row["state"] in _LSF_DOWN else None


class LsfJobs(StatusTable):
    """Reads the rows of `bjobs`: jobs that exited."""

    heading, row = LSF_HEADING, _LSF_JOB

    def judge(self, row: re.Match[str], line: ToolLine) -> ToolFinding | None:
        """Return a finding for a job in state EXIT, else None."""
        if row["state"] != "EXIT":
            return None
        return ToolFinding(FAILED, "error", line, {"job": row["job"], "state": "EXIT"}, by_driver=False)


class Squeue(StatusTable):
    """Reads the rows of `squeue`: jobs that failed."""

    heading, row = SQUEUE_HEADING, _SQUEUE_ROW

    def judge(self, row: re.Match[str], line: ToolLine) -> ToolFinding | None:
        """Return a finding for a job in a state of `_STATES`, else None."""
        rule = _STATES.get(row["state"])
        if rule is None:
            return None
        return ToolFinding(
            rule, severity_of(rule), line, {"job": row["job"], "state": row["state"]}, by_driver=False
        )


class SgeQueues(StatusTable):
    """Reads `qstat -f` of Grid Engine: queue instances whose host does not answer (`au`) or had an error."""

    heading, row = QUEUES_HEADING, _QUEUE_ROW

    def take(self, line: ToolLine) -> bool:
        """Process a line; rows of queues without a state and of jobs are passed over."""
        return super().take(line) or "@" in line.text[:80] or line.text[:1].isspace()

    def judge(self, row: re.Match[str], line: ToolLine) -> ToolFinding | None:
        """Return a finding for a host that is unreachable or in error, else None."""
        return _node_down(row, line) if "u" in row["state"] or "E" in row["state"] else None
