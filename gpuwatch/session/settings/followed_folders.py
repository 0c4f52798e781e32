"""Folders of logs that were followed, kept for later sessions: jobs that ended since are found there."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.jobs.job_files import home
from gpuwatch.whole_file import read_own, write_whole

MAX_FOLDERS = 16
"""Kept of each node, the newest last."""
MAX_NODES = 4096
MOST_BYTES = 64 << 20
_decoder = msgspec.json.Decoder(dict[str, list[str]])


class FollowedFolders:
    """Read at the start, written at the end, if anything is new. A loss of it only makes a search shorter."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._folders: dict[str, list[str]] = {}
        self._changed = False
        self._version = -1

    def read(self) -> dict[str, Sequence[str]]:
        """Node -> folders; nothing where there is no such file, or none that can be used."""
        with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
            told = _decoder.decode(read_own(self._path, MOST_BYTES))
            self._folders = {node: list(filter(_lasts, folders)) for node, folders in told.items()}
        return dict(self._folders)

    def note(self, fleet: Fleet) -> None:
        """Take in what the nodes follow now."""
        if fleet.logs_version == self._version:
            return
        self._version = fleet.logs_version
        for node in fleet.nodes.values():
            known = self._folders.get(node.name, [])
            followed = [home(file.path) for file in node.logs if file.source not in ("kernel", "found")]
            new = dict.fromkeys(filter(_lasts, followed))
            kept = [*(folder for folder in known if folder not in new), *new][-MAX_FOLDERS:]
            if set(kept) != set(known):
                self._folders.pop(node.name, None)
                self._folders[node.name] = kept
                self._changed = True

    def write(self) -> None:
        """Keep them for the next session, if they can be kept."""
        if self._changed:
            newest = dict(list(self._folders.items())[-MAX_NODES:])
            with suppress(OSError):
                self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                write_whole(self._path, msgspec.json.encode(newest) + b"\n")


def _lasts(folder: str) -> bool:
    """Whether it is a path of the node: the way through a process's root ends with the process."""
    return not folder.startswith("/proc/")
