"""Describes a match as a finding: place, time, writer, surrounding lines."""

import re

from ...ranks.rank_environment import is_rank
from ..lines.levels import LEVEL_CHARS, MILD, own_level
from ..lines.programs import KERNEL
from ..lines.splitter import MAX_LINE
from ..lines.timestamps import time_of
from .event_form import has_given_up

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..lines.line_ranks import LineRanks
    from ..lines.prefixes import Speaker
    from .candidate import CandidateLine
    from .chunk import Chunk
    from .ruleset import CompiledRule

MAX_BACK_S = 86400.0
"""Seconds by which a time may be before an earlier one in the file; time zones explain at most this."""
_RAISER = re.compile(r"Traceback \(most recent call last\): \(RANK (\d{1,6})\)")
"""Heading of torch.distributed.checkpoint's traceback of a failed rank, which every rank prints."""
_TABLE = ("exitcode", "error_file", "traceback")
"""Rows of torch's failure table below the one with the rank."""


def described(
    rule: "CompiledRule",
    chunk: "Chunk",
    line: "CandidateLine",
    stated: "tuple[str, Speaker]",
    fields: "dict[str, Any]",
) -> "dict[str, Any]":
    """Return the keys of `wire.Finding` that a match itself determines.

    `stated`: the message and its writer.
    """
    text, by = stated
    arrived, backlog = chunk.arrived, chunk.backlog
    raw = line.text
    kernel = by.program == KERNEL or " kernel: " in raw[:LEVEL_CHARS]  # then its level is a system log's
    level = None if kernel else own_level(text, raw) or by.level
    own = time_of(raw, arrived)
    if text.lstrip().startswith(_TABLE):
        row, when = chunk.failure_table(line.start)
        fields = dict(row, **fields)
        own = time_of(when, arrived) if own is None else own
    bounds: dict[str, Any] = {}
    latest = None if own is None else chunk.later_time(line.start, line.end)
    if own is not None and latest is not None and latest - own > MAX_BACK_S:
        own = None
        bounds = {"bound": "after", "not_before": latest} if backlog else {}
        at = latest if backlog else None
    elif own is None and backlog:
        at, bounds = _bounded(chunk, line)
    else:
        at = own
    shown = chunk.text(line.start, line.end) if line.end - line.start <= MAX_LINE else text
    lines, key = chunk.shown_around(line.start, shown, text, by)
    raiser = _RAISER.search(lines[0]) if key else None
    if raiser is not None:
        fields = dict(fields, rank=int(raiser.group(1)))
    found: dict[str, Any] = {
        "rule": rule.id,
        "severity": severity_of(rule, fields, level, has_given_up(text)),
        "role": rule.role,
        "offset": chunk.offset_of(line.start),
        "at": arrived if at is None else at,
        "timed": own is not None,
        "backlog": backlog,
        "lines": lines,
        "key": key,
        "fields": fields,
    }
    found.update(bounds)
    return found


def _bounded(chunk: "Chunk", line: "CandidateLine") -> "tuple[float | None, dict[str, Any]]":
    """Return (bound of the time of an undated backlog line or None, fields that describe the bound).

    It is not later than the next time below it, and not earlier than the last one above it. Without a nearby
    time it is undated; the time of reading proves nothing.
    """
    below, above = chunk.next_time(line.end), chunk.last_time(line.start)
    if below is not None:
        return below, {} if above is None else {"not_before": above}
    if above is not None:
        return above, {"bound": "after", "not_before": above}
    return None, {"bound": "undated"}


def severity_of(rule: "CompiledRule", fields: "dict[str, Any]", level: "str | None", gave_up: bool) -> str:
    """Return the severity of a match: the rule's; `info` for a line of a low level that reports no end.

    A rule for exact text keeps its own, as does a match with the field `sign`.
    """
    mild = level in MILD and "sign" not in fields
    return "info" if mild and not rule.exact and not gave_up else rule.severity_of(fields)


def _is_global(reading: "LineRanks", by: "Speaker") -> bool:
    """Return True unless the rank in a message is the local rank of its prefix, or only mentioned beside one.

    `[default4]:[Rank 12]` names rank 12.
    """
    return by.local_rank is None or (reading.rank != by.local_rank and not reading.mentioned)


def whose(
    by: "Speaker", fields: "dict[str, Any]", known: "dict[str, Any]", reading: "LineRanks | None" = None
) -> "dict[str, Any]":
    """Return rank, process and host of a finding, by the line's text, its prefix, or the known writer.

    Only facts about the writing process take precedence over the prefix. `known`: the file's writer;
    `reading`: the ranks in the line itself.
    """
    found: dict[str, Any] = {}
    sure = known.get("rank") is not None and known.get("rank_from") == "process"
    if is_rank(fields.get("rank")):
        found.update(rank=fields["rank"], rank_from="field")
    elif reading is not None and reading.phrase and is_rank(reading.rank):
        found.update(rank=reading.rank, rank_from="field")
    elif by.rank is not None and not sure:
        found.update(rank=by.rank, rank_from="line")
    elif reading is not None and is_rank(reading.rank) and not sure and _is_global(reading, by):
        found.update(rank=reading.rank, rank_from="line")
    elif known.get("rank") is not None:
        found.update(rank=known["rank"], rank_from=known.get("rank_from"))
    elif reading is not None and reading.index is not None:
        found.update(index=reading.index, index_of=reading.word)
    local = by.local_rank if by.local_rank is not None or reading is None else reading.local_rank
    local = fields.get("local_rank", local)
    local = local if is_rank(local) else known.get("local_rank")
    pid = by.pid if by.pid is not None else fields.get("pid")
    found.update(local_rank=local, job=known.get("job"), host=by.host)
    found["pid"] = pid if isinstance(pid, int) else None
    return {name: value for name, value in found.items() if value is not None}
