"""Reads the parts of other ranks and nodes within limits, and waits for them at the end of a session."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from ..base.json_files import open_regular
from .folder import SessionFolder
from .summary import PART_FORMAT

MAX_PARTS, MAX_PART_BYTES = 20_000, 8 << 20
WAIT_FOR_PARTS_S = 5.0
POLL_S = 0.05
MAX_DIGITS = 19


def read_parts(folder: SessionFolder) -> dict[str, dict[str, Any]]:
    """Return file name -> part; at most `MAX_PARTS`, without files that cannot be read or are no parts."""
    found = {}
    for path in sorted(folder.parts.glob("*.json"))[:MAX_PARTS]:
        part = _read(path)
        if part is not None:
            found[path.name] = part
    return found


def wait_for_parts(folder: SessionFolder, count: int, most_s: float = WAIT_FOR_PARTS_S) -> None:
    """Wait up to `most_s` for the final parts of `count` ranks; not at all if no rank writes parts."""
    until = time.monotonic() + most_s
    while count > 0 and time.monotonic() < until:
        parts = read_parts(folder).values()
        if not parts or sum(part.get("final") is True for part in parts) >= count:
            return
        time.sleep(POLL_S)


def _bounded(digits: str) -> int | None:
    """Return the number in a text of digits; None from 19 digits on, which no writer of parts produces."""
    return int(digits) if len(digits) < MAX_DIGITS else None


def _read(path: Path) -> dict[str, Any] | None:
    try:
        with os.fdopen(open_regular(path, os.O_RDONLY), "rb") as file:
            part = json.loads(file.read(MAX_PART_BYTES), parse_int=_bounded)
    except (OSError, ValueError, RecursionError):
        return None
    return part if isinstance(part, dict) and part.get("format") == PART_FORMAT else None
