"""Finds the sessions that arguments name: folders, ids below a log folder, or all below it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpuwatch.plain import plain
from gpuwatch.runs.files.files import Skipped, reason
from gpuwatch.runs.sessions.folders.session_folder import read_session_folder, session_id
from gpuwatch.runs.sessions.model.session import TrainingSession
from gpuwatch.telemetry.base.masks import mask_arguments, mask_secrets

MAX_DEPTH = 4
"""Largest depth of folders that are searched for sessions."""
MAX_FOLDERS = 20_000
MAX_PROBLEMS = 100
"""Most problems that are listed per session; all are counted."""
MAX_PROBLEM_CHARS = 1_000


@dataclass
class FoundSessions:
    """The sessions that were found, and the names and folders that could not be found or read."""

    sessions: list[TrainingSession] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """One sentence each."""
    unreadable: list[Skipped] = field(default_factory=list)
    """Unreadable folders that may contain sessions."""


def find_sessions(names: Sequence[str], logs: Path) -> FoundSessions:
    """Return the sessions of paths and ids, in their order; without names, all below `logs`, oldest first."""
    found = FoundSessions()
    if not names:
        folders = session_folders(logs, found.unreadable)
        found.sessions = [session for folder in folders if (session := read_path(folder))]
        found.sessions.sort(key=_begin)
        return found
    below_logs: list[Skipped] = []
    known = {path.name: path for path in session_folders(logs, below_logs)}
    for name in names:
        path = Path(name)
        if not os.path.exists(path) and name in known:  # noqa: PTH110 - Path raises
            path = known[name]
        try:
            path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            found.unknown.append(f"{name}: no such folder, and no session of this id below {logs}")
            found.unreadable += [each for each in below_logs if each not in found.unreadable]
            continue
        except OSError as error:
            found.unreadable.append(Skipped(name, reason(error), unreadable=True))
            continue
        before = len(found.unreadable)
        here = _sessions_at(path, found.unreadable)
        if not here and len(found.unreadable) == before:
            found.unknown.append(f"{name}: no training session found in it")
        found.sessions += here
    return found


def _sessions_at(path: Path, unreadable: list[Skipped]) -> list[TrainingSession]:
    """Return the session at a path, else the sessions below it, else those that another tool wrote there."""
    one = read_path(path)
    if one:
        return [one]
    before = len(unreadable)
    folders = session_folders(path, unreadable) if path.is_dir() else ()
    here = sorted((each for folder in folders if (each := read_path(folder))), key=_begin)
    is_closed = any(each.name == str(path) for each in unreadable[before:])
    return here if here or is_closed else read_others(path)


def read_path(path: Path) -> TrainingSession | None:
    """Return the session of a folder; None if it is no session folder."""
    session = session_id(path) if path.is_dir() else None
    return inert(read_session_folder(path, session)) if session else None


def read_others(path: Path) -> list[TrainingSession]:
    """Return the sessions of a folder or file that another tool wrote; empty if there are none."""
    from gpuwatch.runs.sessions.sources.output_folder import read_outputs  # noqa: PLC0415 - loads the rules

    return list(map(inert, read_outputs(path)))


def inert(session: TrainingSession) -> TrainingSession:
    """Return the session with name and problems sanitized and shortened, and secrets masked.

    Problems quote file names. Other tools store configurations, commands and environments with secrets.
    """
    summary = session.summary
    summary.configuration = mask_secrets(summary.configuration)
    summary.environment = mask_secrets(summary.environment)
    if summary.command:
        summary.command = mask_arguments(list(summary.command))
    more = len(session.problems) - MAX_PROBLEMS
    session.problems = [plain(text)[:MAX_PROBLEM_CHARS] for text in session.problems[:MAX_PROBLEMS]]
    if more > 0:
        session.problems.append(f"{more:,} more")
    if session.summary.id:
        session.summary.id = plain(session.summary.id)
    return session


def session_folders(top: Path, unreadable: list[Skipped]) -> Iterator[Path]:
    """Yield the session folders at and up to `MAX_DEPTH` below `top`; links are not followed.

    Unreadable folders are added to `unreadable`.
    """
    looked = 0
    waiting: list[tuple[Path, int]] = [(top, 0)]
    while waiting and looked < MAX_FOLDERS:
        folder, depth = waiting.pop()
        looked += 1
        if session_id(folder):
            yield folder
            continue
        folders = _folders_in(folder, unreadable)
        if depth < MAX_DEPTH:
            waiting += [(each, depth + 1) for each in folders]


def _folders_in(folder: Path, unreadable: list[Skipped]) -> Iterable[Path]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
    except OSError as error:
        unreadable.append(Skipped(str(folder), reason(error), unreadable=True))
        return []
    return [Path(name) for name in sorted(names, reverse=True)]


def _begin(session: TrainingSession) -> tuple[float, str]:
    return session.summary.start or 0.0, session.name
