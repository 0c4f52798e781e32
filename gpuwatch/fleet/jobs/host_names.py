"""Decides which host names that agents report are valid: a name of another node is rejected."""

from __future__ import annotations

from collections.abc import Mapping

from gpuwatch.fleet.nodes.node import Node


class HostNames:
    """Checks the reported host names; a hello re-checks only the names it can affect.

    A name in the plan belongs to that node. A name that several nodes report belongs to the first one in the
    plan, unless they are one machine (equal boot ids) that the plan lists twice.
    """

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._nodes = nodes
        self._order = {name: place for place, name in enumerate(nodes)}
        self._planned: dict[str, list[str]] = {}
        """Name or address in the plan -> its nodes."""
        for node in nodes.values():
            for name in {node.name, node.spec.address} - {None, ""}:
                self._planned.setdefault(str(name), []).append(node.name)
        self._reporting: dict[str, set[str]] = {}
        """Host name -> the nodes whose agents report it."""

    def take(self, node: Node, before: str | None) -> None:
        """Update `own_host` and `taken_host` of all nodes for the names that a node's hello can affect.

        `before`: the host name in the node's previous hello.
        """
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
        """Set `own_host` of the nodes that own the reported name `host`, clear it on others that report it.

        The name belongs to the node planned with it, else to the first node of the plan that reports it;
        nodes on the same machine have it too.
        """
        reporting = [self._nodes[name] for name in self._reporting.get(host, ())]
        nodes = [node for node in reporting if node.hello is not None and node.hello.host == host]
        if not nodes:
            return
        planned = self._planned.get(host)
        owner = self._nodes[planned[-1]] if planned else min(nodes, key=self._place)
        for node in nodes:
            node.own_host = host if _one_machine(owner, node) else None

    def _place(self, node: Node) -> int:
        """Return the node's position in the plan; nodes added later come last."""
        return self._order.get(node.name, len(self._order))

    def _taken(self, node: Node, host: str) -> str | None:
        """Return the other node of the plan that has the name which this node reports as its own, or None."""
        for name in self._planned.get(host, ()):
            if name != node.name and not _one_machine(self._nodes[name], node):
                return name
        return None


def _one_machine(one: Node, other: Node) -> bool:
    if one is other:
        return True
    boots = [None if node.hello is None else node.hello.boot_id for node in (one, other)]
    return boots[0] is not None and boots[0] == boots[1]
