"""Reads the node and the kernel-log sections of an `nvidia-bug-report.log`.

Sections stand between lines of underscores, each with a heading: a path after `***`, or a command.
"""

from __future__ import annotations

import re

from gpuwatch.runs.saved_outputs.model import date_in

MARK = "Start of NVIDIA bug report log file"
_RULER = re.compile(r"_{20,}\s*$")
_HEADING = re.compile(r"\*\*\* (?!ls: )")
_LOGS = re.compile(
    r"\bdmesg\b|\bkern\.log\b|/var/log/(?:messages|syslog)|\bjournalctl\b|[Kk]ernel (?:log|messages)"
    r"|NVRM messages|fabricmanager",
)
_UNAME = re.compile(r"uname: Linux (?P<host>[A-Za-z0-9][\w.-]{0,63}) ")


class BugReport:
    """The sections of a bug report. Rules are applied only to the logs among them."""

    def __init__(self) -> None:
        self.node: str | None = None
        self.at: float | None = None
        """When the report was made (unix seconds)."""
        self._heading_due = False
        self._log = False

    def is_log(self, text: str) -> bool:
        """Process the next line of the report; return True if the line belongs to a log."""
        if _RULER.match(text):
            self._heading_due, self._log = True, False
            return False
        if _HEADING.match(text) or (self._heading_due and text.strip()):
            self._heading_due, self._log = False, _LOGS.search(text) is not None
            self._head(text)
            return False
        if self.node is None or self.at is None:
            self._head(text)
        return self._log

    def _head(self, text: str) -> None:
        """Read node and time from the lines at the top."""
        uname = _UNAME.match(text)
        if uname and self.node is None:
            self.node = uname["host"]
        if text.startswith("Date: ") and self.at is None:
            self.at = date_in(text)
