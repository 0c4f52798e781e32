"""Decides which node runs each rank if several list it: a node's list is valid for its own processes only."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from typing import TypeAlias

from gpuwatch.fleet.jobs.contradicted_ranks import outweighs
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.wire import Process

RankKey: TypeAlias = tuple[str, int]
"""Job and rank."""
Member: TypeAlias = tuple[Node, Process]
Running: TypeAlias = dict[RankKey, dict[str, Member]]
"""Job and rank -> node -> the living process there."""


def living(nodes: Iterable[Node]) -> Running:
    """Return (job, rank) -> node name -> the node and its living process, as the nodes list them."""
    found: Running = defaultdict(dict)
    for node in nodes:
        for process in node.processes:
            if process.rank is not None and process.job is not None and process.state != "Z":
                found[process.job, process.rank][node.name] = node, process
    return found


class ListedRanks:
    """Stores which ranks two machines listed at the same time; neither may later report for the other.

    For such a rank a node is trusted unless another outweighs it by the number of undisputed ranks of the
    job. Between nodes of about equal weight, neither hides that the other's process is gone.
    """

    def __init__(self) -> None:
        self._beside: dict[RankKey, set[str]] = {}
        self._undisputed: Counter[tuple[str, str]] = Counter()
        """Job and node -> how many of its listed ranks no other node ever listed at the same time."""
        self._disputed: Counter[tuple[str, str]] = Counter()
        """Job and node -> how many of its listed ranks are disputed."""

    def update(self, nodes: Iterable[Node]) -> Running:
        """Store the nodes' current process lists.

        Return (job, rank) -> node name -> node and process, for the nodes that are trusted.
        """
        listed = living(nodes)
        jobs = {job for job, _ in listed}
        self._beside = {key: names for key, names in self._beside.items() if key[0] in jobs}
        self._undisputed, self._disputed = Counter(), Counter()
        for key, members in listed.items():
            if len(members) == 1 and key not in self._beside:
                ((name, (node, _)),) = members.items()
                if key[1] not in node.rivals:  # the usual case: no rank is disputed
                    self._undisputed[key[0], name] += 1
                    continue
            others = {node.rivals.get(key[1]) for node, _ in members.values()} - {None}
            if others or len({_one(node, process) for node, process in members.values()}) > 1:
                self._beside.setdefault(key, set()).update(members, filter(None, others))
            rivals = self._beside.get(key, set())
            self._undisputed.update((key[0], name) for name in members if name not in rivals)
            self._disputed.update((key[0], name) for name in members if name in rivals)
        found = {
            key: {name: member for name, member in members.items() if self.believes(key, name)}
            if key in self._beside
            else members
            for key, members in listed.items()
        }
        return {key: members for key, members in found.items() if members}

    def believes(self, key: RankKey, node: str) -> bool:
        """Return True if a node's list is trusted for a rank."""
        rivals = self._beside.get(key, set())
        most = max((self._undisputed[key[0], name] for name in rivals), default=0)
        own, disputed = self._undisputed[key[0], node], self._disputed[key[0], node]
        return node not in rivals or not outweighs(most, own, max(1, disputed))

    def went_to(self, key: RankKey, gone: str, running: Running) -> bool:
        """Return True if a rank runs on node `gone`, or on one that did not list it together with `gone`."""
        rivals = self._beside.get(key, set())
        return any(name == gone or not {name, gone} <= rivals for name in running.get(key, ()))


def _one(node: Node, process: Process) -> Hashable:
    """Return a key of a process: boot id, pid and start time; the node's name if it has no boot id.

    Two nodes that are the same machine give the same key for the same process.
    """
    boot_id = None if node.hello is None else node.hello.boot_id
    return node.name if boot_id is None else (boot_id, process.pid, process.start)
