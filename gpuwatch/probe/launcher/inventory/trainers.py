"""Finds the interpreters of the training processes on this node: the probe should use the same torch."""

import os
import shutil

from gpuwatch.agent.base.background import TimedCalls
from gpuwatch.agent.base.procfs import clean, read_bytes, read_link
from gpuwatch.agent.processes.process_table import pids, read_stat
from gpuwatch.probe.launcher.inventory.environment import like_process, of_process
from gpuwatch.probe.launcher.inventory.interpreters import Interpreter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator

MAX_INTERPRETERS = 4
"""Maximum number of different interpreters that are queried."""
_PATIENCE_S = 2.0
_MAX_MAPS = 1 << 22
_MAX_ENVIRON = 1 << 20


def interpreters(proc: str, rows: "list[dict[str, Any]]", tried: "list[str]") -> "Iterator[Interpreter]":
    """Yield candidates from processes on a GPU, then from other ranks, then from any with libtorch mapped.

    Args:
        proc: The process file system, /proc.
        rows: Processes with the keys of `wire.Process`, those on a GPU first.
        tried: Receives the reason for each process whose interpreter cannot be used.
    """
    known = [row["pid"] for row in rows if row.get("name") != "?"]
    found: set[tuple[object, ...]] = set()
    for pid in known + [pid for pid in _with_torch(proc) if pid not in known]:
        one = _looked_into(proc, pid, tried)
        if one is not None and one.same() not in found:
            found.add(one.same())
            yield one
        if len(found) + len(tried) >= MAX_INTERPRETERS:
            return


def script(proc: str, pid: int) -> str:
    """Return the name of a training script from the command line of a process.

    `train.py` of `python -u train.py`, the module of `python -m`, else the first argument that is no option,
    else the name of the process. With `-c` and no `.py` file it is the name of the process.
    """
    words = (read_bytes(os.path.join(proc, str(pid), "cmdline"), 16384) or b"").split(b"\0")
    names = [word.decode("utf-8", "replace") for word in words]
    for before, name in zip(names, names[1:]):  # noqa: B905 - strict= needs 3.10
        if before == "-m" or name.endswith(".py"):
            return clean(os.path.basename(name), 64) or "?"
    plain = [name for name in names[1:] if name and not name.startswith("-")]
    if plain and "-c" not in names:
        return clean(os.path.basename(plain[0]), 64) or "?"
    found = read_stat(proc, pid)
    return found.name if found is not None else "?"


def _looked_into(proc: str, pid: int, tried: "list[str]") -> "Interpreter | None":
    looked = TimedCalls(_PATIENCE_S).ask({pid: lambda: _TrainerProcess(proc, pid)}).get(pid)
    if not isinstance(looked, _TrainerProcess):
        return None
    why = "process {} ({})".format(pid, looked.script)
    if not looked.ours:
        # what another user's environment names would run as us
        tried.append("{}: it belongs to another user, and only your own is used".format(why))
    elif looked.is_python and looked.python is None:
        tried.append("{}: its interpreter is in a container and cannot be used from the host".format(why))
    elif looked.python is not None and looked.environ is not None:
        return Interpreter(why, looked.python, environ=like_process(looked.environ))
    return None


class _TrainerProcess(object):
    """The interpreter, environment and working folder of one process. Reading it may block."""

    def __init__(self, proc: str, pid: int) -> None:
        folder = os.path.join(proc, str(pid))
        self.script = script(proc, pid)
        self.ours = _owner(folder) == os.geteuid()
        self.exe = read_link(folder + "/exe")
        self.is_python = "python" in os.path.basename(self.exe or "")
        environ = read_bytes(folder + "/environ", _MAX_ENVIRON)
        where = read_link(folder + "/cwd")
        self.environ = None if environ is None else of_process(environ, where)
        self.python: str | None = None
        if self.is_python and self.environ is not None:
            self.python = _python(folder, self.exe or "", self.environ)


def _python(folder: str, exe: str, environ: "dict[str, str]") -> "str | None":
    """Return the path that starts this interpreter in its own environment; None if it is not found.

    /proc/PID/exe bypasses the links of a venv, so the other names of the same file are tried first.
    """
    first = (read_bytes(folder + "/cmdline", 4096) or b"").split(b"\0")[0].decode("utf-8", "surrogateescape")
    names = [first] if os.path.isabs(first) else []
    homes = (environ.get("VIRTUAL_ENV"), environ.get("CONDA_PREFIX"))
    names += [os.path.join(home, "bin/python") for home in homes if home]
    path = environ.get("PATH", os.defpath)
    names += [shutil.which(name, path=path) or "" for name in (first, "python", "python3") if name]
    names.append(exe)
    return next((name for name in names if _same_file(folder + "/exe", name)), None)


def _owner(path: str) -> "int | None":
    try:
        return os.stat(path).st_uid
    except OSError:
        return None


def _same_file(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except (OSError, ValueError):
        return False


def _with_torch(proc: str) -> "list[int]":
    """Return the pids of Python processes with libtorch mapped, as far as permissions allow."""
    names = {pid: read_stat(proc, pid) for pid in pids(proc) if pid != os.getpid()}
    asked = {
        pid: _maps_of(proc, pid)
        for pid, found in names.items()
        if found is not None and found.name.startswith(("python", "pt_"))
    }
    return sorted(pid for pid, answer in TimedCalls(_PATIENCE_S).ask(asked).items() if answer)


def _maps_of(proc: str, pid: int) -> "Callable[[], object]":
    return lambda: b"/libtorch" in (read_bytes(os.path.join(proc, str(pid), "maps"), _MAX_MAPS) or b"")
