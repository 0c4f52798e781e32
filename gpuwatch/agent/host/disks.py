"""Reads the usage of the mounted file systems."""

import os
import re
import time

from ..base.background import Background
from ..base.procfs import clean, read_bytes

MAX_MOUNTS = 32
PATIENCE_S = 0.25
"""Seconds that a reading waits for slow file systems."""

_WITHOUT_DEVICE_NODE = re.compile(
    r"(nfs4?|lustre|beegfs|gpfs|ceph|cifs|smb3|glusterfs|wekafs|pvfs2|panfs|9p|virtiofs|afs|zfs|ocfs2|gfs2|orangefs"
    r"|fuse\.(sshfs|ceph|ceph-fuse|glusterfs|juicefs|s3fs|gcsfuse|goofys|rclone|lustre|mfs|seaweedfs|alluxio.*))$"
)
MAX_MEMORY_MOUNTS = 16
FULL_SHARE = 0.95
"""A file system in memory (tmpfs) is listed from this share on: a node has many, most of them empty."""
_SYSTEMS_OWN = re.compile(r"/(?:proc|sys|run|dev(?!/shm$)|var/lib/kubelet|var/lib/docker)(?:/|$)")
_READ_ONLY_IMAGES = ("squashfs", "iso9660", "udf", "erofs", "cramfs")


class DiskReader(object):
    """Queries file systems, each in its own thread, so that a dead share delays no other.

    One that does not answer is listed without values, and not queried again before it has answered.
    """

    def __init__(self, proc: str = "/proc") -> None:
        self._mounts = os.path.join(proc, "self/mounts")
        self._asked: dict[str, Background] = {}

    def read(self) -> "list[dict[str, object]] | None":
        """Return one dict per file system to show, with the keys of `wire.Disk`; None: no table of mounts.

        Shown are those of `worth_showing`, and nearly full ones in memory.
        """
        table = read_bytes(self._mounts, 1 << 20)
        if table is None:
            return None
        mounts = worth_showing(os.fsdecode(table))
        self._asked = {path: asked for path, asked in self._asked.items() if path in mounts}
        fresh = [self._begin(path) for path in mounts]
        deadline = time.monotonic() + PATIENCE_S
        for asked in fresh:
            if asked is not None:
                asked.wait(deadline)
        disks = [self._disk(path, kind) for path, kind in mounts.items()]
        return disks + full_in_memory(os.fsdecode(table))

    def _begin(self, path: str) -> "Background | None":
        if path not in self._asked:
            self._asked[path] = Background(lambda: usage(path), "disk " + path)
        asked = self._asked[path]
        return asked if asked.start() else None

    def _disk(self, path: str, kind: str) -> "dict[str, object]":
        name = os.fsencode(path).decode("utf-8", "replace")
        disk: dict[str, object] = {"mount": clean(name, 255), "filesystem": clean(kind, 64)}
        answer = self._asked[path].answer()
        if isinstance(answer, tuple):
            disk["used_bytes"], disk["total_bytes"] = answer
        return disk


def usage(path: str) -> "tuple[int, int]":
    """Return (used bytes, used bytes plus those available to ordinary users): 100 % as in `df`.

    Raises:
        OSError: the file system cannot be queried.
    """
    facts = os.statvfs(path)
    used = (facts.f_blocks - facts.f_bfree) * facts.f_frsize
    return used, used + facts.f_bavail * facts.f_frsize


def full_in_memory(mounts: str) -> "list[dict[str, object]]":
    """Return nearly full file systems in memory (tmpfs), as dicts with the keys of `wire.Disk`.

    Querying them never blocks.
    """
    fields = [line.split(" ") for line in mounts.split("\n")]
    paths = {_unescape(each[1]) for each in fields if len(each) > 2 and each[2] == "tmpfs"}
    full: list[dict[str, object]] = []
    for path in sorted(path for path in paths if not _SYSTEMS_OWN.match(path))[:MAX_MEMORY_MOUNTS]:
        try:
            used, total = usage(path)
        except OSError:
            continue
        if total and used >= FULL_SHARE * total:
            name = clean(os.fsencode(path).decode("utf-8", "replace"), 255)
            full.append({"mount": name, "filesystem": "tmpfs", "used_bytes": used, "total_bytes": total})
    return full


def worth_showing(mounts: str) -> "dict[str, str]":
    """Return mount point -> type of file systems with a device or share, each device once, up to a limit.

    Of several mounts of one device (bind mounts, subvolumes) the one nearest to the root is used. Any user
    can mount a file system of FUSE and name its device: it replaces no other, and comes last.
    """
    nearest: dict[str, tuple[str, str]] = {}
    for line in mounts.split("\n"):
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        device, path, kind = fields[0], _unescape(fields[1]), fields[2]
        if not _counts(device, path, kind):
            continue
        if kind.startswith("fuse."):
            device = path
        if device not in nearest or len(path) < len(nearest[device][0]):
            nearest[device] = (path, kind)
    found = sorted(nearest.values(), key=lambda each: each[1].startswith("fuse."))
    return dict(found[:MAX_MOUNTS])


def _counts(device: str, path: str, kind: str) -> bool:
    if kind in _READ_ONLY_IMAGES or device.startswith("/dev/loop"):
        return False
    if kind == "overlay":
        return path == "/"  # a container's own root is the one disk that its user can fill
    is_device = device.startswith("/dev/") and not re.match(r"fuse(\.|$)", kind)
    return is_device or _WITHOUT_DEVICE_NODE.match(kind) is not None


def _unescape(text: str) -> str:
    r"""Return a path of /proc/mounts without octal escapes: `/my disk` for `/my\040disk`."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match.group(1), 8)), text)
