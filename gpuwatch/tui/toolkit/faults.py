"""Counts errors of gpuwatch that the screens survive, and writes them to a file."""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from gpuwatch import __version__
from gpuwatch.own_folders import make_own, state_folder

MAX_WRITTEN = 100
"""Maximum number of different faults that one session writes; all are counted."""


def fault_file() -> Path:
    """Return the path `$XDG_STATE_HOME/gpuwatch/faults.log`, by default below `~/.local/state`."""
    return state_folder() / "faults.log"


class FaultLog:
    """Counts every error, and writes the traceback of each different one, without the values of variables."""

    def __init__(self, file: Path, wall: Callable[[], float] = time.time) -> None:
        self.file = file
        self.count = 0
        self._wall = wall
        self._known: set[tuple[str, str]] = set()

    @property
    def kinds(self) -> int:
        """Number of different errors, by type and line of code."""
        return len(self._known)

    def add(self, where: str, error: Exception) -> str:
        """Count an error and write it if it is new; return the line to show: where it happened, the file."""
        self.count += 1
        frames = traceback.extract_tb(error.__traceback__)
        kind = type(error).__name__, f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
        if kind not in self._known:
            self._known.add(kind)
            if len(self._known) <= MAX_WRITTEN and not self._write(where, error):
                return f"a fault in {where} ({kind[0]}); {self.file} cannot be written"
        return f"a fault in {where}, written to {self.file}"

    def _write(self, where: str, error: Exception) -> bool:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._wall()))
        text = f"{stamp} gpuwatch {__version__}: {where}\n{''.join(traceback.format_exception(error))}\n"
        try:
            make_own(self.file.parent)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
            number = os.open(self.file, flags, 0o600)
            with open(number, "a", encoding="utf-8", errors="backslashreplace") as file:  # noqa: PTH123 - a descriptor
                file.write(text)
        except OSError:
            return False
        return True
