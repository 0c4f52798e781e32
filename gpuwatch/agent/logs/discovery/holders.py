"""Finds the files that running processes have open for writing, whether or not they are listed as ranks."""

import os
import re

from ...base.procfs import names, read_bytes, read_link
from ...base.user_rights import NOBODY, in_turns, uid_of

MAX_DESCRIPTORS = 256
"""Descriptors per process that are read."""
MAX_HELD = 64
"""Most files that one search adds because they are written; those below the start folders count as well."""
_LOG_NAME = re.compile(r"\.(?:log|txt|out|err|stdout|stderr)(?:[.-]\d{1,6})?$")
_SYSTEM = ("/proc/", "/sys/", "/dev/", "/run/", "/usr/", "/etc/", "/var/log/", "/var/lib/", "/boot/")


def held_files(proc: str, paths: "frozenset[str]") -> "tuple[dict[str, dict[int, str]], bool]":
    """Return path -> pid -> descriptor of files that processes have open for writing; True if there are more.

    Only readable descriptors count, and of paths not in `paths` at most `MAX_HELD` that are the output of a
    process or a log by name; the users of the processes take turns.
    """
    found: dict[str, dict[int, str]] = {}
    others: dict[str, int] = {}
    of_user: dict[int, int] = {}
    for pid in names(proc):
        folder = os.path.join(proc, pid, "fd")
        descriptors = names(folder)[:MAX_DESCRIPTORS] if pid.isdecimal() else []
        uid = uid_of(int(pid), proc) if descriptors else NOBODY
        for number in descriptors:
            target = read_link(os.path.join(folder, number))
            if target is None or not target.startswith("/") or target.startswith(_SYSTEM):
                continue
            may_be_log = number in ("1", "2") or _LOG_NAME.search(target) is not None
            new = target not in paths and target not in found
            if (new and not (may_be_log and of_user.get(uid, 0) <= MAX_HELD)) or not _writes(
                proc, pid, number
            ):
                continue
            if new:
                others[target] = uid
                of_user[uid] = of_user.get(uid, 0) + 1
            found.setdefault(target, {}).setdefault(int(pid), number)
    beyond = in_turns(others.items())[MAX_HELD:]
    for target, _ in beyond:
        del found[target]
    return found, bool(beyond)


def still_held(proc: str, path: str, holders: "dict[int, str]") -> "dict[int, str]":
    """Return the `holders` (pid -> descriptor) that still have the file at `path` open."""
    return {
        pid: number
        for pid, number in holders.items()
        if read_link(os.path.join(proc, str(pid), "fd", number)) == path
    }


def is_same_file(proc: str, path: str, holders: "dict[int, str]") -> bool:
    """Return True if the first holder's open file is the one at `path` here.

    A process in a container may see another file at that path.
    """
    here = _status(path)
    opened = [_status(os.path.join(proc, str(pid), "fd", number)) for pid, number in holders.items()]
    known = [each for each in opened if each is not None]
    return here is not None and bool(known) and os.path.samestat(here, known[0])


def _status(path: str) -> "os.stat_result | None":
    try:
        return os.stat(path)
    except OSError:
        return None


def _writes(proc: str, pid: str, number: str) -> bool:
    for line in (read_bytes(os.path.join(proc, pid, "fdinfo", number), 4096) or b"").splitlines():
        if line.startswith(b"flags:"):
            return int(line.split()[1], 8) & os.O_ACCMODE != os.O_RDONLY
    return False
