"""Shows the loaded part of a file in the user's pager, in a private file that is deleted afterwards."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

LINES_ABOVE = 10
"""Lines shown above the target line."""


def pager_command(environ: Mapping[str, str]) -> list[str]:
    """Return `$PAGER` as words if it is installed, else `less` or `more`; empty if there is none."""
    try:
        asked = shlex.split(environ.get("PAGER", ""))
    except ValueError:
        asked = []
    if asked and shutil.which(asked[0]):
        return asked
    return next(([name] for name in ("less", "more") if shutil.which(name)), [])


def page(lines: Iterable[str], line: int, command: Sequence[str]) -> int:
    """Show lines in the pager, line number `line` (from 1) near the top; blocks until the user quits it.

    Returns:
        The pager's exit status.

    Raises:
        OSError: The pager cannot be started, or the file not be written.
    """
    handle, name = tempfile.mkstemp(prefix="gpuwatch-", suffix=".log")  # 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
            file.writelines(f"{text}\n" for text in lines)
        at = [f"+{max(1, line - LINES_ABOVE)}"] if Path(command[0]).name in ("less", "more", "most") else []
        return subprocess.run([*command, *at, name], check=False).returncode
    finally:
        Path(name).unlink(missing_ok=True)
