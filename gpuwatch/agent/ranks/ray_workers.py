"""Ranks of Ray's training workers: Ray sets RANK inside the process; each states it at the head of its log.

Example: `ray::RayTrainWorker` writes /tmp/ray/session_1/logs/worker-8f2c...-01000000-4711.err, where torch's
back end in Ray logs `Setting up process group for: env:// [rank=3, world_size=4]`: rank 3 of 4 of the job
`ray-01000000`. The driver's log has lines of all workers, after a prefix with pid and address.
"""

import os
import re

from ..base.regular_file import read_regular
from .rank_environment import MAX_RANKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Sequence

TITLE = "ray::"
"""Prefix of the titles that Ray gives to its workers."""
HEAD_BYTES = 1 << 16
MAX_KNOWN = 4096
_LOG = re.compile(r"/worker-[0-9a-f]{8,64}-(?:([0-9a-f]{8})-)?\d{1,10}\.(?:out|err)$")
_STATED = re.compile(rb"\[rank=(\d{1,6}), world_size=(\d{1,7})\]")


class RayWorkers(object):
    """Reads each worker's rank once; the head of a log that states none yet is read again when it grew."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], dict[str, object]] = {}
        """(Pid, start in clock ticks) -> the facts of its rank."""
        self._read: dict[str, int] = {}
        """Log -> its bytes at the last reading without a result."""

    def facts(self, pid: int, start: int, logs: "Sequence[str]") -> "dict[str, object]":
        """Return rank, world size, job and source as in `wire.Process`; empty: the worker states none."""
        known = self._known.get((pid, start))
        if known is not None:
            return known
        for path in logs:
            name = _LOG.search(path)
            stated = None if name is None else self._stated(path)
            if name is None or stated is None:
                continue
            rank, size = stated
            facts: dict[str, object] = {"rank": rank, "world_size": size, "rank_source": "log"}
            if name.group(1):
                facts["job"] = "ray-" + name.group(1)
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[pid, start] = facts
            return facts
        return {}

    def _stated(self, path: str) -> "tuple[int, int] | None":
        try:
            size = min(os.stat(path).st_size, HEAD_BYTES)
            if self._read.get(path) == size:
                return None
            found = _STATED.search(read_regular(path, HEAD_BYTES))
        except OSError:
            return None
        if found is not None and int(found.group(1)) < int(found.group(2)) <= MAX_RANKS:
            return int(found.group(1)), int(found.group(2))
        if len(self._read) >= MAX_KNOWN:
            self._read.clear()
        self._read[path] = size
        return None
