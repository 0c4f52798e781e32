"""Where devices sit, read from a /sys as the kernel lays it out."""

from __future__ import annotations

from pathlib import Path

from gpuwatch.probe.launcher.inventory.bus_topology import nccl_settings, of_gpu, of_port

SWITCH = "pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:00.0"


def device(sys: Path, path: str, numa: str) -> Path:
    folder = sys / "devices" / path
    folder.mkdir(parents=True)
    (folder / "numa_node").write_text(f"{numa}\n")
    return folder


def test_gpus_and_ports_are_placed_by_the_links_of_the_kernel(tmp_path: Path) -> None:
    gpu, nic = (device(tmp_path, f"{SWITCH}/0000:{bus}:00.0", "1") for bus in ("1b", "1c"))
    far = device(tmp_path, "pci10000:e0/10000:e0:06.0/10000:e1:00.0", "-1")
    devices, ports = tmp_path / "bus/pci/devices", tmp_path / "class/infiniband/mlx5_0"
    devices.mkdir(parents=True)
    ports.mkdir(parents=True)
    (devices / "0000:1b:00.0").symlink_to(gpu)
    (devices / "10000:e1:00.0").symlink_to(far)
    (ports / "device").symlink_to(nic)
    assert of_gpu("00000000:1B:00.0", str(tmp_path)) == {"pci_path": f"{SWITCH}/0000:1b:00.0", "numa": 1}
    assert of_gpu("00010000:E1:00.0", str(tmp_path)) == {
        "pci_path": "pci10000:e0/10000:e0:06.0/10000:e1:00.0"
    }
    assert of_port("mlx5_0", str(tmp_path)) == {"pci_path": f"{SWITCH}/0000:1c:00.0", "numa": 1}


def test_what_is_not_there_or_no_pci_device_has_no_place(tmp_path: Path) -> None:
    soft = tmp_path / "devices/virtual/net/eth0"
    soft.mkdir(parents=True)
    port = tmp_path / "class/infiniband/rxe0"
    port.mkdir(parents=True)
    (port / "device").symlink_to(soft)
    assert of_port("rxe0", str(tmp_path)) == of_port("none", str(tmp_path)) == {}
    assert of_gpu("00000000:99:00.0", str(tmp_path)) == of_gpu(None) == of_gpu("nonsense") == {}


def test_the_environment_is_over_the_files_of_nccl(tmp_path: Path) -> None:
    system, own = tmp_path / "nccl.conf", tmp_path / "own.conf"
    system.write_text("# cluster\nNCCL_IB_HCA=mlx5_0\nNCCL_DEBUG=WARN\n")
    own.write_text("NCCL_NET = IB\n")
    files = (str(system), str(own), str(tmp_path / "none"))
    assert nccl_settings({}, files) == {"NCCL_IB_HCA": "mlx5_0", "NCCL_NET": "IB"}
    assert nccl_settings({"NCCL_IB_HCA": "=mlx5_1"}, files) == {"NCCL_IB_HCA": "=mlx5_1", "NCCL_NET": "IB"}
