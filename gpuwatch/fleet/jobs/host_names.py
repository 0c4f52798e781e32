"""Which host name is a node's own: of the names that agents report, those that are no other node's."""

from __future__ import annotations

from collections.abc import Collection

from gpuwatch.fleet.nodes.node import Node


def own_hosts(nodes: Collection[Node]) -> dict[str, str | None]:
    """Node -> the host name that its agent reports; None while it has not, and where it is another node's.

    A name of the plan is that node's. One that several nodes report is the first one's by the plan, unless
    they are one machine (equal boot ids) that the plan names twice.
    """
    planned = {name: node for node in nodes for name in (node.name, node.spec.address) if name}
    reported: dict[str, Node] = {}
    found: dict[str, str | None] = {}
    for node in nodes:
        host = None if node.hello is None else node.hello.host
        first = node if host is None else reported.setdefault(host, node)
        owner = node if host is None else planned.get(host, first)
        found[node.name] = host if _one_machine(owner, node) else None
    return found


def taken_host(node: Node, nodes: Collection[Node]) -> str | None:
    """The node of the plan whose name this one reports as its own; None: it takes nobody's."""
    host = None if node.hello is None else node.hello.host
    if host is None:
        return None
    for other in nodes:
        named = host in (other.name, other.spec.address)
        if other.name != node.name and named and not _one_machine(other, node):
            return other.name
    return None


def _one_machine(one: Node, other: Node) -> bool:
    if one is other:
        return True
    boots = [None if node.hello is None else node.hello.boot_id for node in (one, other)]
    return boots[0] is not None and boots[0] == boots[1]
