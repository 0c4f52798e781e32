"""Decides which followed file makes room for another one where the catalog is full."""

import os
from collections import Counter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable

    from .entry import FileEntry

TRUST = {"process": 0, "slurm": 1, "option": 2, "glob": 3, "found": 4}
"""Source of a file -> its place, the most reliable first."""


def file_to_drop(entries: "Iterable[FileEntry]", path: str, source: str) -> "FileEntry | None":
    """Return the file that is put down for `path`, found by `source`; None if there is none to drop.

    That is the missing file that grew longest ago. For a file that a running job names it is also the log
    of an ended job, of the user who has most of these; then a file of the user who has most files, if these
    are at least two more than those of the user of `path`. Files that are shown are kept, except of these.
    """
    listed = list(entries)
    hidden = [entry for entry in listed if entry.follower is not None and not entry.tails]
    gone = [entry for entry in hidden if entry.follower and entry.follower.gone and entry.follower.closed]
    if gone:
        return _oldest(gone)
    if TRUST[source] >= TRUST["found"]:
        return None
    ended = [entry for entry in hidden if entry.source == "found" and not entry.holders]
    if ended:
        count = Counter(entry.owner for entry in ended)
        most = max(count.values())
        return _oldest([entry for entry in ended if count[entry.owner] == most])
    files = Counter(entry.file_uid for entry in listed)
    uid, most = max(files.items(), key=lambda each: each[1])
    if most < 2 or files[_uid(path)] + 1 >= most:
        return None
    theirs = [entry for entry in listed if entry.file_uid == uid and entry.source != "option"]
    return _oldest([entry for entry in theirs if not entry.tails] or theirs)


def _oldest(entries: "list[FileEntry]") -> "FileEntry | None":
    return min(entries, key=lambda entry: entry.grown_at or 0.0) if entries else None


def _uid(path: str) -> "int | None":
    try:
        return os.stat(path).st_uid
    except OSError:
        return None
