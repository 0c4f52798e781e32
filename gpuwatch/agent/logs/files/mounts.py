"""Detects network file systems, and gives files identities that are equal on all nodes."""

import os

# fmt: off
_NETWORK = (
    "nfs", "lustre", "gpfs", "beegfs", "ceph", "cifs", "smb", "9p", "afs", "glusterfs", "orangefs", "pvfs",
    "wekafs", "panfs", "ocfs2", "gfs2", "virtiofs", "fuse.",
)
_LOCAL_FUSE = (
    "fuse.lxcfs", "fuse.gvfsd-fuse", "fuse.portal", "fuse.snapfuse", "fuse.squashfuse", "fuse.fuse-overlayfs",
)
# fmt: on


class Mounts(object):
    """The network file systems that are mounted (/proc/self/mountinfo), by device number."""

    def __init__(self, proc: str = "/proc") -> None:
        self._path = os.path.join(proc, "self/mountinfo")
        self._by_device: dict[int, tuple[str, str]] = {}
        self._local: set[int] = set()
        self.read()

    def read(self) -> None:
        """Read the table of mounts again."""
        try:
            with open(self._path, "rb") as file:
                text = file.read(1 << 20).decode("utf-8", "replace")
        except OSError:
            text = ""
        self._by_device = network_mounts(text)
        self._local = set()

    def is_network(self, device: int) -> bool:
        """Return True if a file with this `st_dev` is on a network file system."""
        if device not in self._by_device and device not in self._local:
            self.read()
            if device not in self._by_device:
                self._local.add(device)
        return device in self._by_device

    def identity(self, device: int, inode: int) -> "str | None":
        """Return an identity of a file that is equal on every node that mounts the file system.

        None for a file on a local one.
        """
        if not self.is_network(device):
            return None
        kind, source = self._by_device[device]
        return "{}:{}:{}".format(kind, source, inode)


def network_mounts(text: str) -> "dict[int, tuple[str, str]]":
    """Return device number -> (kind, source) of network file systems; `text`: mountinfo, see proc(5)."""
    found: dict[int, tuple[str, str]] = {}
    for line in text.splitlines():
        head, separator, tail = line.partition(" - ")
        fields, after = head.split(" "), tail.split(" ")
        if not separator or len(fields) < 5 or len(after) < 2 or not _shared(after[0]):
            continue
        major, _, minor = fields[2].partition(":")
        if major.isdecimal() and minor.isdecimal():
            # nfs4 and nfs of one export are the same files
            kind = "nfs" if after[0].startswith("nfs") else after[0]
            found[os.makedev(int(major), int(minor))] = (kind, after[1])
    return found


def _shared(kind: str) -> bool:
    return kind.startswith(_NETWORK) and kind not in _LOCAL_FUSE
