"""The session folder described in `docs/sessions.md`: its id, its files, its creation."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Mapping
from pathlib import Path

from ..base.records import record

DIRECTORY_VARIABLE, RUN_VARIABLE = "GPUWATCH_RUN_DIR", "GPUWATCH_RUN_ID"
"""Variables that `gpuwatch run` sets: the session folder for a script, and the id of the run."""
MAX_SAME_SECOND = 1000
NAME_FORMAT = "training_%Y%m%d_%H%M%S"
SESSION_NAME = re.compile(r"training_[0-9]{8}_[0-9]{6}(?:_[0-9]{1,4})?")
"""Matches the name of a session folder; a number follows if several sessions start in one second."""


@record(frozen=True)
class SessionFolder:
    """The paths of one session's files."""

    path: Path

    @classmethod
    def existing(cls, path: Path) -> SessionFolder:
        """Return the paths in an existing folder.

        Raises:
            NotADirectoryError: it is not a folder.
        """
        if not path.is_dir():
            raise NotADirectoryError(f"{path} is not a session folder")
        return cls(path.resolve())

    @property
    def id(self) -> str:
        """The id of the session, which is the name of its folder."""
        return self.path.name

    def file(self, ending: str) -> Path:
        """Return the path of one of the five files: `training_<id>_<ending>`."""
        return self.path / f"{self.id}_{ending}"

    @property
    def main_log(self) -> Path:
        """The progress log for users."""
        return self.file("main.log")

    @property
    def multigpu_log(self) -> Path:
        """Path of the log of the process group and the communication."""
        return self.file("multigpu.log")

    @property
    def performance_log(self) -> Path:
        """Path of the log of throughput, GPU samples and performance warnings."""
        return self.file("performance.log")

    @property
    def summary_json(self) -> Path:
        """Path of the summary for programs."""
        return self.file("summary.json")

    @property
    def summary_txt(self) -> Path:
        """Path of the summary for users."""
        return self.file("summary.txt")

    @property
    def parts(self) -> Path:
        """The folder of the parts that other ranks and nodes add to the summary; created when used."""
        return self.path / "parts"

    @property
    def ranks(self) -> Path:
        """The folder of one log per rank; created when used."""
        return self.path / "ranks"

    def rank_part(self, rank: int) -> Path:
        """Return the path of a rank's part."""
        return self.parts / f"rank_{rank:04d}.json"

    def node_part(self, node: int) -> Path:
        """Return the path of a node's part; that of node rank 0 is the summary itself."""
        return self.parts / f"node_{node:03d}.json" if node else self.summary_json


def create_session_folder(logs: Path, start: float) -> SessionFolder:
    """Create a folder for a new session, mode 0700, with a unique name; return its paths.

    Args:
        logs: The folder of all sessions; created if missing.
        start: Unix seconds; the id contains it in local time.

    Raises:
        OSError: it cannot be made.
    """
    logs.mkdir(parents=True, exist_ok=True)
    name = time.strftime(NAME_FORMAT, time.localtime(start))
    for number in range(1, MAX_SAME_SECOND):
        path = logs / (name if number == 1 else f"{name}_{number}")
        try:
            path.mkdir(mode=0o700)
        except FileExistsError:
            continue
        return SessionFolder(path.resolve())
    raise FileExistsError(f"{logs / name}: {MAX_SAME_SECOND} sessions started in this second")


def is_own_folder(path: Path) -> bool:
    """Return True if `path` is a folder owned by this user and not a symbolic link."""
    try:
        return stat.S_ISDIR(path.lstat().st_mode) and is_own(path)
    except OSError:
        return False


def is_own(path: Path) -> bool:
    """Return True if a file, folder or link is owned by this user; links are not followed.

    Other users may write in a shared folder of logs. For root on NFS (root_squash), the owner is compared
    with that of a new temporary file.
    """
    try:
        owner = path.lstat().st_uid
        if owner == getattr(os, "geteuid", lambda: owner)():
            return True
        import tempfile  # noqa: PLC0415 - it loads archives and random numbers, and is rarely used

        with tempfile.TemporaryFile(dir=path.parent) as file:
            return os.fstat(file.fileno()).st_uid == owner
    except OSError:
        return False


def named_folder(env: Mapping[str, str] | None = None) -> SessionFolder | None:
    """Return the folder that `gpuwatch run` created for this run.

    None without `gpuwatch run`, or if the folder no longer exists.
    """
    path = (os.environ if env is None else env).get(DIRECTORY_VARIABLE, "")
    return SessionFolder.existing(Path(path)) if path and Path(path).is_dir() else None
