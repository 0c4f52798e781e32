"""The session folder that the nodes of a run share: the first node creates it, no node waits for another.

A symbolic link `.run_<id>_<number>` in the folder of logs names the session folder. Creating a link is atomic
on every node of a shared file system, so exactly one node creates it. A node takes its place in the folder by
creating its summary or part, empty; a place that is taken shows that the folder is that of an earlier run
with the same rendezvous, and the next number is tried.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace

from gpuwatch.cli.run.place import RunPlace
from gpuwatch.runs.files.opening import open_below
from gpuwatch.telemetry.base.json_files import open_regular
from gpuwatch.telemetry.session.folder import (
    SESSION_NAME,
    SessionFolder,
    create_session_folder,
    is_own,
    is_own_folder,
)

SILENT_S = 900.0
"""A run that has written nothing for this many seconds has ended: it renews summary and parts every 30 s."""
MAX_TRIES = 100
ID_CHARS = 16
MAX_SUMMARY_BYTES = 1 << 20
MAX_PARTS_READ = 8
"""Maximum number of parts that are read to decide whether a run has ended; each node has one."""


def open_folder(place: RunPlace, logs: Path, start: float) -> tuple[SessionFolder, RunPlace]:
    """Return the session folder and the node's place in it.

    In a shared run the file of that place exists afterwards, empty; else only the folder is made.

    Args:
        place: A node that has no number yet gets the first free one.
        logs: The folder of all sessions.
        start: Unix seconds.

    Raises:
        OSError: The folder cannot be made.
    """
    if not place.is_shared:
        return create_session_folder(logs, start), place
    number = max(_numbers(place, logs), default=0)
    for _ in range(MAX_TRIES):
        named = _named_folder(_pointer(place, logs, number))
        if named is not None and is_running(named, start):
            part = _take_place(named, place)
            if part is not None:
                return named, replace(place, part=part)
        number += 1
        created = create_session_folder(logs, start)
        try:
            _pointer(place, logs, number).symlink_to(created.id)
        except FileExistsError:  # another node was faster
            created.path.rmdir()
            continue
        except OSError:  # a file system without symbolic links
            return created, replace(place, part=_take_place(created, place) or 0)
        _remove_pointers(place, logs, number - 1)
        part = _take_place(created, place)
        if part is not None:
            return created, replace(place, part=part)
    return create_session_folder(logs, start), place


def _pointer(place: RunPlace, logs: Path, number: int) -> Path:
    return logs / f".run_{place.run_id[:ID_CHARS]}_{number}"


def _numbers(place: RunPlace, logs: Path) -> Iterator[int]:
    """Yield the numbers N of the links `.run_<id>_<N>` in the folder of logs, for this run's id."""
    prefix = f".run_{place.run_id[:ID_CHARS]}_"
    with contextlib.suppress(OSError), os.scandir(logs) as entries:
        for entry in entries:
            digits = entry.name.removeprefix(prefix)
            if digits != entry.name and digits.isdecimal() and len(digits) <= 9 and is_own(Path(entry.path)):
                yield int(digits)


def _remove_pointers(place: RunPlace, logs: Path, below: int) -> None:
    """Remove the pointers of this run's id whose number is less than `below`: those of earlier runs."""
    for number in list(_numbers(place, logs)):
        if number < below:
            with contextlib.suppress(OSError):
                _pointer(place, logs, number).unlink()


def _named_folder(pointer: Path) -> SessionFolder | None:
    """Return the session folder that a pointer of this user names; None if there is none."""
    try:
        name = str(pointer.readlink())
    except OSError:
        return None
    path = pointer.with_name(name) if SESSION_NAME.fullmatch(name) else None
    if path is None or not is_own(pointer) or not is_own_folder(path):
        return None
    return SessionFolder.existing(path)


def _take_place(folder: SessionFolder, place: RunPlace) -> int | None:
    """Create the empty summary or part of this node; return its index.

    None: the place is taken, or the folder of parts is not this user's.

    Raises:
        OSError: The file cannot be created.
    """
    for part in range(place.unnumbered_nodes) if place.unnumbered_nodes else (place.part,):
        path = folder.node_part(part)
        if part:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            if not is_own_folder(path.parent):
                return None
        with contextlib.suppress(FileExistsError):
            os.close(open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
            return part
    return None


def is_running(folder: SessionFolder, now: float) -> bool:
    """Return True if the run has not ended, as its summary, its parts and their age show.

    `now`: unix seconds.
    """
    paths = [folder.summary_json]
    with contextlib.suppress(OSError):
        paths += sorted(folder.parts.glob("node_*.json"))[:MAX_PARTS_READ]
    newest = 0.0
    for path in (folder.path, *paths):
        with contextlib.suppress(OSError):
            newest = max(newest, path.lstat().st_mtime)
    return now - newest < SILENT_S and not any(_has_ended(folder, path) for path in paths)


def _has_ended(folder: SessionFolder, path: Path) -> bool:
    """Return True if a summary or part states an end."""
    try:
        with os.fdopen(open_below(folder.path, str(path.relative_to(folder.path))), "rb") as file:
            facts = json.loads(file.read(MAX_SUMMARY_BYTES))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(facts, dict) and facts.get("status") in {"completed", "failed", "interrupted"}
