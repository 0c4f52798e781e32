"""Selects the address of each node that the probe uses: the network that all of them share. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_interface
from typing import TypeAlias

from msgspec import Struct, field

from gpuwatch.number_text import listed
from gpuwatch.probe.protocol import InventoryNic, NodeInventory

Network: TypeAlias = IPv4Network | IPv6Network

LOOPBACK = "lo"
MAX_NAMED_INTERFACES = 12
"""Maximum number of interfaces named in the error if the wanted one is missing; the most common first."""
INWARD = re.compile(r"docker|br-|veth|cni|virbr|flannel|cali|cilium|lxc|tailscale|podman")
"""Matches the names of interfaces that seldom lead to another node.

They are used only if nothing else is common.
"""


class NoNetworkError(Exception):
    """Raised if the nodes have no network in common; the message states what each has and what to do."""


class NodeAddress(Struct, frozen=True):
    """The address at which a node listens, and the interface for NCCL and gloo."""

    interface: str
    address: str
    speed_bps: float | None = None


class AddressChoice(Struct, frozen=True):
    """The selected address of each node, and a description of them."""

    of: dict[str, NodeAddress]
    words: str
    """A description of the interfaces: `eth0 (10.1.0.0/16)`, `eth0 on 3 nodes, ens5 on 1 (10.1.0.0/16)`."""
    without: dict[str, str] = field(default_factory=dict)
    """Node that cannot take part -> the reason."""
    note: str | None = None

    @property
    def slowest_bps(self) -> float | None:
        """The speed of the slowest interface (bytes/s); None if any is unknown or none is above 0."""
        speeds = [each.speed_bps for each in self.of.values()]
        return None if None in speeds else min((speed for speed in speeds if speed), default=None)


def choose(inventories: Mapping[str, NodeInventory], override: str | None = None) -> AddressChoice:
    """Return the address of each node for the probe.

    It is on the interface `override` if given, on loopback for one machine, else on a common network or,
    routed, on interfaces of the same name. Nodes that have no such address are in `without`.

    Raises:
        NoNetworkError: no two nodes have a network in common, or no node has the interface `override`.
    """
    if override is not None:
        return _by_name(inventories, override)
    if _one_machine(inventories):
        inward = {
            node: nic for node, inventory in inventories.items() if (nic := _loopback(inventory)) is not None
        }
        if len(inward) == len(inventories):
            return AddressChoice(_addresses(inward), _words(inward))
    usable = {node: _usable(inventory) for node, inventory in inventories.items()}
    for inward_too in (False, True):
        shared = _shared(usable, inward_too=inward_too)
        if shared and len(shared[1]) == len(inventories):
            return AddressChoice(_addresses(shared[1]), _words(shared[1], shared[0]))
    named = _same_name(usable)
    if named is not None:
        return AddressChoice(
            _addresses(named),
            _words(named) + ", routed",
            note="the nodes share no subnet: traffic between them is routed; --interface names another one",
        )
    shared = _shared(usable, inward_too=False)
    if shared is None or len(shared[1]) < 2:
        raise NoNetworkError(
            f"the nodes share no subnet ({_inventory(usable)}); name the interface with --interface"
        )
    network, nics = shared
    without = {
        node: f"it has no address in {network}, which the others share; name the interface with --interface"
        for node in inventories
        if node not in nics
    }
    return AddressChoice(_addresses(nics), _words(nics, network), without)


def _by_name(inventories: Mapping[str, NodeInventory], name: str) -> AddressChoice:
    found: dict[str, InventoryNic] = {}
    without = {}
    for node, inventory in inventories.items():
        nics = [nic for nic in inventory.nics if nic.name == name]
        if nics:
            found[node] = min(nics, key=_preference)
        else:
            names = ", ".join(dict.fromkeys(nic.name for nic in inventory.nics)) or "none with an address"
            without[node] = f"it has no interface {name} with an address; there are: {names}"
    if not found:
        named = Counter(
            nic for inventory in inventories.values() for nic in {nic.name for nic in inventory.nics}
        )
        there = (
            ", ".join(each for each, _ in named.most_common(MAX_NAMED_INTERFACES)) or "none with an address"
        )
        raise NoNetworkError(f"no node has an interface {name} with an address; there are: {there}")
    return AddressChoice(_addresses(found), _words(found), without)


def _one_machine(inventories: Mapping[str, NodeInventory]) -> bool:
    """Return True for one node, or several names of one machine (equal host name and addresses)."""
    seen = {
        (inventory.host, tuple(sorted((nic.name, nic.address) for nic in inventory.nics)))
        for inventory in inventories.values()
    }
    return len(seen) == 1


def _loopback(inventory: NodeInventory) -> InventoryNic | None:
    found = [nic for nic in inventory.nics if nic.name == LOOPBACK and nic.up]
    return min(found, key=_preference, default=None)


def _usable(inventory: NodeInventory) -> list[InventoryNic]:
    def fits(nic: InventoryNic) -> bool:
        try:
            address = ip_address(nic.address)
            ip_interface(f"{nic.address}/{nic.prefix}")
        except ValueError:
            return False
        return nic.up and nic.name != LOOPBACK and not (address.is_loopback or address.is_link_local)

    return [nic for nic in inventory.nics if fits(nic)]


def _network(nic: InventoryNic) -> Network:
    return ip_interface(f"{nic.address}/{nic.prefix}").network


def _preference(nic: InventoryNic) -> tuple[bool, float, str]:
    return ":" in nic.address, -(nic.speed_bps or 0.0), nic.name


def _shared(
    usable: Mapping[str, list[InventoryNic]], *, inward_too: bool
) -> tuple[Network, dict[str, InventoryNic]] | None:
    """Return the network with the most nodes and each node's interface in it; of several the fastest.

    None if there is none. A bridge with the same address everywhere is ignored. `inward_too`: include
    interfaces that seldom lead to another node (`INWARD`).
    """
    by_network: dict[Network, dict[str, InventoryNic]] = {}
    for node, nics in usable.items():
        for nic in sorted(nics, key=_preference):
            if inward_too or not INWARD.match(nic.name):
                by_network.setdefault(_network(nic), {}).setdefault(node, nic)
    real = {
        network: nics
        for network, nics in by_network.items()
        if len({nic.address for nic in nics.values()}) == len(nics)
    }
    if not real:
        return None

    def rank(network: Network) -> tuple[int, float, int, str]:
        nics = real[network].values()
        return len(nics), min(nic.speed_bps or 0.0 for nic in nics), -network.version, str(network)

    best = max(real, key=rank)
    return best, {node: real[best][node] for node in usable if node in real[best]}


def _same_name(usable: Mapping[str, list[InventoryNic]]) -> dict[str, InventoryNic] | None:
    """Return node -> its interface, of one name and with another address on each (routed), or None."""
    names = [{nic.name for nic in nics if not INWARD.match(nic.name)} for nics in usable.values()]
    candidates = []
    for name in sorted(set.intersection(*names)) if names else ():
        chosen = {
            node: min((nic for nic in nics if nic.name == name), key=_preference)
            for node, nics in usable.items()
        }
        if len({nic.address for nic in chosen.values()}) == len(chosen):
            candidates.append(chosen)
    return max(candidates, key=lambda nics: min(nic.speed_bps or 0.0 for nic in nics.values()), default=None)


def _addresses(nics: Mapping[str, InventoryNic]) -> dict[str, NodeAddress]:
    return {node: NodeAddress(nic.name, nic.address, nic.speed_bps) for node, nic in nics.items()}


def _words(nics: Mapping[str, InventoryNic], network: Network | None = None) -> str:
    names = Counter(nic.name for nic in nics.values()).most_common()
    subnet = f" ({network})" if network is not None else ""
    if len(names) == 1:
        return names[0][0] + subnet
    (first, count), *rest = names
    return f"{first} on {count} nodes, " + ", ".join(f"{name} on {n}" for name, n in rest) + subnet


def _inventory(usable: Mapping[str, list[InventoryNic]], most: int = 4) -> str:
    each = [
        f"{node}: " + (", ".join(f"{nic.name} {nic.address}/{nic.prefix}" for nic in nics[:3]) or "none")
        for node, nics in usable.items()
    ]
    return listed(each, most, "; ")
