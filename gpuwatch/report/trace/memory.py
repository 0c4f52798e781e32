"""The GPU memory of ranks as text and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TextIO

from msgspec.structs import asdict
from rich.table import Table
from rich.text import Text

from gpuwatch import __version__
from gpuwatch.blocks.model import Line
from gpuwatch.diagnose.traces.memory_verdict import MemoryVerdict, label_of
from gpuwatch.number_text import gigabytes, plural
from gpuwatch.plain import plain, plain_json
from gpuwatch.report.once.json_output import Facts
from gpuwatch.report.output.console import console_on, show
from gpuwatch.runs.memory.memory_files import FoundMemory
from gpuwatch.runs.memory.rank_memory import RankMemory

GB = 1e9
MAX_SHOWN_RANKS = 256
MAX_SHOWN_FLAGS = 4


def memory_json(found: FoundMemory, verdict: MemoryVerdict) -> str:
    """Return the report on GPU memory as JSON text; `docs/json.md` documents every key."""
    facts: Facts = {
        "gpuwatch": __version__,
        "ranks": [memory_facts(each) for each in found.ranks],
        "peak_imbalance": None if verdict.imbalance is None else round(verdict.imbalance, 4),
        "partitions": [
            {**asdict(each), "counts": list(each.counts), "elements": list(each.elements)}
            for each in found.partitions
        ],
        "flags": [{**asdict(flag), "actions": list(flag.actions)} for flag in verdict.flags],
        "skipped": [{"name": each.name, "why": plain(each.why)} for each in found.skipped],
    }
    return plain_json(json.dumps(facts, indent=2, ensure_ascii=False))


def memory_facts(memory: RankMemory) -> Facts:
    """Return the memory of one rank as data; sizes in GB (10**9 bytes)."""
    share = memory.fragmentation
    return {
        "rank": memory.rank,
        "device": memory.device,
        "file": memory.file,
        "source": memory.source,
        "allocated_gb": _gb(memory.allocated),
        "reserved_gb": _gb(memory.reserved),
        "peak_gb": _gb(memory.peak),
        "peak_reserved_gb": _gb(memory.peak_reserved),
        "requested_gb": _gb(memory.requested),
        "unusable_gb": _gb(memory.unusable),
        "largest_free_gb": _gb(memory.largest_free),
        "fragmentation_pct": None if share is None else round(100 * share, 2),
        "out_of_memory": memory.out_of_memory,
        "failed_request_gb": _gb(memory.failed_request),
        "retries": memory.retries,
        "peak_at": memory.peak_at,
        "whole_history": memory.is_whole_history,
        "holders": [
            {"where": each.where, "size_gb": _gb(each.size), "blocks": each.blocks} for each in memory.holders
        ],
        "host_used_gb": _gb(memory.host_used),
        "zero": list(memory.zero),
    }


def print_memory(found: FoundMemory, verdict: MemoryVerdict, out: TextIO) -> None:
    """Write the report on GPU memory; colours depend on the terminal."""
    with console_on(out) as console:
        for line in _flag_lines(verdict):
            show(console, line)
        console.print(memory_table(found.ranks))
        for line in _lines(found, verdict):
            show(console, line)


def memory_table(ranks: Sequence[RankMemory]) -> Table:
    """Return a table of allocated, reserved and peak memory of the first ranks, in GB (10**9 bytes)."""
    table = Table(box=None, pad_edge=False)
    table.add_column("rank", no_wrap=True, overflow="ellipsis", max_width=40)
    for heading in ("allocated GB", "reserved GB", "peak GB", "peak reserved", "fragmented", "largest free"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("source", no_wrap=True)
    for each in ranks[:MAX_SHOWN_RANKS]:
        sizes = (each.allocated, each.reserved, each.peak, each.peak_reserved)
        share = each.fragmentation
        table.add_row(
            Text(plain(label_of(each))),
            *map(_text, sizes),
            "-" if share is None else f"{100 * share:.1f}%",
            _text(each.largest_free),
            each.source,
        )
    return table


def _flag_lines(verdict: MemoryVerdict) -> Iterator[Line]:
    for code in dict.fromkeys(flag.code for flag in verdict.flags):
        alike = [flag for flag in verdict.flags if flag.code == code]
        for flag in alike[:MAX_SHOWN_FLAGS]:
            limit = f" (limit {flag.limit:g})" if flag.limit else ""
            yield Line(plain(flag.text) + limit, "warning", hang=2)
        if len(alike) > MAX_SHOWN_FLAGS:
            yield Line(f"{len(alike) - MAX_SHOWN_FLAGS} more ranks are flagged for the same", "warning")
        for action in alike[0].actions:
            yield Line(f"  - {action}", hang=4)
    yield Line("" if verdict.flags else "no problems detected", "plain" if verdict.flags else "ok")


def _lines(found: FoundMemory, verdict: MemoryVerdict) -> Iterator[Line]:
    """Yield lines with the imbalance, the holders of the highest peak, ZeRO settings, and unread files."""
    if verdict.imbalance is not None:
        yield Line(f"imbalance of the peaks: {100 * verdict.imbalance:.1f} %")
    held = [each for each in found.ranks if each.holders]
    if held:
        highest = max(held, key=lambda each: each.peak or 0)
        at = "" if highest.peak_at is None else f", at {highest.peak_at}"
        yield Line("")
        yield Line(f"What holds the peak of {plain(label_of(highest))} ({_text(highest.peak)} GB{at})")
        for holder in highest.holders:
            blocks = plural(holder.blocks, "block")
            yield Line(plain(f"  {gigabytes(holder.size, 3):>12}  {blocks:>12}  {holder.where}"), hang=27)
        if not highest.is_whole_history:
            yield Line("The recorded history begins later: the peak may have been higher before.", "muted")
    stated = [each for each in found.ranks if each.peak_at is not None and not each.holders]
    for each in stated[:MAX_SHOWN_RANKS]:
        yield Line(plain(f"peak of {label_of(each)}: {each.peak_at}"), "muted")
    if len(found.ranks) > MAX_SHOWN_RANKS:
        yield Line(f"{len(found.ranks) - MAX_SHOWN_RANKS} more ranks: see --json", "muted")
    if found.partitions:
        first, number = found.partitions[0], len({each.rank for each in found.partitions})
        sizes = ", ".join(f"{each:,}" for each in first.elements)
        yield Line(
            f"ZeRO partitions of {plural(number, 'rank')}: {list(first.counts)} by parameter group;"
            f" rank {first.rank} holds the optimizer state of {sizes} parameters",
            hang=6,
        )
    for text in dict.fromkeys(line for each in found.ranks for line in each.zero):
        yield Line(plain(f"ZeRO: {text}"), hang=6)
    for skipped in found.skipped:
        yield Line(plain(f"{skipped.name}: {skipped.why}"), "warning" if skipped.unreadable else "muted")


def _gb(size: int | None) -> float | None:
    return None if size is None else round(size / GB, 4)


def _text(size: int | None) -> str:
    return "-" if size is None else f"{size / GB:,.2f}"
