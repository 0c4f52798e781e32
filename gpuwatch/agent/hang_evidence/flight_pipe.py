"""Triggers a flight-recorder dump in a running job: writes one byte to each rank's pipe.

Ranks create `STEM RANK .pipe` where TORCH_NCCL_DEBUG_INFO_PIPE_FILE names a stem (torch's ProcessGroupNCCL);
a byte makes the rank write its dump where it would on a timeout. The job continues.
"""

import errno
import os
import stat

from ..base.background import TimedCalls
from ..base.procfs import clean, read_bytes
from ..base.user_rights import uid_of
from ..processes.process_table import seen_by, values_of
from ..ranks.rank_environment import identity, variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

MAX_PROCESSES = 64
STEM = b"TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
PREFIXES = (b"TORCH_FR_DUMP_TEMP_FILE", b"TORCH_NCCL_DEBUG_INFO_TEMP_FILE")


def trigger(request: "dict[str, Any]", proc: str = "/proc") -> "dict[str, Any]":
    """Write to the dump pipe of each requested process; return `wire.DumpResults`."""
    pids = [pid for pid in request.get("pids", ()) if isinstance(pid, int) and pid > 0][:MAX_PROCESSES]
    answers = TimedCalls(patience_s=3.0).ask({pid: _of(proc, pid) for pid in pids})
    silent = {"error": "the file system of its files hangs"}
    return {"processes": [dict(answers.get(pid) or silent, pid=pid) for pid in pids]}  # type: ignore[call-overload]  # dict() of two dicts has no overload for keywords of other types


def _of(proc: str, pid: int) -> "Callable[[], object]":
    return lambda: _one(os.path.join(proc, str(pid)))


def _one(folder: str) -> "dict[str, Any]":
    environ = read_bytes(os.path.join(folder, "environ"), 1 << 20)
    if environ is None:
        return {"error": "its environment cannot be read"}
    values = values_of(environ)
    rank = identity(variables(environ)).get("rank")
    stem = os.fsdecode(values.get(STEM, b""))
    if not stem:
        return {"error": "its job did not set TORCH_NCCL_DEBUG_INFO_PIPE_FILE"}
    if rank is None:
        return {"error": "no rank in its environment"}
    facts: dict[str, Any] = {"pipe": clean("{}{}.pipe".format(stem, rank), 300)}
    for name in PREFIXES:
        if values.get(name):
            facts["dump"] = clean(os.fsdecode(values[name]) + str(rank), 300)
            break
    refused = _write(folder, "{}{}.pipe".format(stem, rank))
    if refused is not None:
        facts["error"] = refused
    return facts


def _write(folder: str, path: str) -> "str | None":
    """Write one byte to the process's dump pipe, and to no other file.

    Return why that failed; None: it did not.
    """
    path = seen_by(folder, path)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return "no process reads its pipe: its NCCL group is not created yet, or is gone"
        return "its pipe cannot be opened: " + (error.strerror or str(error)).lower()
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISFIFO(found.st_mode) or found.st_uid != uid_of(
            int(os.path.basename(folder)), os.path.dirname(folder)
        ):
            return "that file is not a pipe of this process"
        os.write(descriptor, b"1")
    except OSError as error:
        return (error.strerror or str(error)).lower()
    finally:
        os.close(descriptor)
    return None
