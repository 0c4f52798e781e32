"""Lists the flight-recorder dumps of a job, and reads them piece by piece.

torch writes PREFIX RANK, where TORCH_FR_DUMP_TEMP_FILE (older: TORCH_NCCL_DEBUG_INFO_TEMP_FILE) names the
prefix (torch's DebugInfoWriter). Only files with such names, owned by the user whose process names the
prefix, are ever listed or read.
"""

import base64
import os
import re
import stat
import time
import zlib

from ..base.background import TimedCalls
from ..base.procfs import clean, read_bytes
from ..base.regular_file import modified_at
from ..base.user_rights import uid_of
from ..processes.process_table import boot_time, read_stat, seen_by, values_of
from ..ranks.rank_environment import identity, variables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

MAX_PROCESSES = 64
MAX_FILES = 4096
"""Most dumps listed over all locations of a node."""
MAX_NAMES = 50000
"""Most names examined in one folder."""
PIPES = b"TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
PREFIXES = (b"TORCH_FR_DUMP_TEMP_FILE", b"TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
USUAL = ("{HOME}/.cache/torch/comm_lib_trace_rank_", "/tmp/nccl_trace_rank_")  # noqa: S108 - torch's own defaults
NAME = re.compile(r"(\d{1,7})(\.json|\.pickle|\.pkl|\.bin|\.pt)?$")
"""The form of a dump's file name after the prefix: the rank, perhaps with an extension."""
START_ERROR_S = 2.0
"""Error of a process's start time in seconds: the kernel gives its boot time in whole seconds."""
MAX_PIECE = 4 << 20
MAX_PACKED = 256 << 10
"""Packed bytes per piece; a reply is limited to 1 MiB, and delays the node's other frames."""
PATIENCE_S = 3.0
LISTING_S = 8.0
"""Seconds for listing; a shared folder with a whole cluster's dumps is slow."""


def dump_files(request: "dict[str, Any]", proc: str = "/proc") -> "dict[str, Any]":
    """Return `wire.DumpPlaces`: dump locations of the given processes, and the dumps since the job began."""
    pids = [pid for pid in request.get("pids", ()) if isinstance(pid, int) and pid > 0][:MAX_PROCESSES]
    reported = TimedCalls(PATIENCE_S).ask({pid: _places_of(proc, pid) for pid in pids})
    unread = [pid for pid in pids if not isinstance(reported.get(pid), dict)]
    found: dict[tuple[str, int], list[int]] = {}
    pipes = []
    for pid in pids:
        facts = reported.get(pid)
        if isinstance(facts, dict):
            pipes += [{"pid": pid, "there": facts["there"]}] if facts["pipe"] else []
            for place in facts["places"]:
                found.setdefault(place, []).append(pid)
    keys = sorted(found, key=str)
    boot = boot_time(proc)
    asked = {n: _listed(proc, keys[n], found[keys[n]], boot) for n in range(len(keys))}
    rows = TimedCalls(LISTING_S).ask(asked)
    left = MAX_FILES
    places = []
    for number, (prefix, _) in enumerate(keys):
        row: dict[str, Any] = {"pids": found[keys[number]], "prefix": clean(prefix, 300)}
        answer = rows.get(number)
        row.update(answer if isinstance(answer, dict) else {"error": "the file system of its folder hangs"})
        row["left_out"] = max(0, len(row.get("files", ())) - left)
        row["files"] = row.get("files", [])[:left]
        left -= len(row["files"])
        places.append(row)
    return {"places": places, "pipes": pipes, "unread": unread}


def dump_piece(request: "dict[str, Any]", proc: str = "/proc") -> "dict[str, Any]":
    """Return `wire.DumpPiece`: bytes of one dump from an offset on, as a separate gzip member.

    Raises:
        OSError: it cannot be read (any more).
        ValueError: the request does not name a dump of this process's user.
    """
    pid, prefix, name = request.get("pid"), request.get("prefix"), request.get("name")
    offset = request.get("offset", 0)
    if not isinstance(pid, int) or not isinstance(offset, int) or offset < 0:
        raise ValueError("reading a dump needs a pid and an offset")
    folder = os.path.join(proc, str(pid))
    own = [each for each, _ in _prefixes(folder) if clean(each, 300) == prefix]
    if not own or not isinstance(name, str) or NAME.match(name) is None:
        raise ValueError("not the name of a dump of this process")
    descriptor = os.open(
        seen_by(folder, own[0]) + name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    )
    try:
        known = os.fstat(descriptor)
        if not stat.S_ISREG(known.st_mode) or known.st_uid != uid_of(pid, proc):
            raise ValueError("not a regular file of the job's user")
        return piece_at(descriptor, offset)
    finally:
        os.close(descriptor)


def piece_at(descriptor: int, offset: int) -> "dict[str, Any]":
    """Return `wire.DumpPiece`: bytes of an open file from an offset on, as a separate gzip member."""
    known = os.fstat(descriptor)
    os.lseek(descriptor, offset, os.SEEK_SET)
    packed, size = _packed(descriptor)
    return {
        "packed": base64.b64encode(packed).decode("ascii"),
        "bytes": size,
        "size_bytes": known.st_size,
        "mtime": round(modified_at(known), 6),
    }


# --------------------------------------------------------------------------- where


def _places_of(proc: str, pid: int) -> "Callable[[], object]":
    def list_files() -> "dict[str, Any]":
        folder = os.path.join(proc, str(pid))
        environ = read_bytes(os.path.join(folder, "environ"), 1 << 20)
        if environ is None:
            raise OSError("its environment cannot be read")
        stem = values_of(environ).get(PIPES)
        rank = identity(variables(environ)).get("rank")
        there = stem is not None and _is_pipe(folder, "{}{}.pipe".format(os.fsdecode(stem), rank))
        root = os.stat(os.path.join(folder, "root"))
        places = [(prefix, hash((root.st_dev, root.st_ino))) for prefix, _ in _prefixes(folder)]
        return {"places": places, "pipe": bool(stem), "there": there}

    return list_files


def _prefixes(folder: str) -> "list[tuple[str, bool]]":
    """Return (dump prefix in a process's own view, True) if the job sets one; else torch's with False.

    Raises:
        OSError: the process has ended, or its environment cannot be read.
    """
    environ = read_bytes(os.path.join(folder, "environ"), 1 << 20)
    if environ is None:
        raise OSError("the process has ended, or its environment cannot be read")
    values = values_of(environ)
    named = [os.fsdecode(values[name]) for name in PREFIXES if values.get(name)]
    if named:
        return [(prefix, True) for prefix in dict.fromkeys(named)]
    home = os.fsdecode(values.get(b"HOME", b"")) or "/tmp"  # noqa: S108 - as torch does
    return [(prefix.replace("{HOME}", home), False) for prefix in USUAL]


def _is_pipe(folder: str, path: str) -> bool:
    try:
        return stat.S_ISFIFO(os.lstat(seen_by(folder, path)).st_mode)
    except OSError:
        return False


# --------------------------------------------------------------------------- which


def _listed(
    proc: str, place: "tuple[str, int]", pids: "list[int]", boot: "float | None"
) -> "Callable[[], object]":
    return lambda: _files(proc, place[0], pids, boot)


def _files(proc: str, prefix: str, pids: "list[int]", boot: "float | None") -> "dict[str, Any]":
    """Return facts about the dumps with one prefix since the first of these processes began.

    Older dumps and those of other users are only counted. If the folder cannot be listed: the error, or {}
    unless the job names the prefix.
    """
    folder = os.path.join(proc, str(pids[0]))
    named = dict(_prefixes(folder)).get(prefix, False)
    parent, stem = os.path.split(seen_by(folder, prefix))
    owner = uid_of(pids[0], proc)
    began = _began(proc, pids, boot)
    files, older, foreign = [], [], 0
    now = time.time()
    try:
        names = os.listdir(parent)[:MAX_NAMES]
    except OSError as error:
        return {"named": named, "error": clean((error.strerror or str(error)).lower(), 200)} if named else {}
    for name in names:
        match = NAME.match(name[len(stem) :]) if name.startswith(stem) else None
        if match is None:
            continue
        try:
            known = os.lstat(os.path.join(parent, name))
        except OSError:
            continue  # gone meanwhile
        if not stat.S_ISREG(known.st_mode) or known.st_uid != owner:
            foreign += 1
        elif began is not None and known.st_mtime < began - START_ERROR_S:
            older.append(known.st_mtime)
        else:
            row = {"name": match.group(0), "rank": int(match.group(1)), "size_bytes": known.st_size}
            row.update(age_s=round(max(0.0, now - modified_at(known)), 3), mtime=round(modified_at(known), 6))
            files.append(row)
    facts = {"named": named, "files": sorted(files, key=lambda row: (row["rank"], row["name"]))}
    if older:
        facts.update(older=len(older), older_age_s=round(now - max(older), 3))
    if foreign:
        facts["foreign"] = foreign
    return facts


def _began(proc: str, pids: "list[int]", boot: "float | None") -> "float | None":
    """Return when the first of these processes was started (unix seconds); None: unknown."""
    stats = [read_stat(proc, pid) for pid in pids]
    ticks = [found.start_ticks for found in stats if found is not None]
    if boot is None or not ticks:
        return None
    return boot + min(ticks) / float(os.sysconf("SC_CLK_TCK"))


def _packed(descriptor: int) -> "tuple[bytes, int]":
    """Return (gzip member with the next bytes of a file, up to a piece's size; number of bytes in it)."""
    stream = zlib.compressobj(6, zlib.DEFLATED, 31)
    pieces = []
    size = done = 0
    while done < MAX_PIECE and size < MAX_PACKED:
        block = os.read(descriptor, 65536)
        if not block:
            break
        pieces.append(stream.compress(block))
        size += len(pieces[-1])
        done += len(block)
    pieces.append(stream.flush())
    return b"".join(pieces), done
