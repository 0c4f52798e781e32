"""Finds logs that programs open and close for each line: no descriptor leads to them while they grow."""

import os
import stat
import time

from .siblings import listed_folders, owner_of
from .walk import LogCandidate, may_be_log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterable, Iterator

FRESH_S = 120.0
"""Seconds since the last write within which a file counts as growing: more than between two searches."""


def reopened_logs(
    written: "Iterable[tuple[str, float, int | None]]",
    enter: "Callable[[str], object]",
    blocked: "Callable[[str], bool]",
    left_out: "list[str] | None" = None,
) -> "Iterator[LogCandidate]":
    # noqa: E501 - a type comment is one line
    """Yield logs beside the `written` files that have grown since the writers' start.

    Programs open and close these for each line. Only files written recently, with names of logs, which the
    owners of the written files have, are included.

    Args:
        written: Path and unix time at which its writer started, of the files that processes write.
        enter: Is called with each folder before the file system is accessed.
        blocked: Returns True for what must not be accessed.
        left_out: Gets the folders that have more entries than are looked at.
    """
    starts: dict[str, float] = {}
    open_now: dict[str, set[str]] = {}
    for path, start, _ in written:
        folder = os.path.dirname(path)
        starts[folder] = min(start, starts.get(folder, start))
        open_now.setdefault(folder, set()).add(path)
    for folder, entries in listed_folders(starts, enter, blocked, left_out):
        owners = {owner.uid: owner for owner in map(owner_of, open_now[folder])}.values()
        for name in entries:
            path = folder + "/" + name
            if path in open_now[folder] or not may_be_log(name) or blocked(path):
                continue
            try:
                status = os.lstat(path)
            except OSError:
                continue
            since = max(starts[folder], time.time() - FRESH_S)
            is_fresh = stat.S_ISREG(status.st_mode) and status.st_size and status.st_mtime >= since
            if is_fresh and any(owner.may_have_written(status) for owner in owners):
                yield LogCandidate(path, status)
