"""JSON files written atomically: a reader sees the old text or the new one, never half of it."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import stat
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MAX_INTEGER = 10**300
"""Largest integer written as a number; larger ones exceed a float, and above 4,300 digits have no text."""
MAX_AMOUNT = 1e18
MAX_TEXT = 2000
"""Maximum length of the text of a value that JSON has no type for."""
MAX_DEPTH = 20
"""Maximum depth of nested collections: a configuration may contain itself."""
_NO_FOLLOW, _NO_WAIT = getattr(os, "O_NOFOLLOW", 0), getattr(os, "O_NONBLOCK", 0)  # not on Windows


def open_regular(path: str | os.PathLike[str], flags: int, mode: int = 0o600) -> int:
    """Open a regular file that is no link, without blocking on a FIFO or device; return its descriptor.

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """
    number = os.open(path, flags | _NO_FOLLOW | _NO_WAIT | getattr(os, "O_CLOEXEC", 0), mode)
    if stat.S_ISREG(os.fstat(number).st_mode):
        return number
    os.close(number)
    raise OSError(errno.EINVAL, "not a regular file", str(path))


def write_text_whole(path: Path, text: str) -> None:
    """Replace a file atomically; mode 0600.

    Raises:
        OSError: it cannot be written; what was there stays.
    """
    name = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident():x}")
    with contextlib.suppress(OSError):
        name.unlink()
    number = open_regular(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        with os.fdopen(number, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        name.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            name.unlink()
        raise


def write_json(path: Path, value: Any) -> None:
    """Replace a JSON file atomically; values are converted by `jsonable`.

    Raises:
        OSError: it cannot be written; what was there stays.
    """
    write_text_whole(path, json.dumps(jsonable(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def jsonable(value: Any, depth: int = 0) -> Any:
    """Return a value converted to JSON's types.

    NaN and Inf become "nan", "inf" and "-inf", as do integers beyond `MAX_INTEGER`; a tensor of one number
    becomes the number; other objects, and collections below `MAX_DEPTH`, become text.
    """
    if isinstance(value, int) and not -MAX_INTEGER <= value <= MAX_INTEGER:
        return "inf" if value > 0 else "-inf"
    if value is None or isinstance(value, (bool, str, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if depth < MAX_DEPTH and isinstance(value, Mapping):
        return {str(key): jsonable(each, depth + 1) for key, each in value.items()}
    if depth < MAX_DEPTH and isinstance(value, (list, tuple, set, frozenset)):
        return [jsonable(each, depth + 1) for each in value]
    number = as_number(value)
    return jsonable(number) if number is not None else as_text(value)


def as_text(value: Any) -> str:
    """Return the beginning of `str(value)`; the class name if that raises."""
    try:
        return str(value)[:MAX_TEXT]
    except Exception:
        return f"<{type(value).__name__}>"


def as_number(value: Any) -> float | None:
    """Return a number, or the one number of a tensor or array, as float; None for everything else."""
    if isinstance(value, (bool, str, bytes)) or value is None:
        return None
    try:
        return float(value)
    except (
        TypeError,
        ValueError,
        RuntimeError,
        OverflowError,
    ):  # torch raises RuntimeError for a tensor of several numbers
        return None


def as_whole(value: Any) -> int | None:
    """Return a number, or the one in a tensor, without its fraction; None for others and beyond 64 bits."""
    number = as_number(value)
    return int(value) if number is not None and abs(number) < 2**63 else None


def as_amount(value: Any) -> float | None:
    """Return a number from 0 to 1e18 (samples, bytes or seconds); None for everything else."""
    number = as_number(value)
    return number if number is not None and 0 <= number <= MAX_AMOUNT else None


def as_mapping(value: Any) -> dict[str, Any]:
    """Return a mapping, or an object with `to_dict` or attributes, as a dict; empty for everything else."""
    if isinstance(value, Mapping):
        return dict(value)
    to_dict = getattr(value, "to_dict", None)
    found = to_dict() if callable(to_dict) else getattr(value, "__dict__", {})
    return dict(found) if isinstance(found, Mapping) else {}
