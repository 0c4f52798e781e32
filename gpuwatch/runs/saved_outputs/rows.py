"""Converts findings of tool readers into rows like those of the scanner, and sets GPU indexes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpuwatch.agent.logs.matching.ruleset import CompiledRule
from gpuwatch.plain import plain
from gpuwatch.runs.model.clues import TOOL_HOST, bus_key
from gpuwatch.runs.model.record import Match, RecoveryLine
from gpuwatch.runs.saved_outputs.sections import Reported, ToolSections

MAX_ROWS = 2000
"""Most rows per file."""
MAX_LINE = 500


def tool_matches(
    sections: ToolSections, rules: Mapping[str, CompiledRule], file: str, arrived: float
) -> list[Match]:
    """Return a match for each finding whose rule exists, of the first `MAX_ROWS` findings.

    `arrived`: the file's time (unix seconds).
    """
    return [
        Match(each.finding.rule, _row(each, rules[each.finding.rule], file, arrived), each.finding.line.text)
        for each in sections.found[:MAX_ROWS]
        if each.finding.rule in rules
    ]


def _row(reported: Reported, rule: CompiledRule, file: str, arrived: float) -> dict[str, Any]:
    found = reported.finding
    lines = [plain(text[:MAX_LINE]) for text in (*found.above, found.line.text)]
    at = arrived if reported.at is None else reported.at
    role = "first" if rule.role == "echo" else rule.role  # a state needs no merging with other lines
    fields = {"tool" if found.by_driver else "told_by": reported.tool, **found.fields}
    if found.host is not None:
        fields["node"] = plain(found.host)
    row = {
        "id": 0, "rule": found.rule, "severity": found.severity, "role": role, "file": file,
        "offset": found.line.offset, "at": at, "last_at": at, "timed": reported.at is not None,
        "backlog": True, "lines": lines, "key": len(lines) - 1, "count": 1,
        "fields": fields,
    }  # fmt: skip
    if "rank" in found.fields:
        row.update(rank=found.fields["rank"], rank_from="field")
    return row if reported.host is None else {**row, "host": plain(reported.host)}


def host_clue(node: str) -> dict[str, Any]:
    """Return a clue for the rank map that assigns the whole file to a node."""
    return {"rule": TOOL_HOST, "host": plain(node), "lines": [], "fields": {}}


def number_gpus(events: Iterable[Match | RecoveryLine], gpus: Mapping[str, int]) -> None:
    """Set the GPU index of kernel lines, which name GPUs by PCI address. `gpus`: address -> index."""
    for event in events if gpus else ():
        fields = event.row["fields"] if isinstance(event, Match) else {}
        address = fields.get("bus_id") or fields.get("pci")
        index = None if address is None else gpus.get(bus_key(str(address)))
        if index is not None:
            fields.setdefault("gpu", index)
