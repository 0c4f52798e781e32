"""Reads the session parts that other ranks and nodes wrote, and joins them with the summary."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuwatch.runs.files.files import reason
from gpuwatch.runs.sessions.folders.json_object import MAX_JSON_BYTES, decoded_object
from gpuwatch.telemetry.session.summary import merge_parts
from gpuwatch.whole_file import read_bounded

MAX_PARTS = 4_096
PART_FORMAT = "gpuwatch-session-part"


def read_parts(folder: Path, problems: list[str]) -> dict[str, dict[str, Any]]:
    """Return file name -> part of the session, at most `MAX_PARTS`; others are noted in `problems`."""
    try:
        with os.scandir(folder / "parts") as entries:
            paths = sorted(Path(each.path) for each in entries if each.name.endswith(".json"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        problems.append(f"parts: {reason(error)}")
        return {}
    if len(paths) > MAX_PARTS:
        problems.append(f"parts: only {MAX_PARTS} of {len(paths)} are read")
    found: dict[str, dict[str, Any]] = {}
    for path in paths[:MAX_PARTS]:
        try:
            facts = decoded_object(read_bounded(path, MAX_JSON_BYTES + 1), f"parts/{path.name}", problems)
        except OSError as error:
            problems.append(f"parts/{path.name}: {error.strerror}")
            continue
        if facts.get("format") == PART_FORMAT:
            found[path.name] = facts
    return found


def joined_facts(facts: Mapping[str, Any], folder: Path, problems: list[str]) -> dict[str, Any]:
    """Return the data of a summary, extended by the data of parts that it does not include."""
    named = facts.get("parts")
    known = {str(name) for name in named} if isinstance(named, list) else set()
    late = {name: part for name, part in read_parts(folder, problems).items() if name not in known}
    if not late:
        return dict(facts)
    merged = merge_parts(facts, list(late.values()))
    merged["parts"] = sorted(known | set(late))
    return merged
