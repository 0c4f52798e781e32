"""Which node runs each rank where several list it: a list is about the processes of its own node alone."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import TypeAlias

from gpuwatch.fleet.nodes.node import Node
from gpuwatch.wire import Process

RankKey: TypeAlias = tuple[str, int]
"""Job and rank."""
Member: TypeAlias = tuple[Node, Process]
Running: TypeAlias = dict[RankKey, dict[str, Member]]
"""Job and rank -> node -> the living process there."""


def living(nodes: Iterable[Node]) -> Running:
    """The living processes with a rank and a job, as the nodes list them."""
    found: Running = defaultdict(dict)
    for node in nodes:
        for process in node.processes:
            if process.rank is not None and process.job is not None and process.state != "Z":
                found[process.job, process.rank][node.name] = node, process
    return found


class ListedRanks:
    """Remembers which ranks two machines listed at a time: afterwards, too, neither speaks for the other.

    Of such a rank the node with more undisputed ranks of the job is believed. Of equal ones all are: none of
    them hides that the process of another one is gone.
    """

    def __init__(self) -> None:
        self._beside: dict[RankKey, set[str]] = {}
        self._undisputed: Counter[tuple[str, str]] = Counter()
        """Job and node -> how many ranks of those that it lists no other node ever listed beside it."""

    def update(self, nodes: Iterable[Node]) -> Running:
        """The nodes that run each rank, of those that list it."""
        listed = living(nodes)
        jobs = {job for job, _ in listed}
        self._beside = {key: names for key, names in self._beside.items() if key[0] in jobs}
        self._undisputed = Counter()
        for key, members in listed.items():
            if len({_machine(node) for node, _ in members.values()}) > 1:
                self._beside.setdefault(key, set()).update(members)
            rivals = self._beside.get(key, set())
            self._undisputed.update((key[0], name) for name in members if name not in rivals)
        found = {
            key: {name: member for name, member in members.items() if self.believes(key, name)}
            for key, members in listed.items()
        }
        return {key: members for key, members in found.items() if members}

    def believes(self, key: RankKey, node: str) -> bool:
        """Whether a node's list decides on a rank."""
        rivals = self._beside.get(key, set())
        most = max((self._undisputed[key[0], name] for name in rivals), default=0)
        return node not in rivals or self._undisputed[key[0], node] == most

    def went_to(self, key: RankKey, gone: str, running: Running) -> bool:
        """Whether a rank runs on a node, or on another one that never listed it beside this node."""
        rivals = self._beside.get(key, set())
        return any(name == gone or not {name, gone} <= rivals for name in running.get(key, ()))


def _machine(node: Node) -> str:
    return (node.hello.boot_id if node.hello is not None else None) or node.name
