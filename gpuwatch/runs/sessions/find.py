"""Which sessions are meant: folders, ids below a folder of logs, or all of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpuwatch.runs.sessions.folders.session_folder import read_session_folder, session_id
from gpuwatch.runs.sessions.model.session import TrainingSession

MAX_DEPTH = 4
"""Folders below the one that is searched."""
MAX_FOLDERS = 20_000


@dataclass
class FoundSessions:
    """The sessions that were read, and the names that lead to none."""

    sessions: list[TrainingSession] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """A sentence each."""


def find_sessions(names: Sequence[str], logs: Path) -> FoundSessions:
    """Read the sessions of paths and ids; without names all below `logs`, the oldest first."""
    found = FoundSessions()
    if not names:
        found.sessions = [session for folder in session_folders(logs) if (session := read_path(folder))]
        found.sessions.sort(key=_begin)
        return found
    known = {path.name: path for path in session_folders(logs)}
    for name in names:
        path = Path(name)
        if not path.exists() and name in known:
            path = known[name]
        if not os.path.lexists(path):
            found.unknown.append(f"{name}: no such folder, and no session of this id below {logs}")
            continue
        one = read_path(path)
        here = [one] if one else [each for folder in session_folders(path) if (each := read_path(folder))]
        here = sorted(here, key=_begin) or read_others(path)
        if not here:
            found.unknown.append(f"{name}: no training session found in it")
        found.sessions += here
    return found


def read_path(path: Path) -> TrainingSession | None:
    """The session of a folder; None where it holds none."""
    session = session_id(path) if path.is_dir() else None
    return read_session_folder(path, session) if session else None


def read_others(path: Path) -> list[TrainingSession]:
    """The sessions of a folder or file that another tool wrote; empty where it holds none."""
    from gpuwatch.runs.sessions.sources.output_folder import read_outputs  # noqa: PLC0415 - loads the rules

    return read_outputs(path)


def session_folders(top: Path) -> Iterator[Path]:
    """Folders at and below `top` that hold the files of a session; links are not followed."""
    looked = 0
    waiting: list[tuple[Path, int]] = [(top, 0)]
    while waiting and looked < MAX_FOLDERS:
        folder, depth = waiting.pop()
        looked += 1
        if session_id(folder):
            yield folder
        elif depth < MAX_DEPTH:
            waiting += [(each, depth + 1) for each in _folders_in(folder)]


def _folders_in(folder: Path) -> Iterable[Path]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return [Path(name) for name in sorted(names, reverse=True)]


def _begin(session: TrainingSession) -> tuple[float, str]:
    return session.summary.start or 0.0, session.name
