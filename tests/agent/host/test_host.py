from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import msgspec
import pytest

from gpuwatch import wire
from gpuwatch.agent.host import disks
from gpuwatch.agent.host.host_reader import HostReader
from gpuwatch.agent.host.machine import describe, nvidia_devices_on_bus
from tests.agent.trees import Clock, wait_until, write

MEMINFO = """MemTotal:       1000 kB
MemFree:         100 kB
MemAvailable:    400 kB
SwapTotal:        50 kB
SwapFree:         20 kB"""


def test_the_real_machine_speaks_the_wire() -> None:
    reader = HostReader()
    reader.read()
    busy_until = time.process_time() + 0.1
    while time.process_time() < busy_until:
        pass
    sample = msgspec.convert(reader.read(), wire.HostSample)
    assert sample.cpu_pct is not None
    assert 0 < sample.cpu_pct <= 100
    assert sample.memory_total_bytes is not None
    assert sample.memory_used_bytes is not None
    assert 0 < sample.memory_used_bytes < sample.memory_total_bytes
    assert sample.load_1m is not None


def test_processor_share_counts_user_and_system_but_not_waiting(tmp_path: Path) -> None:
    write(tmp_path, {"stat": "cpu  100 0 100 1000 50 0 0 0 0 0\ncpu0 1 2 3", "meminfo": MEMINFO})
    reader = HostReader(proc=str(tmp_path), sys=str(tmp_path))
    first = reader.read()
    assert "cpu_pct" not in first
    write(tmp_path, {"stat": "cpu  110 5 115 1060 60 0 0 0 0 0"})
    sample = reader.read()
    assert sample["cpu_pct"] == pytest.approx(30.0)
    assert sample["iowait_pct"] == pytest.approx(10.0)


def test_memory_that_could_be_freed_is_not_used(tmp_path: Path) -> None:
    write(tmp_path, {"stat": "cpu  1 0 1 1 0 0 0 0", "meminfo": MEMINFO})
    sample = HostReader(proc=str(tmp_path), sys=str(tmp_path)).read()
    assert sample["memory_used_bytes"] == 600 * 1024
    assert sample["swap_used_bytes"] == 30 * 1024


def test_what_an_old_kernel_does_not_tell_is_absent(tmp_path: Path) -> None:
    write(tmp_path, {"stat": "cpu  1 0 1 1 0 0 0 0", "meminfo": "MemTotal: 1000 kB\nMemFree: 5 kB"})
    sample = HostReader(proc=str(tmp_path), sys=str(tmp_path)).read()
    assert sample["memory_total_bytes"] == 1000 * 1024
    assert not {"memory_used_bytes", "swap_used_bytes", "nics", "ib", "disks"} & set(sample)


def test_without_proc_the_figures_come_from_elsewhere(tmp_path: Path) -> None:
    reader = HostReader(proc=str(tmp_path / "none"))
    reader.read()
    sample = msgspec.convert(reader.read(), wire.HostSample)
    assert sample.memory_total_bytes is not None
    assert sample.load_1m is not None
    assert sample.disks is not None
    assert sample.disks[0].mount == "/"


def test_disks_come_every_thirty_seconds() -> None:
    clock = Clock()
    reader = HostReader(monotonic=clock)
    seen = []
    for _ in range(61):
        seen.append("disks" in reader.read())
        clock.now += 1.0
    assert [second for second, present in enumerate(seen) if present] == [0, 30, 60]


def test_each_real_file_system_once() -> None:
    mounts = """proc /proc proc rw 0 0
/dev/sda1 /var/lib/kubelet/pods/x ext4 rw 0 0
/dev/sda1 / ext4 rw 0 0
/dev/sda1 /etc/hosts ext4 rw 0 0
/dev/loop3 /snap/core/1 squashfs ro 0 0
tmpfs /run tmpfs rw 0 0
overlay /var/lib/docker/overlay2/x/merged overlay rw 0 0
filer:/home /home nfs4 rw 0 0
10.0.0.1@o2ib:/fs /scratch\\040fast lustre rw 0 0
systemd-1 /proc/sys/fs/binfmt_misc autofs rw 0 0
/dev/nvme0n1 /local xfs rw 0 0"""
    assert disks.worth_showing(mounts) == {
        "/": "ext4",
        "/home": "nfs4",
        "/scratch fast": "lustre",
        "/local": "xfs",
    }


def test_a_mount_of_a_user_hides_no_other() -> None:
    """With FUSE a user chooses device and type of a mount."""
    mounts = "/dev/sda1 / ext4 rw 0 0\n"
    mounts += "".join(f"host:{n} /tmp/m{n} fuse.sshfs rw 0 0\n" for n in range(disks.MAX_MOUNTS))
    mounts += "/dev/sdb1 /tmp/x fuse.sshfs rw 0 0\n/dev/sdb1 /tmp fuse rw 0 0\n"
    mounts += "/dev/sdb1 /mnt/scratch xfs rw 0 0\nfiler:/home /home nfs4 rw 0 0"
    found = disks.worth_showing(mounts)
    assert list(found)[:3] == ["/", "/mnt/scratch", "/home"]
    assert "/tmp" not in found


def test_a_dead_share_delays_nobody_and_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"self/mounts": "filer:/dead /dead nfs4 rw 0 0\n/dev/root / ext4 rw 0 0"})
    back, asked, real = threading.Event(), [], disks.usage

    def usage(path: str) -> tuple[int, int]:
        if path == "/dead":
            asked.append(path)
            back.wait(60)
        return real("/")

    monkeypatch.setattr(disks, "usage", usage)
    reader = disks.DiskReader(str(tmp_path))
    for _ in range(3):
        dead, root = reader.read() or []
        assert dead == {"mount": "/dead", "filesystem": "nfs4"}
        assert root["mount"] == "/"
        assert "total_bytes" in root
    assert asked == ["/dead"]
    back.set()
    assert wait_until(lambda: "total_bytes" in (reader.read() or [{}])[0], time.sleep)


def test_a_file_system_in_memory_is_listed_while_it_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = "".join(
        f"{name} {path} tmpfs rw 0 0\n"
        for name, path in (("none", "/srv/small"), ("tmpfs", "/run/lock"), ("shm", "/dev/shm"), ("t", "/tmp"))
    )
    monkeypatch.setattr(disks, "usage", lambda path: (10 if path == "/tmp" else 99, 100))
    assert [each["mount"] for each in disks.full_in_memory(mounts)] == ["/dev/shm", "/srv/small"]


def test_a_mount_point_whose_name_is_no_text(tmp_path: Path) -> None:
    """It has figures, and a name that can be written."""
    place = tmp_path / os.fsdecode(b"disk\xff\x1b[31m")
    place.mkdir()
    (tmp_path / "self").mkdir()
    (tmp_path / "self/mounts").write_bytes(b"/dev/sdx " + os.fsencode(place) + b" ext4 rw 0 0\n")
    (disk,) = disks.DiskReader(str(tmp_path)).read() or []
    assert "total_bytes" in disk
    assert str(disk["mount"]).startswith(str(tmp_path)) and str(disk["mount"]).isprintable()
    str(disk["mount"]).encode()


def test_the_machine_describes_itself() -> None:
    facts = describe()
    assert set(facts) <= set(wire.Hello.__struct_fields__)
    assert {"host", "python", "kernel", "os", "cpu_count", "memory_total_bytes", "boot_id"} <= set(facts)


def test_gpus_on_the_bus_are_those_that_this_driver_should_have(tmp_path: Path) -> None:
    assert nvidia_devices_on_bus(str(tmp_path)) is None
    bus = tmp_path / "bus/pci/devices"
    write(bus, {"0000:01:00.0/vendor": "0x10de", "0000:01:00.0/class": "0x030200"})
    write(bus, {"0000:02:00.0/vendor": "0x10de", "0000:02:00.0/class": "0x030000"})
    write(bus, {"0000:02:00.1/vendor": "0x10de", "0000:02:00.1/class": "0x040300"})  # its sound card
    write(bus, {"0000:03:00.0/vendor": "0x1a03", "0000:03:00.0/class": "0x030000"})  # the BMC's screen
    write(bus, {"0000:04:00.0/vendor": "0x10de", "0000:04:00.0/class": "0x068000"})  # an NVSwitch
    write(bus, {"0000:05:00.0/vendor": "0x10de", "0000:05:00.0/class": "0x030200"})  # given to a guest
    (tmp_path / "drivers/vfio-pci").mkdir(parents=True)
    (bus / "0000:05:00.0/driver").symlink_to(tmp_path / "drivers/vfio-pci")
    assert nvidia_devices_on_bus(str(tmp_path)) == 2
