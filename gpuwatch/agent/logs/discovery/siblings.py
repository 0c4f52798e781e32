"""Finds logs of gone ranks: next to those of their siblings, with names equal except for the number."""

import os
import re
import stat
from itertools import islice

from ...base.user_rights import NOBODY, UserRights, in_turns
from ...ranks.path_ranks import ranks_of_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterable, Iterator

MAX_ENTRIES = 12000
"""Most folder entries per search."""
MAX_IN_FOLDER = 4000
"""Most entries of one folder."""
CLOCK_S = 2.0
"""Error in seconds of the start times of processes."""
_DIGITS = re.compile(r"\d+")


class Form(object):
    """The file names of ranks that differ only in one number.

    It has one of these files, their count, the earliest start of their writers, and whether the number is the
    writer's rank.
    """

    __slots__ = ("file", "files", "is_rank", "start")

    def __init__(self, file: str) -> None:
        self.file = file
        self.start = float("inf")
        self.files = 0
        self.is_rank = True


def sibling_logs(
    written: "Iterable[tuple[str, float, int | None]]",
    enter: "Callable[[str], object]",
    blocked: "Callable[[str], bool]",
    left_out: "list[str] | None" = None,
) -> "Iterator[tuple[str, int | None]]":
    # noqa: E501 - a type comment is one line
    """Yield (path, rank) of logs beside the `written` files that were written since the job began.

    They have the owner of the written files: another user may put files beside them. The rank is None unless
    the siblings' names show it.

    Args:
        written: Path, unix time at which its writer started, and the writer's rank, of the files that
            processes write.
        enter: Is called with each folder before the file system is accessed.
        blocked: Returns True for what must not be accessed.
        left_out: Gets the folders that have more entries than are looked at.
    """
    folders = _forms(written)
    for folder, entries in listed_folders(folders, enter, blocked, left_out):
        owners = {form.file: owner_of(form.file) for form in folders[folder].values()}
        for name in entries:
            for (before, behind, below), form in folders[folder].items():
                path = folder + "/" + name + below
                number = name[len(before) : len(name) - len(behind)]
                if not number.isdecimal() or name != before + number + behind or blocked(path):
                    continue
                states = form.is_rank and form.files > 1 and len(number) < 7
                named = states or ranks_of_path(path) != (None, None)
                if named and _since(path, form.start, owners[form.file]):
                    yield path, int(number) if states else None


def listed_folders(
    folders: "Iterable[str]",
    enter: "Callable[[str], object]",
    blocked: "Callable[[str], bool]",
    left_out: "list[str] | None" = None,
) -> "Iterator[tuple[str, list[str]]]":
    """Yield (folder, names in it), up to `MAX_ENTRIES` names in all; the folders' owners take turns.

    `enter`, `blocked`, `left_out`: as for `sibling_logs`.
    """
    owned = []
    for folder in sorted(folders):
        if not blocked(folder):
            enter(folder)
            owned.append((folder, owner_of(folder).uid))
    left = MAX_ENTRIES
    for folder, _ in in_turns(owned):
        enter(folder)
        most = min(left, MAX_IN_FOLDER)
        entries = first_names(folder, most + 1)
        if len(entries) > most and left_out is not None:
            left_out.append(folder)
        left -= len(entries[:most])
        yield folder, entries[:most]


def first_names(folder: str, most: int) -> "list[str]":
    """Return up to `most` names in a folder; empty if it cannot be listed."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in islice(entries, most)]
    except OSError:
        return []


def _forms(
    written: "Iterable[tuple[str, float, int | None]]",
) -> "dict[str, dict[tuple[str, str, str], Form]]":
    """Return folder -> (text before the number, text after it, rest of the path) -> its `Form`.

    In `/r/attempt_0/3/stdout.log` the rank's folder has the number, in `/r/rank3.log` the file.
    """
    found: dict[str, dict[tuple[str, str, str], Form]] = {}
    for path, start, rank in written:
        folder, name = os.path.split(path)
        outer, last = os.path.split(folder)
        in_name = ranks_of_path("/" + name) != (None, None)
        for base, head, below in ((folder, name, ""), (outer, last, "/" + name)):
            if head.startswith("slurm-") or (below and in_name):
                continue  # the number may be a job's: `/r/run7/rank0.log` is no sibling of one in run8
            for number in _DIGITS.finditer(head):
                known = found.setdefault(base, {})
                form = known.setdefault((head[: number.start()], head[number.end() :], below), Form(path))
                form.start = min(start, form.start)
                form.files += 1
                form.is_rank = form.is_rank and rank is not None and number.group() == str(rank)
    return found


def owner_of(path: str) -> UserRights:
    """Return the rights of a file's owner; of a file that is gone, those that all users have."""
    try:
        return UserRights(os.lstat(path).st_uid)
    except OSError:
        return UserRights(NOBODY)


def _since(path: str, start: float, owner: UserRights) -> bool:
    """Return True if a path is a regular file with content, written since `start` (unix seconds, roughly).

    `owner`: whose it must be.
    """
    try:
        status = os.lstat(path)
    except OSError:
        return False
    is_file = stat.S_ISREG(status.st_mode) and status.st_size > 0 and owner.may_have_written(status)
    return is_file and status.st_mtime >= start - CLOCK_S
