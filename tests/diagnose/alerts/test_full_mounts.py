"""An error about a full disk names the file system, where its node knows which one that is."""

from __future__ import annotations

import pytest

from gpuwatch import wire
from tests.diagnose.incidents.alert_cluster import Cluster

NO_SPACE = "OSError: [Errno 28] No space left on device"
TB = 1 << 40


def disk(mount: str, used: float) -> wire.Disk:
    return wire.Disk(mount=mount, filesystem="ext4", used_bytes=int(used * TB), total_bytes=TB)


@pytest.mark.parametrize(
    ("line", "disks", "mount"),
    [
        (NO_SPACE, [disk("/", 0.4), disk("/scratch", 1.0)], "/scratch"),
        (f"{NO_SPACE}: '/data/ckpt/7.pt'", [disk("/data", 1.0), disk("/scratch", 1.0)], "/data"),
        (f"{NO_SPACE}: '/data/ckpt/7.pt'", [disk("/", 1.0), disk("/data/ckpt", 0.995)], "/data/ckpt"),
        (f"{NO_SPACE}: '/data/ckpt/7.pt'", [disk("/data", 0.3), disk("/", 0.4)], None),  # made room since
        (NO_SPACE, [disk("/data", 1.0), disk("/scratch", 1.0)], None),
        (NO_SPACE, [disk("/", 0.4)], None),
    ],
)
def test_a_full_disk_is_named_by_its_mount(line: str, disks: list[wire.Disk], mount: str | None) -> None:
    cluster = Cluster()
    cluster.report("gpu-001", wire.Sample(t=cluster.t, seq=4, host=wire.HostSample(t=cluster.t, disks=disks)))
    cluster.find("storage.full", 3, lines=[line])
    cluster.step(2)
    alert = next(each for each in cluster.book.alerts.values() if each.code == "storage.full")
    assert alert.fields.get("mount") == mount
    (incident,) = cluster.book.incidents
    assert (incident.rank, incident.node) == (3, "gpu-001")
    assert mount is None or mount in incident.headline


def test_the_mounts_of_another_node_are_not_named() -> None:
    cluster = Cluster()
    host = wire.HostSample(t=cluster.t, disks=[disk("/scratch", 1.0)])
    cluster.report("gpu-002", wire.Sample(t=cluster.t, seq=4, host=host))
    cluster.find("storage.full", 3, lines=[NO_SPACE])
    cluster.step(2)
    (alert,) = (each for each in cluster.book.alerts.values() if each.code == "storage.full")
    assert "mount" not in alert.fields


def test_a_mount_that_was_full_before_the_error_is_not_named_until_the_mounts_are_read_again() -> None:
    """The job writes elsewhere: its own mount is full only since the failed write."""
    cluster = Cluster()
    other, own = disk("/srv/other", 1.0), disk("/srv/own", 0.5)
    before = wire.HostSample(t=cluster.t, disks=[other, own])
    cluster.report("gpu-001", wire.Sample(t=cluster.t, seq=4, host=before))
    cluster.step(20)
    cluster.find("storage.full", 3, lines=[NO_SPACE])
    cluster.step(2)
    (incident,) = cluster.book.incidents
    assert "/srv" not in incident.headline
    after = wire.HostSample(t=cluster.t, disks=[disk("/srv/other", 0.2), disk("/srv/own", 1.0)])
    cluster.report("gpu-001", wire.Sample(t=cluster.t, seq=5, host=after))
    cluster.step(12)
    (incident,) = cluster.book.incidents
    assert "/srv/own" in incident.headline
