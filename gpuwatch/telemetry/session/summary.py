"""The summary of a session: its keys, writing it, and merging the parts of ranks."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..base.json_files import write_json, write_text_whole
from .folder import SessionFolder
from .summary_text import summary_text

FORMAT, PART_FORMAT, VERSION = "gpuwatch-session", "gpuwatch-session-part", 1
SCALARS = (
    "format", "version", "writer", "id", "run_id", "name", "status", "exit_code", "exit_signal", "error",
    "command", "mode", "forced_single_gpu", "world_size", "gpu_count", "node_count", "backend",
    "mixed_precision", "start", "end", "duration_s", "steps", "last_step", "total_steps", "epochs",
    "steps_per_s", "steady_steps_per_s", "samples_per_s", "tokens_per_s", "mfu_step", "mfu_overall",
    "final_loss", "non_finite_loss_step", "best_loss", "final_learning_rate", "final_grad_norm",
)  # fmt: skip
OBJECTS: Mapping[str, tuple[str, ...]] = {
    "model": ("name", "parameters", "trainable_parameters", "dtype", "memory_bytes"),
    "batch": ("global_size", "per_device_size", "gradient_accumulation_steps", "sequence_length"),
    "step_time_s": ("count", "mean", "std_dev", "min", "p50", "p95", "p99", "max"),
    "system": (
        "hostname", "os", "kernel", "cpu_model", "cpu_count", "memory_bytes", "driver", "cuda",
    ),
    "profile": ("step", "computation_ms", "communication_ms", "other_ms"),
    "evaluation": (), "timers": (), "configuration": (), "environment": (), "packages": (),
}  # fmt: skip
"""The objects of a summary -> the keys that are always present in them."""
LISTS: Mapping[str, tuple[str, ...]] = {
    "evaluations": (),
    "gpus": ("node", "index"),
    "communication": ("operation",),
    "ranks": ("rank",),
    "nodes": ("name",),
    "warnings": ("class",),
    "parts": (),
}
"""The lists of a summary -> the keys that identify an entry."""


OF_A_PEER = re.compile(
    r"closed by peer|connection (?:was )?(?:closed|reset|refused|lost)"
    r"|broken pipe|\bgloo\b|nccl|time[d ]?-?out|Dist(?:Backend|Network|Store)Error|ChildFailedError",
    re.IGNORECASE,
)
"""Matches an error that follows from the end of another rank, or of a process that was launched."""
LOSS = ("final_loss", "non_finite_loss_step")
"""Keys of the loss that are always taken from the same rank.

A loss that is NaN is not replaced by another rank's loss.
"""
COMMUNICATION_SUMS = ("count", "bytes_total", "time_total_s")


def empty_summary() -> dict[str, Any]:
    """Return all keys of version 1: unknown scalars are None, lists and open objects empty."""
    summary: dict[str, Any] = dict.fromkeys(SCALARS)
    summary.update({name: dict.fromkeys(keys) for name, keys in OBJECTS.items()})
    summary.update({name: [] for name in LISTS})
    summary.update(format=FORMAT, version=VERSION)
    return summary


def write_summary(folder: SessionFolder, summary: Mapping[str, Any]) -> None:
    """Write the JSON file and, unless the session runs, the text; atomically.

    Raises:
        OSError: a file cannot be written; what was there stays.
    """
    write_json(folder.summary_json, summary)
    if summary.get("status") != "running":
        write_text_whole(folder.summary_txt, summary_text(summary))


def write_part(path: Path, part: Mapping[str, Any]) -> None:
    """Write the part of a rank or node.

    Raises:
        OSError: it cannot be written; what was there stays.
    """
    path.parent.mkdir(mode=0o700, exist_ok=True)
    write_json(path, {"format": PART_FORMAT, "version": VERSION, **part})


def merge_parts(summary: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a summary merged with the parts of ranks and nodes.

    Scalars and objects come from the summary itself, else from the lowest rank, but the error is the first
    that is not about a peer; entries of lists are joined by their identifying keys; communication is summed
    by operation and warnings by class. Objects, lists and entries of a wrong type are left out.
    """
    ordered = sorted((part for part in parts if isinstance(part, Mapping)), key=_rank_of)
    merged = {**empty_summary(), **summary}
    for name in SCALARS[3:]:
        found = [part[name] for part in ordered if part.get(name) is not None]
        if merged[name] is None and found:
            merged[name] = found[0]
    with_loss = [each for each in (summary, *ordered) if any(each.get(name) is not None for name in LOSS)]
    merged.update({name: with_loss[0].get(name) if with_loss else None for name in LOSS})
    merged["error"] = first_error([summary, *ordered])
    for name, keys in OBJECTS.items():
        sources = [source for source in (summary, *ordered) if isinstance(source.get(name), Mapping)]
        merged[name] = dict.fromkeys(keys)
        for source in reversed(sources if keys else [each for each in sources if each[name]][:1]):
            merged[name].update({key: value for key, value in source[name].items() if value is not None})
    for name in ("gpus", "ranks", "nodes"):
        merged[name] = _joined(LISTS[name], _entries(name, summary, *ordered))
    merged["communication"] = sum_communication(_entries("communication", summary, *ordered))
    merged["warnings"] = sum_warnings(_entries("warnings", summary, *ordered))
    if not merged["evaluations"]:
        merged["evaluations"] = [each for part in ordered[:1] for each in _entries("evaluations", part)]
    return merged


def first_error(sources: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the error that ended a run; None if there is none.

    It is the earliest error that is not a consequence of another rank's end, else the earliest.
    """
    found = [source for source in sources if isinstance(source.get("error"), str) and source["error"]]
    return min(found, key=_error_order)["error"] if found else None


def _error_order(source: Mapping[str, Any]) -> tuple[bool, float]:
    end = source.get("end")
    return (
        bool(OF_A_PEER.search(source["error"])),
        float(end) if isinstance(end, (int, float)) else math.inf,
    )


def _rank_of(part: Mapping[str, Any]) -> tuple[bool, int]:
    """Return a sort key for parts: by rank; those of nodes, which have none, come last."""
    rank = part.get("rank")
    return (not isinstance(rank, int), rank if isinstance(rank, int) else _whole(part.get("node_rank")))


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _entries(name: str, *sources: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [
        entry
        for source in sources
        for entry in (source.get(name) if isinstance(source.get(name), list) else ()) or ()
        if isinstance(entry, Mapping)
    ]


def _joined(keys: tuple[str, ...], entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one entry for each identity (`keys`), with each value from the first entry that has it."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for entry in entries:
        kept = found.setdefault(tuple(str(entry.get(key)) for key in keys), {})
        kept.update({key: value for key, value in entry.items() if kept.get(key) is None})
    return sorted(found.values(), key=lambda entry: [_sortable(entry.get(key)) for key in keys])


def _sortable(value: Any) -> tuple[str, float]:
    return ("", float(value)) if isinstance(value, (int, float)) else (str(value), 0.0)


def sum_communication(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one entry per operation: sums, and the means over all; unknown bytes and times are left out.

    `share_of_step_time` is the largest of the entries.
    """
    found: dict[str, dict[str, Any]] = {}
    for entry in entries:
        name = str(entry.get("operation"))
        empty: dict[str, Any] = {"operation": name, **dict.fromkeys(COMMUNICATION_SUMS), "ranks": set()}
        total = found.setdefault(name, empty)
        for key in COMMUNICATION_SUMS:
            if isinstance(entry.get(key), (int, float)):
                total[key] = (total[key] or 0) + entry[key]
        shares = [each.get("share_of_step_time") for each in (total, entry)]
        known = [share for share in shares if isinstance(share, (int, float))]
        total["share_of_step_time"] = max(known) if known else None
        ranks = entry.get("ranks")
        stated = [rank for rank in ranks if isinstance(rank, int)] if isinstance(ranks, list) else []
        total["ranks"].update(stated)
    for total in found.values():
        total["ranks"] = sorted(total["ranks"])
        count, size, seconds = total["count"], total["bytes_total"], total["time_total_s"]
        total["bytes_avg"] = size / count if size is not None and count else None
        total["time_avg_s"] = seconds / count if seconds is not None and count else None
        total["bandwidth_avg_bps"] = size / seconds if size is not None and seconds else None
    return [found[name] for name in sorted(found)]


def sum_warnings(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one entry per class: the sum of the counts, first and last times, the first example."""
    found: dict[str, dict[str, Any]] = {}
    for entry in entries:
        name = str(entry.get("class"))
        if name not in found:
            found[name] = dict(entry)
            continue
        kept = found[name]
        kept["count"] = _whole(kept.get("count")) + _whole(entry.get("count"))
        for key, choose in (("first", min), ("last", max)):
            times = [each for each in (kept.get(key), entry.get(key)) if isinstance(each, (int, float))]
            kept[key] = choose(times) if times else None
    return [found[name] for name in sorted(found)]
