"""Joins what any file states about processes with the ranks that other lines give them. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from gpuwatch.fleet.jobs.places import RankPlace
from gpuwatch.runs.model.clues import MAPPING, POD, Clue
from gpuwatch.runs.placement.joins.gpu_tables import GpuTable, gpu_table
from gpuwatch.runs.placement.joins.process_tables import ancestors, parents_in, ranks_in
from gpuwatch.runs.placement.learned_tags.introductions import WORD, names_of_ranks

MAX_LINES = 3_000
"""Lines in which names are read, of all files."""
MIN_LINES = 12
_PROCESS_TABLE = re.compile(rb"\bP?PID\b|\)-[+-]-|\)\xe2\x94\x80|^PPid:", re.MULTILINE)
_HEADING = re.compile(rb"(?i)[^0-9\n]{0,120}\brank\b[^0-9\n]{0,120}$")
_TAGGED = re.compile(rb"[\[(<{](?:rank|RANK|Rank) ?\d{1,6}[\])>}]:? ")
"""A line of a rank in a usual form."""
_PID = re.compile(r"(?<![0-9])[0-9]{3,10}(?![0-9])")
MIN_PID = 100
MAX_ROWS = 4_096
_ROW = re.compile(
    rb"\s{0,4}(?:[a-z0-9-]{1,63}\s{1,40})?(?P<pod>[a-z0-9][a-z0-9.-]{0,252})\s{1,60}\d{1,3}/\d{1,3}\s.{1,120}?\s"
    rb"(?:(?:\d{1,3}\.){3}\d{1,3}|[0-9a-f:]{3,39}:[0-9a-f]{0,4})\s{1,40}(?P<node>[A-Za-z0-9][\w.-]{0,252})(?:\s|$)"
)
"""A row: perhaps a namespace, the pod, how many containers are ready, and a node behind an address."""


_NODE = re.compile(rb"[A-Za-z0-9][\w.-]{0,252}")


class Joins(Struct, frozen=True):
    """What lines of any file state about processes, names, pods and GPUs, to be joined with known ranks."""

    parents: dict[str, dict[int, int]] = field(default_factory=dict)
    """File -> child -> parent, of processes."""
    names: dict[str, int] = field(default_factory=dict)
    """Name of a pod, container, actor or file -> rank."""
    pods: tuple[Clue, ...] = ()
    """Nodes of pods."""
    gpus: dict[str, GpuTable] = field(default_factory=dict)
    """File -> the GPUs that it lists."""
    processes: dict[int, int] = field(default_factory=dict)
    """Pid -> rank, as process tables list the ranks."""


def joins(samples: Sequence[tuple[str, Sequence[bytes]]]) -> Joins:
    """Return what connects ranks in a job's (file, sample lines).

    These are process parents, names, nodes of pods, and tables of GPUs.
    """
    share = max(MIN_LINES, MAX_LINES // max(1, len(samples)))
    parents: dict[str, dict[int, int]] = {}
    texts: dict[str, list[str]] = {}
    pods: list[Clue] = []
    listed: list[dict[int, int]] = []
    gpus: dict[str, GpuTable] = {}
    for file, lines in samples:
        if _PROCESS_TABLE.search(b"\n".join(lines[:600])) is not None:
            table = [raw[:1000].decode("utf-8", "replace") for raw in lines]
            known = parents_in(table)
            if known:
                parents[file] = known
            listed.append(ranks_in(table))
        texts[file] = [raw[:300].decode("utf-8", "replace") for raw in _about_ranks(lines)[:share]]
        pods += (*nodes_of_pods(file, lines), *node_of_described_pod(file, lines))
        of_gpus = gpu_table(lines)
        if of_gpus is not None:
            gpus[file] = of_gpus
    processes = _one_rank_each(listed)
    names = names_of_ranks(texts, WORD) | {str(pid): rank for pid, rank in processes.items()}
    return Joins(parents, names, tuple(pods), gpus, processes)


def _one_rank_each(listed: Iterable[Mapping[int, int]]) -> dict[int, int]:
    """Return pid -> rank as process tables show it, without the pids that two nodes give different ranks."""
    found: dict[int, set[int]] = defaultdict(set)
    for ranks in listed:
        for pid, rank in ranks.items():
            found[pid].add(rank)
    return {pid: next(iter(ranks)) for pid, ranks in found.items() if len(ranks) == 1}


def _about_ranks(lines: Sequence[bytes]) -> Sequence[bytes]:
    """Return the lines that may state a rank beside a name; all lines of a file with a table of ranks."""
    if any(b"rank" in raw[:300].lower() and _HEADING.match(raw) is not None for raw in lines[:200]):
        return lines
    return [raw for raw in lines if (b"ank" in raw or b"RANK" in raw) and _TAGGED.match(raw) is None]


def children_of(joined: Joins, pids: Mapping[int, Sequence[int]]) -> dict[int, set[int]]:
    """Return rank -> pids of what it started. `pids`: pid -> ranks with it, on any node."""
    found: dict[int, set[int]] = defaultdict(set)
    for parents in joined.parents.values():
        for child in parents:
            if child in pids:
                continue
            above = next((pid for pid in ancestors(child, parents) if pid in pids), None)
            ranks = () if above is None else pids[above]
            if len(ranks) == 1:
                found[ranks[0]].add(child)
    return found


def pids_named(names: Mapping[str, int]) -> dict[int, int]:
    """Return pid -> rank, for the names that are numbers from MIN_PID on."""
    return {int(name): rank for name, rank in names.items() if _PID.fullmatch(name) and int(name) >= MIN_PID}


def nodes_of_pods(file: str, lines: Sequence[bytes]) -> Iterator[Clue]:
    """Yield the node of each pod that a table lists, as a clue with the pod as address."""
    in_table = False
    for raw in lines[:MAX_ROWS]:
        if b"NAME" in raw and b"NODE" in raw and b"STATUS" in raw:
            in_table = True
        elif in_table:
            row = _ROW.match(raw[:600])
            in_table = row is not None or b"<none>" in raw
            if row is not None:
                yield Clue(file, MAPPING, row["node"].decode(), address=POD + row["pod"].decode())


def node_of_described_pod(file: str, lines: Sequence[bytes]) -> Iterator[Clue]:
    """Yield the node of each pod that `kubectl describe pod` describes, as a clue with the pod as address."""
    pod: bytes | None = None
    for raw in lines[:MAX_ROWS]:
        if raw[:5] == b"Name:":
            pod = raw[5:].strip()
        elif raw[:5] == b"Node:" and pod is not None:
            node = raw[5:].strip().partition(b"/")[0]
            if _NODE.fullmatch(node) and _NODE.fullmatch(pod):
                yield Clue(file, MAPPING, node.decode(), address=POD + pod.decode())
            pod = None


def nodes_by_pid(
    ranks: Sequence[RankPlace], files: Iterable[str], rows: Mapping[str, Sequence[Mapping[str, Any]]]
) -> dict[str, str]:
    """Return file -> node for kernel logs of unknown nodes whose findings name pids of one node's ranks."""
    homes: dict[object, set[str]] = defaultdict(set)
    for known in ranks:
        for pid in known.children if known.pid is None else (known.pid, *known.children):
            homes[pid].add(known.node)
    nodes: dict[str, str] = {}
    for file in files:
        pids = [row.get("pid") or (row.get("fields") or {}).get("pid") for row in rows.get(file, ())]
        there = set().union(*(homes[pid] for pid in pids if pid in homes))
        if len(there) == 1 and "" not in there:
            nodes[file] = there.pop()
    return nodes


def addresses_of_gpus(joined: Joins, nodes: Mapping[str, str]) -> dict[tuple[str, str], int]:
    """Return (node, PCI address or UUID) -> GPU index; entries with an empty node are those of all tables.

    Nodes of one job are mostly alike, so the latter serve for nodes without a table. Addresses of which two
    tables differ are left out.
    """
    found: dict[tuple[str, str], set[int]] = defaultdict(set)
    for file, table in joined.gpus.items():
        for name, index in table.addresses.items():
            found[nodes.get(file, ""), name].add(index)
            found["", name].add(index)
    return {key: next(iter(each)) for key, each in found.items() if len(each) == 1}
