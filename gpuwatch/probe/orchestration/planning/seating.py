"""Which ranks run where, and over which back end. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from gpuwatch.probe.orchestration.planning.choice import AddressChoice
from gpuwatch.probe.orchestration.planning.nearness import device_of, usable_ports
from gpuwatch.probe.probe_request import Wish
from gpuwatch.probe.protocol import Ground, GroundGpu
from gpuwatch.probe.results import Seat

CPU_RANKS_MOST = 4
CPU_BUILD = "+cpu"
"""How the versions of such wheels end."""


@dataclass(frozen=True)
class Seating:
    """Ranks in the order of the nodes."""

    backend: Literal["nccl", "gloo"]
    seats: tuple[Seat, ...]
    notes: tuple[str, ...] = ()
    without: dict[str, str] = field(default_factory=dict)
    """Nodes that cannot take part -> why."""


def backend_of(grounds: Mapping[str, Ground], wish: Wish) -> Literal["nccl", "gloo"]:
    """What was asked for; else nccl where every node has GPUs and a torch that is built for them."""
    if wish.backend is not None:
        return wish.backend
    fits = all(ground.gpus and not (ground.torch or "").endswith(CPU_BUILD) for ground in grounds.values())
    return "nccl" if fits else "gloo"


def seat_ranks(grounds: Mapping[str, Ground], wish: Wish, choice: AddressChoice) -> Seating:
    """Seat a rank on each GPU, or on cores where the back end is gloo."""
    backend = backend_of(grounds, wish)
    notes: list[str] = []
    without: dict[str, str] = {}
    seats: list[Seat] = []
    owners: dict[str, str] = {}
    for node, ground in grounds.items():
        if backend == "nccl":
            problem = _gpu_problem(ground, owners)
            if problem is not None:
                without[node] = problem
                continue
            owners.update({gpu.uuid: node for gpu in ground.gpus})
        count = _ranks(ground, wish, backend, alone=len(grounds) == 1)
        if wish.ranks_per_node is not None and count < wish.ranks_per_node:
            notes.append(f"{node} has {count} GPUs: so many ranks run there, not {wish.ranks_per_node}")
        for local in range(count):
            gpu = ground.gpus[local] if backend == "nccl" else None
            seats.append(
                Seat(
                    rank=len(seats),
                    node=node,
                    local=local,
                    device="cpu" if gpu is None else gpu.name or "GPU",
                    gpu=None if gpu is None else gpu.index,
                    nic=_nic(ground, gpu, choice, node),
                )
            )
    if backend == "gloo" and any(ground.gpus for ground in grounds.values()):
        notes.append("this runs on CPUs over TCP (gloo), which is not the fabric that training on GPUs takes")
    return Seating(backend, tuple(seats), tuple(notes), without)


def _gpu_problem(ground: Ground, owners: Mapping[str, str]) -> str | None:
    if not ground.gpus:
        return "it has no GPU, and NCCL needs one for every rank"
    if (ground.torch or "").endswith(CPU_BUILD):
        return f"its torch {ground.torch} is built without CUDA, and NCCL needs it"
    same = next((owners[gpu.uuid] for gpu in ground.gpus if gpu.uuid in owners), None)
    return None if same is None else f"it has the same GPUs as {same}: two names of one machine"


def _ranks(ground: Ground, wish: Wish, backend: str, *, alone: bool) -> int:
    if backend == "nccl":
        return min(len(ground.gpus), wish.ranks_per_node or len(ground.gpus))
    if wish.ranks_per_node is not None:
        return wish.ranks_per_node
    if ground.gpus:
        return len(ground.gpus)
    least = 2 if alone else 1  # one rank alone would have nobody to talk to
    return max(least, min(ground.cpus or 1, CPU_RANKS_MOST))


def _nic(ground: Ground, gpu: GroundGpu | None, choice: AddressChoice, node: str) -> str | None:
    """What the traffic takes: of a GPU an RDMA device where there are any, else the interface."""
    if gpu is not None and usable_ports(ground):
        return device_of(ground, gpu)
    address = choice.of.get(node)
    return None if address is None else address.interface
