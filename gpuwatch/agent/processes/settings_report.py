"""Answers rare requests: the settings of the ranks, and which nodes this one can reach.

Reading /proc/PID/maps and connecting can block, so the emitter runs it in the background.
"""

import os
import re
import socket

from ..base.procfs import clean, names, read_bytes, read_link, read_text
from ..ranks.rank_environment import identity, variables
from .process_table import MAX_DEPTH, pids, read_stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_RANKS = 64
MAX_TARGETS = 64
MAX_PORTS = 64
MAX_MAPS = 4 << 20
CONNECT_S = 3.0

_PREFIXES = ("NCCL_", "TORCH_NCCL_", "TORCH_DIST", "TORCH_FR_", "GLOO_", "UCX_", "FI_", "CUDA_")
_NAMES = (
    "OMP_NUM_THREADS",
    "MASTER_ADDR",
    "MASTER_PORT",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "PYTORCH_CUDA_ALLOC_CONF",
)
_SECRET = re.compile("TOKEN|SECRET|PASS|KEY|CREDENTIAL", re.IGNORECASE)
_KEPT_SLURM = (
    "SLURM_JOB_ID",
    "SLURM_NNODES",
    "SLURM_NTASKS",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_GPUS_ON_NODE",
    "SLURM_CPUS_PER_TASK",
    "SLURM_JOB_PARTITION",
)
MAX_VARIABLES, MAX_VALUE = 120, 200

_NCCL_FILE = re.compile(rb"(?<= )(/\S*/libnccl\.so[.\d]*)[ \t]*$", re.MULTILINE)
_NCCL_VERSION = re.compile(r"libnccl\.so\.(\d+\.\d+\.\d+)$")
_TORCH_FILE = re.compile(rb"(?<= )(/\S*?)/torch/lib/libtorch[\w.+-]*\.so")
_NVSWITCH = re.compile("nvidia-nvswitch")


def settings_report(
    request: "dict[str, Any]",
    proc: str = "/proc",
    dev: str = "/dev",
    shm: str = "/dev/shm",  # noqa: S108 - its size is asked, nothing is written
) -> "dict[str, Any]":
    """Return the settings of this node and its ranks, if readable, with the keys of `wire.NodeSettings`."""
    found: dict[str, Any] = {"ranks": _ranks(proc, request.get("pids")), "reached": _reached(request)}
    found["listens"] = _listens(request, proc)
    found.update(_shm(shm))
    if any(_NVSWITCH.search(name) for name in names(dev)):
        found["fabric_manager"] = _runs(proc, "nv-fabricmanage")
    return found


def _shm(folder: str) -> "dict[str, int]":
    try:
        stat = os.statvfs(folder)
    except OSError:
        return {}
    total = stat.f_blocks * stat.f_frsize
    return {"shm_total_bytes": total, "shm_used_bytes": total - stat.f_bfree * stat.f_frsize}


def _runs(proc: str, command: str) -> bool:
    """Return True if a process with this command name runs; the kernel stores 15 characters."""
    return any(read_text(os.path.join(proc, str(pid), "comm"), 64) == command for pid in pids(proc))


# --------------------------------------------------------------------------- ranks


def _ranks(proc: str, asked: object) -> "list[dict[str, Any]]":
    wanted = [pid for pid in asked if isinstance(pid, int)] if isinstance(asked, list) else []
    who: dict[int, dict[str, object]] = {}
    for pid in wanted or pids(proc):
        facts = identity(variables(_environ(proc, pid)))
        if facts.get("rank") is not None:
            who[pid] = facts
    # a rank's data-loader workers inherit its environment: the oldest process of a rank is the rank
    oldest: dict[object, int] = {}
    for pid in sorted(who):
        facts = who[pid]
        place = (facts.get("job"), facts.get("master"), facts["rank"], _launcher(proc, pid, who))
        if len(oldest) < MAX_RANKS:
            oldest.setdefault(place, pid)
    return [
        _rank(os.path.join(proc, str(pid)), pid, who[pid]["rank"], _environ(proc, pid))
        for pid in oldest.values()
    ]


def _environ(proc: str, pid: int) -> bytes:
    return read_bytes(os.path.join(proc, str(pid), "environ"), 1 << 20) or b""


def _launcher(proc: str, pid: int, who: "dict[int, dict[str, object]]") -> int:
    """Return the pid of a rank's nearest ancestor without its rank facts: distinguishes jobs without an id.

    0 if it is unknown.
    """
    above = pid
    for _ in range(MAX_DEPTH):
        found = read_stat(proc, above)
        above = 0 if found is None else found.parent
        if who.get(above) != who[pid]:
            break
    return above


def _rank(folder: str, pid: int, rank: object, environ: bytes) -> "dict[str, Any]":
    maps = read_bytes(os.path.join(folder, "maps"), MAX_MAPS) or b""
    packages = _TORCH_FILE.search(maps)
    site = packages.group(1).decode("utf-8", "replace") if packages else None
    root = os.path.join(folder, "root")  # the files as the process sees them, in a container too
    facts: dict[str, Any] = {
        "pid": pid,
        "rank": rank,
        "parent": _parent(folder),
        "python": read_link(os.path.join(folder, "exe")),
        "torch": _package(root, site, "torch"),
        "nccl": _nccl(root, maps) or _package(root, site, "nvidia_nccl_cu"),
        "variables": settings(environ),
    }
    limits = read_text(os.path.join(folder, "limits"), 8192) or ""
    facts["memlock_bytes"], facts["nofile"] = (
        _limit(limits, "Max locked memory"),
        _limit(limits, "Max open files"),
    )
    return {key: value for key, value in facts.items() if value is not None}


def _parent(folder: str) -> "int | None":
    fields = (read_text(os.path.join(folder, "stat"), 2048) or "").rpartition(")")[2].split()
    return int(fields[1]) if len(fields) > 1 and fields[1].isdecimal() else None


def settings(environ: bytes) -> "dict[str, str]":
    """Return the variables that control the communication of ranks, at most `MAX_VARIABLES`.

    Possible secrets are left out.
    """
    found: dict[str, str] = {}
    for entry in environ.split(b"\0"):
        name, equals, value = entry.decode("utf-8", "replace").partition("=")
        wanted = name in _NAMES or name in _KEPT_SLURM or name.startswith(_PREFIXES)
        if len(found) < MAX_VARIABLES and equals and wanted and not _SECRET.search(name):
            found[clean(name, 80)] = clean(value, MAX_VALUE)
    return found


def _package(root: str, site: "str | None", start: str) -> "str | None":
    """Return the version of an installed package, from the name of its dist-info folder; None: absent."""
    if site is None:
        return None
    for name in names(root + site):
        if name.startswith(start) and name.endswith(".dist-info"):
            stem = name[: -len(".dist-info")].partition("-")
            if stem[0] == start or start.endswith("_cu"):
                return clean(stem[2], 60) or None
    return None


def _nccl(root: str, maps: bytes) -> "str | None":
    mapped = _NCCL_FILE.search(maps)
    if mapped is None:
        return None
    path = root + mapped.group(1).decode("utf-8", "replace")
    version = _NCCL_VERSION.search(os.path.basename(read_link(path) or path))
    return version.group(1) if version else None


def _limit(limits: str, name: str) -> "int | None":
    """Return a soft limit from /proc/PID/limits; -1: unlimited; None: no number."""
    for line in limits.split("\n"):
        if line.startswith(name):
            word = line[len(name) :].split()[0]
            return -1 if word == "unlimited" else int(word) if word.isdecimal() else None
    return None


# --------------------------------------------------------------------------- network


def _reached(request: "dict[str, Any]") -> "dict[str, str]":
    found: dict[str, str] = {}
    for target in list(request.get("reach", ()))[:MAX_TARGETS]:
        host, colon, port = str(target).rpartition(":")
        if colon and port.isdecimal():
            found[str(target)] = _connect(host.strip("[]"), int(port))
    return found


def _connect(host: str, port: int) -> str:
    try:
        socket.create_connection((host, port), CONNECT_S).close()
    except socket.timeout:
        return "no answer within {:g} s: a firewall drops it, or the machine is down".format(CONNECT_S)
    except (OSError, UnicodeError) as error:
        return clean(getattr(error, "strerror", None) or str(error), 200)
    return ""


def _listens(request: "dict[str, Any]", proc: str) -> "dict[str, int | None]":
    wanted = [port for port in list(request.get("ports", ()))[:MAX_PORTS] if isinstance(port, int)]
    if not wanted:
        return {}
    inodes: dict[int, str] = {}
    for table in ("net/tcp", "net/tcp6"):
        for line in (read_text(os.path.join(proc, table), 4 << 20) or "").split("\n")[1:]:
            fields = line.split()
            if len(fields) > 9 and fields[3] == "0A":
                inodes[int(fields[1].rpartition(":")[2], 16)] = fields[9]
    return {str(port): _owner(proc, inodes[port]) if port in inodes else None for port in wanted}


def _owner(proc: str, inode: str) -> int:
    """Return the pid of the process that has a socket open; 0 if hidden."""
    wanted = "socket:[{}]".format(inode)
    for pid in pids(proc):
        folder = os.path.join(proc, str(pid), "fd")
        if any(read_link(os.path.join(folder, name)) == wanted for name in names(folder)):
            return pid
    return 0
