"""Reads what the ranks on this node are doing: Python stacks, or the kernel's view.

py-spy is used where it is installed, without stopping the process; nothing is installed. A program is run
only if no user but root and this one can have written it, because ranks belong to other users. Where it
fails, the rank's debug socket is queried, if its job has one.
"""

import os
import shutil
import stat
import time

from ..base.background import TimedCalls
from ..base.procfs import clean, names, read_bytes, read_text
from ..logs.discovery.written_files import growing, positions
from .debug_socket import own_stacks
from .pyspy import python_stacks
from .syscalls import SYSCALLS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

MAX_PROCESSES = 64
MAX_THREADS = 512
"""Most threads examined per process."""
MAX_REPORTED_THREADS = 24
"""Threads reported per process: the main one, then those that used most CPU."""
BETWEEN_S = 0.5
"""Seconds over which CPU time is compared, to distinguish spinning from sleeping ranks."""
ONE_S = 4.0
"""Time limit in seconds for one process's stacks by py-spy."""
ALL_STACKS_TIMEOUT_S = 12.0
"""Time limit in seconds for the stacks of all processes."""
MAX_CHILDREN, MAX_REPORTED_CHILDREN = 256, 8
"""Child processes of a rank (such as data-loader workers): examined, and reported."""
_UNREADABLE_STATES = ("D", "T", "t")
MAX_SAMPLES = 3
"""Most samples; one sample may catch no frame of a thread that always runs Python code."""
OWN_S = 3.0
"""Seconds for the ranks' debug sockets, which are queried together."""
ABSENT = "py-spy is not installed on the node"
MAX_FRAMES_BYTES = 600 * 1024
"""Bytes over all processes.

Beyond that only innermost frames of main threads are sent (replies are limited to 1 MiB).
"""


def stacks(request: "dict[str, Any]", proc: str = "/proc", uploaded: "str | None" = None) -> "dict[str, Any]":
    """Return `wire.Stacks` of the requested pids that still run; `uploaded`: path of the uploaded py-spy.

    Without py-spy (`py_spy` of the request is None) it has the kernel's view only.
    """
    pids = [pid for pid in request.get("pids", ()) if isinstance(pid, int) and pid > 0][:MAX_PROCESSES]
    tool = request.get("py_spy", "")
    all_s = min(ALL_STACKS_TIMEOUT_S, request.get("seconds") or ALL_STACKS_TIMEOUT_S)
    before = {pid: threads(proc, pid) for pid in pids}
    written = {pid: positions(proc, pid) for pid in pids}
    began = time.monotonic()
    programs = find_py_spy(proc, pids, str(tool), uploaded) if tool is not None else {}
    python: dict[int, tuple[list[dict[str, Any]], str | None]] = {}
    for pid in pids:
        left = began + all_s - time.monotonic()
        if pid not in programs:
            python[pid] = ([], None if tool is None else ABSENT)
        elif left <= 0:
            python[pid] = ([], "no time was left for py-spy")
        else:
            python[pid] = _seen(programs[pid], pid, began + all_s)
    if request.get("sockets", True):
        python.update(_own_reports(proc, python))
    time.sleep(max(0.0, BETWEEN_S - (time.monotonic() - began)))
    seconds = time.monotonic() - began
    rows = []
    for pid in pids:
        after = threads(proc, pid)
        if after:
            row = _process(proc, pid, before[pid], after, seconds, python[pid])
            row.update(growing(written[pid], positions(proc, pid)))
            rows.append(row)
    _shorten(rows)
    absent = tool is not None and any(pid not in programs and not python[pid][0] for pid in pids)
    return {"processes": rows, "seconds": round(seconds, 3), "lacks_py_spy": absent}


def _own_reports(
    proc: str, python: "dict[int, tuple[list[dict[str, Any]], str | None]]"
) -> "dict[int, tuple[list[dict[str, Any]], str | None]]":
    # noqa: E501 - a type comment is one line
    """Return pid -> (threads, None) or ([], why), from the debug sockets of ranks for which py-spy failed."""
    lacking = {pid: why for pid, (threads, why) in python.items() if why is not None}
    reported = own_stacks(proc, sorted(lacking), OWN_S)
    return {
        pid: (threads, why if why is None else "{}; {}".format(lacking[pid], why))
        for pid, (threads, why) in reported.items()
    }


def _process(
    proc: str,
    pid: int,
    before: "dict[int, dict[str, Any]]",
    after: "dict[int, dict[str, Any]]",
    seconds: float,
    python: "tuple[list[dict[str, Any]], str | None]",
) -> "dict[str, Any]":
    # noqa: E501 - a type comment is one line
    rows = []
    total = 0.0
    for tid, now in after.items():
        spent = now.pop("cpu_s")
        earlier = before.get(tid, {}).get("cpu_s")
        if earlier is not None and spent is not None:
            now["cpu_pct"] = round(max(0.0, 100.0 * (spent - earlier) / seconds), 1)
            total += now["cpu_pct"]
        rows.append(now)
    rows.sort(key=lambda row: (row["tid"] != pid, -(row.get("cpu_pct") or 0.0)))
    for row in rows[:MAX_REPORTED_THREADS]:
        _waits(os.path.join(proc, str(pid), "task", str(row["tid"])), row)
    found, why = python
    facts: dict[str, Any] = {
        "pid": pid,
        "threads": rows[:MAX_REPORTED_THREADS],
        "threads_total": len(rows),
        "cpu_pct": round(total, 1),
        "python": found,
    }
    below = children(proc, pid)
    if below:
        facts["children"] = below
    if why is not None:
        facts["why"] = why
    return facts


def _seen(program: str, pid: int, until: float) -> "tuple[list[dict[str, Any]], str | None]":
    """Return py-spy's (threads, None) or ([], why) for a process.

    It runs again if it caught no frame of the main thread.
    """
    found: list[dict[str, Any]] = []
    why: str | None = None
    for _ in range(MAX_SAMPLES):
        left = until - time.monotonic()
        if left <= 0:
            break
        found, why = python_stacks(program, pid, min(ONE_S, left))
        if why is not None or any(thread["main"] and thread["frames"] for thread in found):
            break
    return found, why


def children(proc: str, pid: int) -> "list[dict[str, Any]]":
    """Return the child processes of a process as `wire.KernelThread`; stopped or stuck ones first.

    At most `MAX_REPORTED_CHILDREN`.
    """
    folder = os.path.join(proc, str(pid), "task")
    started: list[str] = []
    for name in filter(str.isdecimal, names(folder)):
        started += (read_text(os.path.join(folder, name, "children"), 1 << 16) or "").split()
        if len(started) >= MAX_CHILDREN:
            break
    rows = [threads(proc, int(child), (child,)).get(int(child)) for child in started[:MAX_CHILDREN]]
    found = [row for row in rows if row is not None]
    found.sort(key=lambda row: (row["state"] not in _UNREADABLE_STATES, row["tid"]))
    for row in found[:MAX_REPORTED_CHILDREN]:
        row.pop("cpu_s")
        _waits(os.path.join(proc, str(row["tid"])), row)
    return found[:MAX_REPORTED_CHILDREN]


def threads(proc: str, pid: int, only: "tuple[str, ...] | None" = None) -> "dict[int, dict[str, Any]]":
    """Return thread id -> `tid`, `name`, `state` and `cpu_s` (CPU seconds); empty if the process ended.

    `only`: thread ids to return; None: all.
    """
    folder = os.path.join(proc, str(pid), "task")
    found: dict[int, dict[str, Any]] = {}
    listed = filter(str.isdecimal, names(folder)) if only is None else only
    for name in sorted(listed, key=int)[:MAX_THREADS]:
        line = read_bytes(os.path.join(folder, name, "stat"), 2048) or b""
        head, _, tail = line.rpartition(b")")
        fields = tail.split()
        if len(fields) < 13:
            continue
        found[int(name)] = {
            "tid": int(name),
            "name": clean(head.partition(b"(")[2].decode("utf-8", "replace"), 32),
            "state": fields[0].decode("ascii", "replace"),
            "cpu_s": _cpu_s(os.path.join(folder, name), fields),
        }
    return found


def _cpu_s(folder: str, fields: "list[bytes]") -> "float | None":
    precise = (read_bytes(os.path.join(folder, "schedstat"), 128) or b"").split()
    try:
        if precise:
            return int(precise[0]) / 1e9
        return (int(fields[11]) + int(fields[12])) / float(os.sysconf("SC_CLK_TCK"))
    except ValueError:
        return None


def _waits(folder: str, row: "dict[str, Any]") -> None:
    """Add to the row where in the kernel a thread waits; both files may be unreadable."""
    wchan = read_text(os.path.join(folder, "wchan"), 128)
    if wchan and wchan != "0":
        row["wchan"] = clean(wchan, 64)
    call = (read_text(os.path.join(folder, "syscall"), 256) or "").partition(" ")[0]
    if call == "running":
        row["syscall"] = call
    elif call.isdecimal():
        row["syscall"] = SYSCALLS.get(int(call), "syscall " + call)


def _shorten(rows: "list[dict[str, Any]]") -> None:
    """Shorten the Python stacks in the rows to the size that the cockpit accepts."""
    frames = [frame for row in rows for each in row["python"] for frame in each["frames"]]
    if sum(map(_bytes, frames)) <= MAX_FRAMES_BYTES:
        return
    for row in rows:
        row["python"] = [each for each in row["python"] if each["main"]][:1]
        left = MAX_FRAMES_BYTES // len(rows)
        for each in row["python"]:
            kept = []
            for frame in each["frames"]:
                left -= _bytes(frame)
                if left < 0:
                    break
                kept.append(frame)
            each["frames"] = kept


def _bytes(frame: "dict[str, Any]") -> int:
    """Return an upper bound of a frame's size as JSON: a character may become four bytes."""
    return 4 * (len(frame["function"]) + len(frame["file"])) + 50


# --------------------------------------------------------------------------- which py-spy


def find_py_spy(proc: str, pids: "list[int]", named: str, uploaded: "str | None") -> "dict[int, str]":
    """Return pid -> path of a py-spy: one on PATH, one in its environment, else the uploaded one.

    If `named` is given, only it or the uploaded one. A process without one is left out.
    """
    without = {} if uploaded is None else dict.fromkeys(pids, uploaded)
    if named:
        return dict.fromkeys(pids, named) if trusted(named) else without
    on_path = shutil.which("py-spy")
    if on_path is not None and trusted(on_path):
        return dict.fromkeys(pids, on_path)
    asked = TimedCalls(patience_s=1.0).ask({pid: _beside(proc, pid) for pid in pids})
    without.update({pid: path for pid, path in asked.items() if isinstance(path, str)})
    return without


def _beside(proc: str, pid: int) -> "Callable[[], object]":
    return lambda: _own(os.path.join(proc, str(pid)))


def _own(folder: str) -> "str | None":
    """Return the path of the py-spy in a process's environment.

    None: there is none that can be trusted, or the process is in a container.
    """
    if not os.path.samestat(os.stat(os.path.join(folder, "root")), os.stat("/")):
        return None  # a container: its programs may not run outside of it
    folders = []
    program = (read_bytes(os.path.join(folder, "cmdline"), 4096) or b"").split(b"\0")[0]
    if program.startswith(b"/"):
        folders.append(os.path.dirname(os.fsdecode(program)))
    environ = read_bytes(os.path.join(folder, "environ"), 1 << 20) or b""
    for entry in environ.split(b"\0"):
        name, _, value = entry.partition(b"=")
        if name in (b"VIRTUAL_ENV", b"CONDA_PREFIX"):
            folders.append(os.path.join(os.fsdecode(value), "bin"))
        elif name == b"PATH":
            folders += os.fsdecode(value).split(":")[:40]
    for each in folders:
        path = os.path.join(each, "py-spy")
        if os.path.isabs(path) and trusted(path):
            return path
    return None


def trusted(path: str) -> bool:
    """Return True if a program can be run, and no user but root and this one can have changed it."""
    path = os.path.realpath(path)
    if not os.access(path, os.X_OK) or not os.path.isfile(path):
        return False
    while True:
        found = os.stat(path)
        others = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if found.st_uid not in (0, os.geteuid()) or (others and not found.st_mode & stat.S_ISVTX):
            return False
        above = os.path.dirname(path)
        if above == path:
            return True
        path = above
