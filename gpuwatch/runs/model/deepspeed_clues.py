"""Reads the rank of each local rank from a log of DeepSpeed's launcher, which lists nodes and slots. Pure.

Example: below `WORLD INFO DICT: {'gpu-1': [0, 1], 'gpu-2': [0, 1]}` the process with `--local_rank=1` on
gpu-2 is rank 3. `nnodes=2, num_local_procs=2, node_rank=1` of one node's launcher states the same.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gpuwatch.agent.logs.lines.normalise import messages
from gpuwatch.runs.model.clues import MAPPED, MAPPING, Clue
from gpuwatch.wire import LOCALHOST

LOCAL_PROCESSES = re.compile(r"\bnum_local_procs=(\d{1,3}), node_rank=(\d{1,5})\b")
"""Matches a launcher's number of processes, and the number of its node."""
WORLD_INFO = re.compile(
    r"\bWORLD INFO DICT: (?P<slots>\{.{1,8000}\})|--world_info=(?P<encoded>[\w+/-]{8,20000}={0,2})"
)
"""Matches the list of nodes with their slots, in the order of the ranks; base64 in launcher commands."""
MAX_NODES = 4096


def clues_of_deepspeed(file: str, lines: Iterable[bytes]) -> set[Clue]:
    """Return the ranks of local ranks that the launcher states in a log; empty: none, or two jobs."""
    worlds: set[tuple[tuple[str, int], ...]] = set()
    counted: set[Clue] = set()
    for raw in lines:
        if b"world_info=" in raw or b"WORLD INFO" in raw:
            worlds.update(_worlds(raw))
        elif b"num_local_procs=" in raw:
            counted.update(_of_node(file, raw))
    if len(worlds) == 1:
        return set(_of_world(file, worlds.pop()))
    return set() if worlds else counted


def _worlds(raw: bytes) -> Iterator[tuple[tuple[str, int], ...]]:
    """Yield, for each list in a line, its nodes as (name, number of processes)."""
    for named in WORLD_INFO.finditer(raw.decode("utf-8", "replace")):
        if named["slots"] is not None:
            slots: Mapping[str, Sequence[object]] = {
                host: numbers.split(",") for host, numbers in MAPPED.findall(named["slots"])
            }
        else:
            slots = _decoded(named["encoded"])
        if slots:
            yield tuple((host, len(each)) for host, each in slots.items())[:MAX_NODES]


def _decoded(text: str) -> Mapping[str, Sequence[object]]:
    """Return node -> slots from the base64 of `--world_info`; empty: it is damaged."""
    try:
        found = json.loads(base64.b64decode(text, altchars=b"-_"))
    except (binascii.Error, ValueError, RecursionError):
        return {}
    lists = isinstance(found, dict) and all(isinstance(each, list) for each in found.values())
    return found if lists else {}


def _of_world(file: str, world: Sequence[tuple[str, int]]) -> Iterator[Clue]:
    rank, size = 0, sum(count for _, count in world)
    for host, count in world:
        for local in range(count):
            node = None if host in LOCALHOST else host
            yield Clue(file, MAPPING, node, rank, size, local_rank=local)
            rank += 1


def _of_node(file: str, raw: bytes) -> Iterator[Clue]:
    for text, by in messages(raw)[0]:
        named = LOCAL_PROCESSES.search(text)
        if named is not None:
            count, node = int(named[1]), int(named[2])
            for local in range(count):
                yield Clue(file, MAPPING, by.host, node * count + local, local_rank=local)
