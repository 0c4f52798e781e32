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
from ..logs.files.regular_file import open_regular
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
    """Return `wire.JobFolders`: the files in the folders of these logs whose inner path fits a pattern."""
    wanted = re.compile(request["wanted"], re.IGNORECASE)
    until = time.time() + LISTING_S
    rows: dict[str, dict[str, Any]] = {}
    refused = []
    names, chars, files = 0, 0, 0
    for log in request["logs"][:MAX_LOGS]:
        try:
            folder, owner = _place(log)
        except (OSError, ValueError) as error:
            refused.append({"log": log, "why": clean(getattr(error, "strerror", None) or str(error), 200)})
            continue
        if folder in rows:
            continue
        row = rows[folder] = {"log": log, "folder": folder, "files": [], "cut": False}
        for parent, folders, inside in os.walk(folder):
            folders[:] = sorted(each for each in folders if each[0] != "." or each in HIDDEN)
            names += len(inside)
            for name in sorted(inside):
                inner = os.path.relpath(os.path.join(parent, name), folder)
                if not wanted.search(inner) or clean(inner, 4096) != inner:
                    continue
                known = os.lstat(os.path.join(parent, name))
                if stat.S_ISREG(known.st_mode) and known.st_uid == owner:
                    row["files"].append(
                        {"name": inner, "size_bytes": known.st_size, "mtime": round(known.st_mtime, 6)}
                    )
                    files, chars = files + 1, chars + len(inner)
            if names > MAX_NAMES or files > MAX_FILES or chars > MAX_CHARS or time.time() > until:
                row["cut"] = True
                break
    return {"folders": list(rows.values()), "refused": refused}


def job_piece(request: "dict[str, Any]") -> "dict[str, Any]":
    """Return `wire.DumpPiece`: bytes of a file in the folder of a log, from an offset on.

    Raises:
        OSError: it cannot be read (any more).
        ValueError: the request names no file of the log's owner in that folder.
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
    """Return the folder of a log's job, and the log's owner.

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
