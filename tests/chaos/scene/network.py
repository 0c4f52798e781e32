"""A network of the cockpit's own, with a bridge, and on it a namespace for each node.

Everything is in namespaces of the process that plays a fault, and ends with it.
"""

from __future__ import annotations

from tests.netlab.lab import run

BRIDGE, COCKPIT = "br0", "10.99.0.1"
PREFIX = 24


class Network:
    """Nodes by name, each with an `eth0` on the bridge."""

    def __init__(self) -> None:
        self.addresses: dict[str, str] = {}
        run("ip", "link", "add", BRIDGE, "type", "bridge")
        run("ip", "address", "add", f"{COCKPIT}/{PREFIX}", "dev", BRIDGE)
        run("ip", "link", "set", BRIDGE, "up")

    def join(self, name: str) -> tuple[str, str]:
        """A new namespace of this name, and its address."""
        port = f"p-{name}"
        self.addresses[name] = address = f"10.99.0.{10 + len(self.addresses)}"
        run("ip", "netns", "add", name)
        run("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "link", "set", port, "master", BRIDGE, "up")
        self._up(name)
        return name, address

    def _up(self, name: str) -> None:
        run("ip", "-n", name, "address", "add", f"{self.addresses[name]}/{PREFIX}", "dev", "eth0")
        run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "-n", name, "link", "set", "eth0", "up")

    def drop(self, name: str) -> None:
        """All packets from and to a node disappear without an answer."""
        for chain in ("INPUT", "OUTPUT"):
            run("ip", "netns", "exec", name, "iptables", "-I", chain, "-j", "DROP")

    def accept(self, name: str) -> None:
        """Undo `drop`."""
        run("ip", "netns", "exec", name, "iptables", "-F")

    def unplug(self, name: str) -> None:
        """The node's cable is out."""
        run("ip", "link", "set", f"p-{name}", "down")

    def plug(self, name: str) -> None:
        """Undo `unplug`."""
        run("ip", "link", "set", f"p-{name}", "up")

    def forget_orphans(self, name: str) -> None:
        """The node gives up soon what it still has to send on connections that no process has."""
        run("ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv4.tcp_orphan_retries=1")

    def move(self, name: str, address: str) -> None:
        """The node has another address from now on, and no longer the one it had."""
        run("ip", "-n", name, "address", "flush", "dev", "eth0")
        self.addresses[name] = address
        self._up(name)
