"""Which NIC is whose GPU's: by the buses as servers have them, and by NCCL's settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from gpuwatch.probe.orchestration.planning.assignment import assign_slots
from gpuwatch.probe.orchestration.planning.choice import AddressChoice, NodeAddress
from gpuwatch.probe.orchestration.planning.nearness import device_of
from gpuwatch.probe.probe_request import ProbeRequest
from gpuwatch.probe.protocol import InventoryGpu, InventoryPort, NodeInventory


def behind(switch: int, device: str) -> str:
    """A device behind a PCIe switch with a root complex of its own."""
    return f"pci0000:{switch}0/0000:{switch}0:01.0/0000:{switch}1:00.0/0000:{switch}2:{device}.0/dev-{device}"


def gpu(index: int, path: str | None, numa: int | None = None) -> InventoryGpu:
    return InventoryGpu(index=index, uuid=f"GPU-{index}", pci_path=path, numa=numa)


def port(
    device: str, path: str | None, numa: int | None = None, rate: float = 400.0, **more: str
) -> InventoryPort:
    return InventoryPort(
        device=device, port=1, state=more.get("state", "ACTIVE"), rate_gbps=rate, pci_path=path, numa=numa
    )


def node(
    gpus: Sequence[InventoryGpu], ports: Sequence[InventoryPort], nccl: Mapping[str, str] | None = None
) -> NodeInventory:
    return NodeInventory(
        host="a", pid=1, torch="2.9.1", gpus=list(gpus), ports=list(ports), nccl=dict(nccl or {})
    )


def nics(inventory: NodeInventory) -> list[str | None]:
    return [device_of(inventory, each) for each in inventory.gpus]


def rails(**settings: str) -> NodeInventory:
    """Four GPUs, each with a NIC behind its switch, and a slower one for storage at the second CPU."""
    ports = [port(f"mlx5_{n}", behind(n, "1"), n // 2) for n in range(4)]
    storage = port("mlx5_10", "pci0000:f0/0000:f0:01.0/0000:f1:00.0", 1, rate=100.0)
    return node([gpu(n, behind(n, "0"), n // 2) for n in range(4)], [storage, *ports], settings)


def test_every_gpu_has_the_nic_behind_its_own_switch() -> None:
    assert nics(rails()) == ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"]


def test_two_gpus_behind_one_switch_share_its_nic() -> None:
    gpus = [gpu(n, behind(n // 2, str(2 + n % 2))) for n in range(4)]
    ports = [port(f"mlx5_{n}", behind(n, "1")) for n in range(2)]
    assert nics(node(gpus, ports)) == ["mlx5_0", "mlx5_0", "mlx5_1", "mlx5_1"]


def test_a_nic_at_the_same_cpu_is_nearer_than_one_at_the_other() -> None:
    gpus = [gpu(n, f"pci0000:{n}0/0000:{n}0:01.0/g", n) for n in range(2)]
    ports = [port(f"mlx5_{n}", f"pci0000:8{n}/0000:8{n}:01.0/p", n) for n in range(2)]
    assert nics(node(gpus, ports)) == ["mlx5_0", "mlx5_1"]


@pytest.mark.parametrize(
    "ports",
    [
        [port("mlx5_0", behind(0, "1"), 0), port("mlx5_1", behind(0, "2"), 0)],  # both behind its switch
        [port("mlx5_0", None, 0), port("mlx5_1", None, 0)],  # a kernel that does not say
    ],
)
def test_where_several_are_equally_near_none_is_named(ports: list[InventoryPort]) -> None:
    assert nics(node([gpu(0, behind(0, "0"), 0)], ports)) == [None]


def test_of_equally_near_ports_the_faster_one_is_the_fabric() -> None:
    ports = [port("mlx5_0", behind(0, "1"), rate=100.0), port("mlx5_1", behind(0, "2"))]
    assert nics(node([gpu(0, behind(0, "0"))], ports)) == ["mlx5_1"]


def test_a_port_that_is_down_carries_nothing() -> None:
    ports = [port("mlx5_0", behind(0, "1"), state="DOWN"), port("mlx5_1", behind(1, "1"))]
    assert nics(node([gpu(0, behind(0, "0"))], ports)) == ["mlx5_1"]


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("mlx5_1", ["mlx5_1", "mlx5_1", "mlx5_10", "mlx5_10"]),  # a prefix: mlx5_10 begins so, too
        ("=mlx5_1", ["mlx5_1"] * 4),
        ("=mlx5_0:1,mlx5_2:1", ["mlx5_0", "mlx5_0", "mlx5_2", "mlx5_2"]),
        ("=mlx5_3:2", [None] * 4),
        ("^mlx5_1", ["mlx5_0", "mlx5_0", "mlx5_2", "mlx5_3"]),
        ("^=mlx5_10", ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"]),
    ],
)
def test_what_nccl_is_given_comes_first(setting: str, expected: list[str | None]) -> None:
    assert nics(rails(NCCL_IB_HCA=setting)) == expected


def test_a_topology_file_stands_for_buses_that_a_virtual_machine_does_not_show() -> None:
    assert nics(rails(NCCL_TOPO_FILE="/opt/topo.xml")) == [None] * 4


@pytest.mark.parametrize("settings", [{"NCCL_IB_DISABLE": "1"}, {"NCCL_NET": "Socket"}])
def test_a_job_that_goes_over_sockets_takes_the_interface(settings: dict[str, str]) -> None:
    choice = AddressChoice({"a": NodeAddress("bond0", "10.0.0.1")}, "bond0")
    slots = assign_slots({"a": rails(**settings)}, ProbeRequest(), choice).slots
    assert {slot.nic for slot in slots} == {"bond0"}
    assert [slot.nic for slot in assign_slots({"a": rails()}, ProbeRequest(), choice).slots] == [
        f"mlx5_{n}" for n in range(4)
    ]
