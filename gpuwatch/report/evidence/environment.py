"""The environment of a job: versions, variables, limits and command lines of its ranks, as tables."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from gpuwatch.agent.masking.secret_masking import masked
from gpuwatch.blocks.markdown import markdown
from gpuwatch.blocks.model import Block, Heading, Line, Quote, Table
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
    return markdown(_blocks(facts, ranks), "nothing")


def _blocks(facts: Facts, ranks: Sequence[tuple[str, Facts]]) -> Iterator[Block]:
    yield Heading("Environment of the ranks", 1)
    if not ranks:
        yield Line("No node has answered with the settings of a rank.")
    else:
        yield from _settings("Versions", ("python", "torch", "nccl"), ranks)
        yield from _settings("Limits", ("memlock_bytes", "nofile"), ranks)
        yield from (Heading("Variables", 2), Table(("variable", "value", "ranks"), tuple(_variables(ranks))))
    keys = ("name", "driver", "cuda", "kernel", "os")
    nodes = tuple(tuple(str(node[key] or "-") for key in keys) for node in facts["nodes"])
    yield from (Heading("Nodes", 2), Table(("node", "driver", "CUDA", "kernel", "system"), nodes))
    yield Heading("Commands", 2)
    commands = _groups((each["command"] or "-", each["rank"]) for each in facts["commands"])
    for command, who in list(commands.items())[:MAX_GROUPS]:
        yield Quote(" ".join(command.split()), _ranks(who))


def _settings(title: str, keys: Sequence[str], ranks: Sequence[tuple[str, Facts]]) -> Iterator[Block]:
    groups = _groups((tuple(rank[key] for key in keys), _rank(rank)) for _, rank in ranks)
    rows = tuple(
        (_ranks(who), *("-" if value is None else str(value) for value in values))
        for values, who in list(groups.items())[:MAX_GROUPS]
    )
    yield from (Heading(title, 2), Table(("ranks", *keys), rows))


def _variables(ranks: Sequence[tuple[str, Facts]]) -> Iterator[tuple[str, str, str]]:
    """Yield a row (name, value, ranks) for each value of each variable, the rarest first.

    At most `MAX_GROUPS` values of a variable are listed.
    """
    for name in sorted({name for _, rank in ranks for name in rank["variables"]}):
        values = _groups((str(rank["variables"].get(name, "")), _rank(rank)) for _, rank in ranks)
        for value, who in list(values.items())[:MAX_GROUPS]:
            yield name, value or "not set", _ranks(who)


def _groups(pairs: Iterable[tuple[Any, int]]) -> dict[Any, list[int]]:
    """Return value -> ranks with it, the rarest value first. `pairs`: (value, rank)."""
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
