"""The environment of a job: versions, variables, limits and command lines of its ranks, as tables."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from gpuwatch.agent.masking.secret_masking import masked
from gpuwatch.blocks.markdown import escaped, table
from gpuwatch.diagnose.model.text import ranks_text
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.plain import plain
from gpuwatch.report.once.json_output import INVENTORY, Facts, as_data
from gpuwatch.wire import NodeSettings

MAX_GROUPS = 40
"""Rows per table; the JSON contains all."""


def environment_facts(
    fleet: Fleet, nodes: Sequence[str], settings: Mapping[str, NodeSettings], job: str | None
) -> Facts:
    """Return the properties of each node, and the settings of the ranks on it."""
    return {
        "nodes": [
            {
                "name": name,
                **{key: getattr(fleet.nodes[name].hello, key, None) for key in INVENTORY},
                "settings": None if name not in settings else safe(as_data(settings[name])),
            }
            for name in nodes
        ],
        "commands": [
            {"node": name, "pid": process.pid, "rank": process.rank, "command": safe(process.command)}
            for name in nodes
            for process in fleet.nodes[name].processes
            if process.rank is not None and process.job == job
        ],
    }


def safe(value: Any) -> Any:  # noqa: ANN401  JSON data
    """Return a value of JSON types with every text sanitized and secrets masked."""
    if isinstance(value, str):
        return masked(plain(value))
    if isinstance(value, list):
        return [safe(item) for item in value]
    if isinstance(value, dict):
        return {
            safe(key): masked(plain(f"{key}={item}"))[len(plain(f"{key}=")) :]
            if isinstance(item, str)
            else safe(item)
            for key, item in value.items()
        }
    return value


def environment_text(facts: Facts) -> str:
    """Return the environment as Markdown.

    Ranks with equal settings share a row, so that a different one stands out.
    """
    ranks = [
        (node["name"], rank)
        for node in facts["nodes"]
        if node["settings"] is not None
        for rank in node["settings"]["ranks"]
    ]
    lines = ["# Environment of the ranks", ""]
    if not ranks:
        lines += ["No node has answered with the settings of a rank.", ""]
    lines += _table("Versions", ("python", "torch", "nccl"), ranks)
    lines += _table("Limits", ("memlock_bytes", "nofile"), ranks)
    names = sorted({name for _, rank in ranks for name in rank["variables"]})
    for name in names:
        values = _groups((str(rank["variables"].get(name, "")), _rank(rank)) for _, rank in ranks)
        stated = "; ".join(
            f"{escaped(value) or 'not set'} ({_ranks(who)})" if len(values) > 1 else escaped(value)
            for value, who in list(values.items())[:MAX_GROUPS]
        )
        lines.append(f"- `{name}` = {stated}")
    keys = ("name", "driver", "cuda", "kernel", "os")
    nodes = [[str(node[key] or "-") for key in keys] for node in facts["nodes"]]
    lines += ["", "## Nodes", "", *table(("node", "driver", "CUDA", "kernel", "system"), nodes)]
    lines += ["", "## Commands", ""]
    commands = _groups((each["command"] or "-", each["rank"]) for each in facts["commands"])
    for command, who in list(commands.items())[:MAX_GROUPS]:
        lines += [f"{_ranks(who)}:", "", f"    {' '.join(command.split())}", ""]
    return "\n".join(lines) + "\n"


def _table(title: str, keys: Sequence[str], ranks: Sequence[tuple[str, Facts]]) -> Iterator[str]:
    if not ranks:
        return
    yield from (f"## {title}", "")
    groups = _groups((tuple(rank[key] for key in keys), _rank(rank)) for _, rank in ranks)
    rows = [
        (_ranks(who), *("-" if value is None else str(value) for value in values))
        for values, who in list(groups.items())[:MAX_GROUPS]
    ]
    yield from table(("ranks", *keys), rows)
    yield ""


def _groups(pairs: Iterable[tuple[Any, int]]) -> dict[Any, list[int]]:
    """Return value -> ranks with it, the rarest value first."""
    found: dict[Hashable, list[int]] = {}
    for value, rank in pairs:
        found.setdefault(value, []).append(rank)
    return dict(sorted(found.items(), key=lambda item: len(item[1])))


def _rank(settings: Facts) -> int:
    return -1 if settings["rank"] is None else int(settings["rank"])


def _ranks(ranks: Sequence[int]) -> str:
    return (
        ranks_text([rank for rank in ranks if rank >= 0]) if any(rank >= 0 for rank in ranks) else "no rank"
    )
