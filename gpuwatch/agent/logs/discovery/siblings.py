"""Logs of ranks that are gone: beside those that their siblings write, named alike but for the number."""

import os
import re
import stat

from ...base.path_ranks import ranks_of_path
from ...procfs import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterable, Iterator  # noqa: F401 - used in type comments

MAX_ENTRIES = 2000
"""Entries of folders that one look takes in."""
CLOCK_S = 2.0
"""A start time is known to a second."""
_DIGITS = re.compile(r"\d+")


def sibling_logs(written, enter, blocked):
    # type: (Iterable[tuple[str, float]], Callable[[str], object], Callable[[str], bool]) -> Iterator[str]
    """Files that were written since the job began.

    Args:
        written: Path and unix time at which its writer started, of the files that processes write.
        enter: Is called with each folder before the file system is asked about it.
        blocked: Tells what must not be touched.
    """
    folders = _forms(written)
    left = MAX_ENTRIES
    for folder in sorted(folders):
        if blocked(folder):
            continue
        enter(folder)
        entries = names(folder)
        left -= len(entries)
        if left < 0:
            return
        for name in entries:
            for (before, behind, below), start in folders[folder].items():
                path = folder + "/" + name + below
                number = name[len(before) : len(name) - len(behind)]
                if not number.isdigit() or name != before + number + behind or blocked(path):
                    continue
                if ranks_of_path(path) != (None, None) and _since(path, start):
                    yield path


def _forms(written):
    # type: (Iterable[tuple[str, float]]) -> dict[str, dict[tuple[str, str, str], float]]
    """Folder -> (what stands before and behind a number of a name, and below) -> first start of a writer.

    Of `/r/attempt_0/3/stdout.log` the rank's folder has a number, of `/r/rank3.log` the file.
    """
    found = {}  # type: dict[str, dict[tuple[str, str, str], float]]
    for path, start in written:
        folder, name = os.path.split(path)
        outer, last = os.path.split(folder)
        for base, head, below in ((folder, name, ""), (outer, last, "/" + name)):
            if head.startswith("slurm-"):
                continue  # the number may be a job's
            for number in _DIGITS.finditer(head):
                known = found.setdefault(base, {})
                form = head[: number.start()], head[number.end() :], below
                known[form] = min(start, known.get(form, start))
    return found


def _since(path, start):
    # type: (str, float) -> bool
    """Whether there is a regular file that was written after a time."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size > 0 and status.st_mtime >= start - CLOCK_S
