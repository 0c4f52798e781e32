"""Decides by a file's last lines whether it is a training log, and when it was last written."""

import itertools
import os
import re
import time

from ...base.regular_file import modified_at, open_regular
from ...masking.secret_phrases import masked_lines
from ..lines.splitter import line_text
from ..lines.timestamps import time_of
from ..scanning.own_output import SCREEN_HEAD, SCREEN_KEYS
from ..scanning.scanner import Scanner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..matching.prefilter import Prefilter
    from ..matching.ruleset import RuleSet

TAIL_BYTES = 32 * 1024
LAST_LINES = 5
LAST_CHARACTERS = 300
_STAMPED_LINES = 40
"""Number of last lines of a file that are searched for a time."""
_TRAINING = re.compile(
    rb"(?i)\b(?:torch|nccl|cuda|rank|epoch|step|loss|deepspeed|megatron|jax|tensorflow|accelerate|gpu)"
    rb"|train|wandb|checkpoint"
)
"""A word that only training programs print next to an exception."""
_TORCHS_RANK = re.compile(rb"(?m)^\[rank(\d{1,6})\]: ")
"""The rank prefix that torch puts before the lines of an exception."""
_TRACEBACK = b"Traceback (most recent call last)"
_GRAVE = ("error", "critical")


class LogTail(object):
    """The end of a log file. `lines`: the last lines, for display.

    `at`: the newest time in its last lines (unix seconds); None: no time, or one in the future.
    """

    def __init__(self, path: str) -> None:
        """Read the end of a file into `data` and `lines`, and its newest time into `at`.

        Raises:
            OSError: it may not be read, is no regular file, or a link.
        """
        descriptor = open_regular(path, no_link=True)
        try:
            status = os.fstat(descriptor)
            self.begin = max(0, status.st_size - TAIL_BYTES)
            self.data = os.pread(descriptor, TAIL_BYTES, self.begin)
            self.modified = modified_at(status)
        finally:
            os.close(descriptor)
        texts = masked_lines([line_text(line) for line in re.split(b"[\r\n]", self.data) if line.strip()])
        self.lines = [text[:LAST_CHARACTERS] for text in texts[-LAST_LINES:]]
        self.at = _newest_time(texts[-_STAMPED_LINES:], self.modified)

    def rank(self) -> "int | None":
        """Return the rank that torch's prefixes (`[rank3]:`) name; None if they name none or several."""
        ranks = set(_TORCHS_RANK.findall(self.data))
        return int(ranks.pop()) if len(ranks) == 1 else None

    def is_training(self, ruleset: "RuleSet", prefilter: "Prefilter", *, steps_only: bool = False) -> bool:
        """Return True if a file's end has training steps, or a traceback or error of a training program.

        With `steps_only`, only steps count. A copy of gpuwatch's own screen contains the lines of other logs,
        and does not count.
        """
        if SCREEN_HEAD.search(self.data) and SCREEN_KEYS.search(self.data):
            return False
        scanner = Scanner(ruleset, "", itertools.count(1).__next__, None, prefilter)
        found = scanner.feed(self.data + b"\n", self.begin, self.modified, backlog=True)
        frames = scanner.progress()
        if any("step" in frame["fields"] for frame in frames):
            return True
        if steps_only:
            return False
        found += scanner.end()
        failed = _TRACEBACK in self.data or any(one["severity"] in _GRAVE for one in found)
        return failed and _TRAINING.search(self.data) is not None


def _newest_time(texts: "list[str]", modified: float) -> "float | None":
    times = [at for at in (time_of(text, modified) for text in texts) if at is not None]
    return max(times) if times and max(times) <= time.time() + 300.0 else None
