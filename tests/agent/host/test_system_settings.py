"""What an agent reports of its machine's settings, over a tree of files and over this machine."""

from __future__ import annotations

from pathlib import Path

from gpuwatch.agent.host.system_settings import MAX_SETTINGS, system_settings


def write(root: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return str(root)


def test_firmware_options_and_limits_are_read(tmp_path: Path) -> None:
    proc = write(
        tmp_path / "proc",
        {
            "cmdline": "root=/dev/sda iommu=pt rd.secret=hunter2 hugepages=512 quiet",
            "sys/net/ipv4/tcp_rmem": "4096\t131072\t6291456\n",
            "driver/nvidia/params": 'EnableMSI: 1\nRegistryDwords: ""\nOpenRmEnableUnsupportedGpus: 0\n',
        },
    )
    sys = write(
        tmp_path / "sys",
        {
            "kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
            "class/infiniband/mlx5_0/fw_ver": "28.39.3560\n",
            "class/net/eth0/mtu": "9000\n",
            "class/net/eth0/device/vendor": "0x15b3\n",
            "class/net/docker0/mtu": "1500\n",
            "module/nvidia_peermem/version": "580.95.05\n",
        },
    )
    found = system_settings(proc, sys)
    assert found["kernel.options"] == "hugepages=512 iommu=pt"
    assert found["sysctl.net.ipv4.tcp_rmem"] == "4096 131072 6291456"
    assert found["memory.huge_pages"] == "madvise"
    assert found["ib.mlx5_0.firmware"] == "28.39.3560"
    assert found["net.eth0.mtu"] == "9000"
    assert found["module.nvidia_peermem"] == "580.95.05"
    assert found["module.gdrdrv"] == "not loaded"
    assert found["nvidia.EnableMSI"] == "1"
    assert not any("docker0" in name or "Registry" in name for name in found)
    assert "hunter2" not in str(found)


def test_settings_of_a_hostile_or_empty_tree_are_bounded(tmp_path: Path) -> None:
    params = "".join(f"Option{n}: {n}\n" for n in range(1000))
    files = {"driver/nvidia/params": params, "cmdline": "pci=\x1b[31m" + "x" * 5000}
    found = system_settings(write(tmp_path / "proc", files), str(tmp_path / "none"))
    assert len(found) <= MAX_SETTINGS
    assert all(len(value) <= 200 and value.isprintable() for value in found.values())


def test_this_machine_has_settings() -> None:
    assert "sysctl.vm.swappiness" in system_settings()
