"""JSON files written whole: a reader sees the old text or the new one, never half of it."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MAX_TEXT = 2000
"""Characters of a value that JSON has no form for."""
MAX_DEPTH = 20
"""Of collections in collections: a configuration may hold itself."""
MASK = "***"
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)  # not on Windows
_SECRET_NAME = re.compile(
    r"(?i)(?:^|[_.\-])(?:pass(?:word|wd|phrase)?|pwd|jwt|secret|credentials?|cookie|private[_\-]?key|dsn"
    r"|(?:api|access|secret|account|storage)[_\-]?key"
    r"|(?:hf|hub|api|auth|access|bearer|session|wandb|github)[_\-]?token)"
    r"(?:$|[_.\-])|^(?:token|key|auth|authorization)$"
)
_SECRET_VALUE = re.compile(
    r"\b(?:hf_|sk-|gh[pousr]_|github_pat_|xox[abp]-|AKIA|glpat-)[A-Za-z0-9_\-]{12,}"
    r"|(?<=://)[^/\s:@]{1,200}:[^/\s@]{1,200}(?=@)"
)


def write_text_whole(path: Path, text: str) -> None:
    """Replace a file; mode 0600.

    Raises:
        OSError: it cannot be written; what was there stays.
    """
    name = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident():x}")
    number = os.open(str(name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _NO_FOLLOW, 0o600)
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
    """Replace a JSON file; see `jsonable` and `write_text_whole`."""
    write_text_whole(path, json.dumps(jsonable(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def jsonable(value: Any, depth: int = 0) -> Any:
    """The value in JSON's types: NaN and Inf as "nan", "inf" and "-inf", a tensor of one number as it."""
    if value is None or isinstance(value, (bool, str, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if depth < MAX_DEPTH and isinstance(value, Mapping):
        return {str(key): jsonable(each, depth + 1) for key, each in value.items()}
    if depth < MAX_DEPTH and isinstance(value, (list, tuple, set, frozenset)):
        return [jsonable(each, depth + 1) for each in value]
    number = as_number(value)
    return jsonable(number) if number is not None else str(value)[:MAX_TEXT]


def as_number(value: Any) -> float | None:
    """A number, or the one number of a tensor or array; None of everything else."""
    if isinstance(value, (bool, str, bytes)) or value is None:
        return None
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError):  # torch raises RuntimeError for a tensor of several numbers
        return None


def mask_secrets(value: Any, name: str = "", depth: int = 0) -> Any:
    """The value without secrets: of keys whose names say so, and of texts in the form of a token."""
    if depth > MAX_DEPTH:
        return "..."
    if isinstance(value, Mapping):
        return {str(key): mask_secrets(each, str(key), depth + 1) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [mask_secrets(each, name, depth + 1) for each in value]
    if isinstance(value, str) and value:
        return MASK if _SECRET_NAME.search(name) else _SECRET_VALUE.sub(MASK, value)
    return value


def mask_arguments(arguments: list[str]) -> list[str]:
    """A command line without secrets: `--hf-token X`, `--hf-token=X`, `API_KEY=X`."""
    masked: list[str] = []
    is_secret = False
    for argument in arguments:
        option, equals, value = argument.partition("=")
        name = option.lstrip("-")
        if is_secret:
            masked.append(MASK)
        elif equals:
            masked.append(f"{option}={mask_secrets(value, name)}")
        else:
            masked.append(str(mask_secrets(argument)))
        is_secret = not equals and argument.startswith("-") and bool(_SECRET_NAME.search(name))
    return masked


def as_mapping(value: Any) -> dict[str, Any]:
    """A mapping, or an object with `to_dict` or attributes, as a dict; empty of everything else."""
    if isinstance(value, Mapping):
        return dict(value)
    to_dict = getattr(value, "to_dict", None)
    found = to_dict() if callable(to_dict) else getattr(value, "__dict__", {})
    return dict(found) if isinstance(found, Mapping) else {}
