"""Which host name is a node's own: of the names that agents report, those that are no other node's."""

from __future__ import annotations

from collections.abc import Mapping

from gpuwatch.fleet.nodes.node import Node


class HostNames:
    """Judges a name again when a hello can have changed whose it is, at a cost that the fleet does not raise.

    A name of the plan is that node's. One that several nodes report is the first one's by the plan, unless
    they are one machine (equal boot ids) that the plan names twice.
    """

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes = nodes
        self._order = {name: place for place, name in enumerate(nodes)}
        self._planned: dict[str, list[str]] = {}
        """Name or address of the plan -> its nodes."""
        for node in nodes.values():
            for name in {node.name, node.spec.address} - {None, ""}:
                self._planned.setdefault(str(name), []).append(node.name)
        self._reporting: dict[str, set[str]] = {}
        """Host name -> the nodes whose agents report it."""

    def take(self, node: Node, before: str | None) -> None:
        """Judge what a hello can have changed. `before`: the host name of the node's hello before."""
        if node.hello is None:
            return
        host = node.hello.host
        if before is not None and before != host:
            others = self._reporting.get(before, set())
            others.discard(node.name)
            if not others:
                self._reporting.pop(before, None)
        self._reporting.setdefault(host, set()).add(node.name)
        for name in {before, host, node.name, node.spec.address} - {None, ""}:
            self._judge(str(name))
        node.taken_host = self._taken(node, host)

    def _judge(self, host: str) -> None:
        """Whose a name is, for all that report it."""
        reporting = [self._nodes[name] for name in self._reporting.get(host, ())]
        nodes = [node for node in reporting if node.hello is not None and node.hello.host == host]
        if not nodes:
            return
        planned = self._planned.get(host)
        owner = self._nodes[planned[-1]] if planned else min(nodes, key=self._place)
        for node in nodes:
            node.own_host = host if _one_machine(owner, node) else None

    def _place(self, node: Node) -> int:
        """Its place in the plan; nodes that came later go last."""
        return self._order.get(node.name, len(self._order))

    def _taken(self, node: Node, host: str) -> str | None:
        """The node of the plan whose name this one reports as its own; None: it takes nobody's."""
        for name in self._planned.get(host, ()):
            if name != node.name and not _one_machine(self._nodes[name], node):
                return name
        return None


def _one_machine(one: Node, other: Node) -> bool:
    if one is other:
        return True
    boots = [None if node.hello is None else node.hello.boot_id for node in (one, other)]
    return boots[0] is not None and boots[0] == boots[1]
