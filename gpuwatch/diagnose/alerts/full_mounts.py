"""Find the file system of a disk-full error, from the mounts that its node reported. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from msgspec import structs

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import of_kinds
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.wire import Disk

FULL_PCT = 99.0
"""Fill level in percent at which a file system is full: large writes fail before the last byte."""
ABOUT_DISKS = of_kinds("disk_full")
PATH = re.compile(r"(?<![\w.])/[\w.@+%-]+(?:/[\w.@+%=-]+)*")
NO_SPACE = re.compile(r"No space left|Errno 28|ENOSPC|(?:disk|file ?system|volume) is full", re.IGNORECASE)
CLOCK_S = 1.0


class DiskReading(NamedTuple):
    """The file systems of a node, and when they were read (unix seconds on our clock; None: unknown)."""

    disks: Sequence[Disk]
    at: float | None


Disks: TypeAlias = Mapping[str, DiskReading]
NONE_READ = DiskReading((), None)


def disks_of(nodes: Iterable[Node], offset_s: float) -> Disks:
    """Return node -> the file systems that it reported; nodes without any are left out.

    `offset_s`: unix seconds minus the fleet's own clock.
    """
    return {
        node.name: DiskReading(node.host.disks, None if node.disks_at is None else node.disks_at + offset_s)
        for node in nodes
        if node.host is not None and node.host.disks
    }


def with_mounts(alerts: Iterable[Alert], disks: Disks) -> list[Alert]:
    """Return the alerts; a disk-full error gets the fields `mount` and `mount_pct` of its file system.

    An alert whose file system cannot be determined stays as it is.
    """
    return [_with_mount(alert, disks) if alert in ABOUT_DISKS else alert for alert in alerts]


def _with_mount(alert: Alert, disks: Disks) -> Alert:
    listed, read_at = disks.get(alert.node or "", NONE_READ)
    line = alert.proof[0].text if alert.proof else ""
    if not listed or "mount" in alert.fields or not NO_SPACE.search(line):
        return alert
    # one that was full before the error may be another job's: the failed write filled its own since
    current = read_at is not None and (not alert.timed or read_at >= alert.first - CLOCK_S)
    disk = _of_path(line, listed) or (_only_full(listed) if current else None)
    if disk is None:
        return alert
    full = percent(disk)
    known = {} if full is None else {"mount_pct": f"{full:.0f}"}
    return structs.replace(alert, fields={**alert.fields, "mount": disk.mount, **known})


def _of_path(line: str, disks: Sequence[Disk]) -> Disk | None:
    """Return the file system of the first path after the words of an error (`No space left`, ...).

    None if it has space left, is `/` or is unknown.
    """
    found = NO_SPACE.search(line)
    paths = PATH.findall(line, found.end()) if found is not None else []
    holding = [disk for disk in disks if paths and _holds(disk.mount, paths[0])]
    disk = max(holding, key=lambda each: len(each.mount), default=None)
    full = None if disk is None else percent(disk)
    return disk if disk is not None and disk.mount != "/" and (full is None or full >= FULL_PCT) else None


def _only_full(disks: Sequence[Disk]) -> Disk | None:
    full = [disk for disk in disks if (percent(disk) or 0.0) >= FULL_PCT]
    return full[0] if len(full) == 1 else None


def _holds(mount: str, path: str) -> bool:
    return mount in ("/", path) or path.startswith(f"{mount}/")


def percent(disk: Disk) -> float | None:
    """Return how full a file system is, in percent; None: unknown."""
    if disk.used_bytes is None or not disk.total_bytes:
        return None
    return 100.0 * disk.used_bytes / disk.total_bytes
