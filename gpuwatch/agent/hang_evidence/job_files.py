"""Lists the files of a job's folder, and reads them piece by piece, for an evidence bundle.

The folder is that of one of the job's log files; of a folder `logs` it is the one above. Only files of the
log's owner are ever listed or read.
"""

import os
import pwd
import re
import stat
import time

from ..base.procfs import clean
from ..base.regular_file import modified_at, open_regular
from .flight_files import piece_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_LOGS = 256
MAX_NAMES = 200000
"""Most names examined over all folders."""
MAX_FILES = 4096
MAX_CHARS = 500000
"""Characters of all names; a reply is limited to 1 MiB."""
LISTING_S = 10.0
FOLDERS_OF_LOGS = ("logs", "log")
HIDDEN = (".hydra",)
"""Hidden folders that hold the configuration of a run; all others are passed over."""


def job_files(request: "dict[str, Any]") -> "dict[str, Any]":
    """Return `wire.JobFolders`: the files in the folders of these logs whose path there matches a pattern."""
    listing = _Listing(re.compile(request["wanted"], re.IGNORECASE), time.time() + LISTING_S)
    rows: dict[str, dict[str, Any]] = {}
    refused = []
    for log in request["logs"][:MAX_LOGS]:
        try:
            folder, owner = _place(log)
        except (OSError, ValueError) as error:
            refused.append({"log": log, "why": clean(getattr(error, "strerror", None) or str(error), 200)})
            continue
        if folder not in rows:
            files, cut = listing.files_in(folder, owner)
            rows[folder] = {"log": log, "folder": folder, "files": files, "cut": cut}
    return {"folders": list(rows.values()), "refused": refused}


class _Listing:
    """Lists the files of folders within limits that hold for all folders together."""

    def __init__(self, wanted: "re.Pattern[str]", until: float) -> None:
        self._wanted = wanted
        self._until = until
        self._names = 0
        self._files = 0
        self._chars = 0

    def files_in(self, folder: str, owner: int) -> "tuple[list[dict[str, Any]], bool]":
        """Return (the owner's files below a folder whose path matches, whether a limit cut their list).

        Hidden folders but `HIDDEN` are passed over.
        """
        rows = []
        for parent, folders, names in os.walk(folder):
            folders[:] = sorted(each for each in folders if each[0] != "." or each in HIDDEN)
            self._names += len(names)
            for name in sorted(names):
                row = self._row(folder, os.path.join(parent, name), owner)
                if row:
                    rows.append(row)
            if self._is_over():
                return rows, True
        return rows, False

    def _row(self, folder: str, path: str, owner: int) -> "dict[str, Any] | None":
        inner = os.path.relpath(path, folder)
        if not self._wanted.search(inner) or clean(inner, 4096) != inner:
            return None
        known = os.lstat(path)
        if not stat.S_ISREG(known.st_mode) or known.st_uid != owner:
            return None
        self._files += 1
        self._chars += len(inner)
        return {"name": inner, "size_bytes": known.st_size, "mtime": round(modified_at(known), 6)}

    def _is_over(self) -> bool:
        over = self._names > MAX_NAMES or self._files > MAX_FILES or self._chars > MAX_CHARS
        return over or time.time() > self._until


def job_piece(request: "dict[str, Any]") -> "dict[str, Any]":
    """Return `wire.DumpPiece`: bytes of a file in the folder of a log, from an offset on.

    Raises:
        OSError: It cannot be read (any more).
        ValueError: The request names no file of the log's owner in that folder.
    """
    folder, owner = _place(request["log"])
    name = os.path.normpath(request["name"])
    if os.path.isabs(name) or name.startswith(".."):
        raise ValueError("not a file in the folder of the log")
    descriptor = open_regular(os.path.join(folder, name), True)
    try:
        if os.fstat(descriptor).st_uid != owner:
            raise ValueError("not a file of the owner of the log")
        return piece_at(descriptor, request["offset"])
    finally:
        os.close(descriptor)


def _place(log: str) -> "tuple[str, int]":
    """Return (folder of a log's job, the log's owner).

    Raises:
        OSError: the log is gone.
        ValueError: the folder is not one of a job alone, such as /tmp or a home.
    """
    owner = os.lstat(log).st_uid
    folder = os.path.dirname(os.path.abspath(log))
    if os.path.basename(folder) in FOLDERS_OF_LOGS:
        folder = os.path.dirname(folder)
    found = os.stat(folder)
    try:
        home = pwd.getpwuid(owner).pw_dir
    except KeyError:
        home = ""
    is_home = folder.endswith(home) if home.strip("/") else folder == "/"
    if is_home or found.st_mode & stat.S_ISVTX or found.st_uid != owner:
        raise ValueError("the log lies in a home or a folder of several users: {}".format(clean(folder, 300)))
    return folder, owner
