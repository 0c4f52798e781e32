"""Reads a JSON object from a possibly damaged file, with size limits."""

from __future__ import annotations

import json
from typing import Any

from gpuwatch.number_text import limit_text
from gpuwatch.runs.sessions.model.summary import sanitized

MAX_JSON_BYTES = 64 << 20


def decoded_object(raw: bytes, name: str, problems: list[str]) -> dict[str, Any]:
    """Return the JSON object in `raw`, sanitized; {} and an entry in `problems` if invalid or too large."""
    if len(raw) > MAX_JSON_BYTES:
        problems.append(f"{name}: larger than {limit_text(MAX_JSON_BYTES)}; not read")
        return {}
    try:
        facts = json.loads(raw.decode(errors="replace"))
    except (ValueError, RecursionError) as error:
        place = f" at line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        problems.append(f"{name}: not JSON{place}, cut off or damaged")
        return {}
    if not isinstance(facts, dict):
        problems.append(f"{name}: not a JSON object")
        return {}
    clean: dict[str, Any] = sanitized(facts)
    return clean
