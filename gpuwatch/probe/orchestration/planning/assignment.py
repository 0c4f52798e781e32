"""Places the ranks on nodes and GPUs, and selects the backend. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import permutations
from typing import Literal

from msgspec import Struct, field

from gpuwatch.probe.orchestration.planning.choice import AddressChoice
from gpuwatch.probe.orchestration.planning.nearness import device_of, usable_ports
from gpuwatch.probe.probe_request import ProbeRequest
from gpuwatch.probe.protocol import InventoryGpu, NodeInventory
from gpuwatch.probe.results import RankSlot

MAX_CPU_RANKS = 4
CPU_BUILD = "+cpu"
"""The suffix of the version of CPU-only torch wheels."""


class SlotAssignment(Struct, frozen=True):
    """The placed ranks, in the order of the nodes."""

    backend: Literal["nccl", "gloo"]
    slots: tuple[RankSlot, ...]
    notes: tuple[str, ...] = ()
    without: dict[str, str] = field(default_factory=dict)
    """Node that cannot take part -> the reason."""


def backend_of(inventories: Mapping[str, NodeInventory], request: ProbeRequest) -> Literal["nccl", "gloo"]:
    """Return the requested backend, else nccl if every node has GPUs and no CPU-only torch, else gloo."""
    if request.backend is not None:
        return request.backend
    fits = all(
        inventory.gpus and not (inventory.torch or "").endswith(CPU_BUILD)
        for inventory in inventories.values()
    )
    return "nccl" if fits else "gloo"


def assign_slots(
    inventories: Mapping[str, NodeInventory], request: ProbeRequest, choice: AddressChoice
) -> SlotAssignment:
    """Place ranks on GPUs, for gloo on CPUs, up to `ranks_per_node`; return slots and excluded nodes."""
    backend = backend_of(inventories, request)
    notes: list[str] = []
    without: dict[str, str] = {}
    slots: list[RankSlot] = []
    owners: dict[frozenset[str], str] = {}
    disputed = _disputed(inventories) if backend == "nccl" else {}
    for node, inventory in inventories.items():
        if backend == "nccl":
            problem = disputed.get(node) or _gpu_problem(inventory, owners)
            if problem is not None:
                without[node] = problem
                continue
            owners[_uuids(inventory)] = node
        count = _ranks(inventory, request, backend, alone=len(inventories) == 1)
        if request.ranks_per_node is not None and count < request.ranks_per_node:
            notes.append(f"{node} has {count} GPUs: that many ranks run there, not {request.ranks_per_node}")
        for local in range(count):
            gpu = inventory.gpus[local] if backend == "nccl" else None
            slots.append(
                RankSlot(
                    rank=len(slots),
                    node=node,
                    local=local,
                    device="cpu" if gpu is None else gpu.name or "GPU",
                    gpu=None if gpu is None else gpu.index,
                    nic=_nic(inventory, gpu, choice, node),
                )
            )
    if backend == "gloo" and any(inventory.gpus for inventory in inventories.values()):
        notes.append("this runs on CPUs over TCP (gloo), which is not the fabric that training on GPUs uses")
    return SlotAssignment(backend, tuple(slots), tuple(notes), without)


def _uuids(inventory: NodeInventory) -> frozenset[str]:
    return frozenset(gpu.uuid for gpu in inventory.gpus)


def _disputed(inventories: Mapping[str, NodeInventory]) -> dict[str, str]:
    """Return node -> the contradiction, for nodes whose GPUs another machine lists as well.

    Two names of one machine list the same GPUs and the same boot id, which only that machine can see. Among
    other nodes that share GPUs, the one with the most contradictions is left out until none is left; on a tie
    both nodes are, because nothing shows which of them has the GPUs.
    """
    lists = {node: _uuids(inventory) for node, inventory in inventories.items()}
    holders: defaultdict[str, list[str]] = defaultdict(list)
    for node, uuids in lists.items():
        for uuid in uuids:
            holders[uuid].append(node)
    against: defaultdict[str, set[str]] = defaultdict(set)
    for nodes in holders.values():
        for node, other in permutations(nodes, 2) if len(nodes) > 1 else ():
            if lists[node] != lists[other] or not _one_boot(inventories[node], inventories[other]):
                against[node].add(other)
    found: dict[str, str] = {}
    while most := max(map(len, against.values()), default=0):
        for node in [node for node, others in against.items() if len(others) == most]:
            claimants = ", ".join(sorted(against.pop(node))[:4])
            found[node] = (
                f"it and {claimants} report the same GPUs (by UUID), so which of them has the GPUs is unknown"
            )
        for others in against.values():
            others.difference_update(found)
    return found


def _one_boot(one: NodeInventory, other: NodeInventory) -> bool:
    return one.boot_id is not None and one.boot_id == other.boot_id


def _gpu_problem(inventory: NodeInventory, owners: Mapping[frozenset[str], str]) -> str | None:
    if not inventory.gpus:
        return "it has no GPU, and NCCL needs one for every rank"
    if (inventory.torch or "").endswith(CPU_BUILD):
        return f"its torch {inventory.torch} is built without CUDA, and NCCL needs it"
    same = owners.get(_uuids(inventory))
    return None if same is None else f"it lists the same GPUs as {same}: two names of one machine"


def _ranks(inventory: NodeInventory, request: ProbeRequest, backend: str, *, alone: bool) -> int:
    if backend == "nccl":
        return min(len(inventory.gpus), request.ranks_per_node or len(inventory.gpus))
    if request.ranks_per_node is not None:
        return request.ranks_per_node
    if inventory.gpus:
        return len(inventory.gpus)
    least = 2 if alone else 1  # one rank alone would have nobody to talk to
    return max(least, min(inventory.cpus or 1, MAX_CPU_RANKS))


def _nic(inventory: NodeInventory, gpu: InventoryGpu | None, choice: AddressChoice, node: str) -> str | None:
    """Return the device that a rank's traffic uses: an RDMA device of its GPU, else the interface.

    None if several RDMA devices are possible, or the node has no chosen address.
    """
    if gpu is not None and usable_ports(inventory):
        return device_of(inventory, gpu)
    address = choice.of.get(node)
    return None if address is None else address.interface
