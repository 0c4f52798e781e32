"""Stores the followed log folders, so that later sessions find jobs that ended since."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from gpuwatch.decode_errors import DECODE_ERRORS
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.jobs.job_files import home
from gpuwatch.own_folders import make_own
from gpuwatch.whole_file import read_own, write_whole
from gpuwatch.wire import LogFile

MAX_FOLDERS = 16
"""Most folders per node that are stored; the oldest are dropped first."""
MAX_NODES = 4096
WRITE_EVERY_S = 30.0
MAX_FILE_BYTES = 64 << 20
_decoder = msgspec.json.Decoder(dict[str, list[str]])


class FollowedFolders:
    """The file of followed folders: read at the start; written at intervals and at the end, if changed.

    A lost file only limits the search for ended jobs. What other sessions wrote in the meantime is preserved.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._folders: dict[str, list[str]] = {}
        self._changed = False
        self._version = -1
        self._noted: dict[str, list[LogFile]] = {}
        """Node -> its list of log files that was recorded last."""
        self._write_at = 0.0

    def read(self) -> dict[str, Sequence[str]]:
        """Return node -> folders; empty if the file is missing or unusable."""
        self._folders = self._stored() or self._folders
        return dict(self._folders)

    def _stored(self) -> dict[str, list[str]]:
        with suppress(OSError, *DECODE_ERRORS):
            reported = _decoder.decode(read_own(self._path, MAX_FILE_BYTES))
            return {node: list(filter(_lasts, folders)) for node, folders in reported.items()}
        return {}

    def note(self, fleet: Fleet) -> None:
        """Record the folders that the nodes follow now: of each node at most MAX_FOLDERS, the newest."""
        if fleet.logs_version == self._version:
            return
        self._version = fleet.logs_version
        for node in fleet.nodes.values():
            if self._noted.get(node.name) is node.logs:
                continue
            self._noted[node.name] = node.logs
            known = self._folders.get(node.name, [])
            followed = [home(file.path) for file in node.logs if _is_followed(file)]
            new = dict.fromkeys(filter(_lasts, followed))
            kept = [*(folder for folder in known if folder not in new), *new][-MAX_FOLDERS:]
            if set(kept) != set(known):
                self._folders.pop(node.name, None)
                self._folders[node.name] = kept
                self._changed = True

    def write_sometimes(self, now: float) -> None:
        """Write the file at intervals if it has changed, for sessions that start while this one runs.

        `now`: monotonic seconds.
        """
        if self._changed and now >= self._write_at:
            self._write_at = now + WRITE_EVERY_S
            self.write()

    def write(self) -> None:
        """Write the folders for later sessions if they have changed; a write error is ignored.

        The file keeps MAX_NODES nodes, with those of other sessions.
        """
        if self._changed:
            self._changed, stored = False, self._stored()
            merged = {
                node: _last_ones([*stored.get(node, ()), *self._folders.get(node, ())])
                for node in {**stored, **self._folders}
            }
            newest = dict(list(merged.items())[-MAX_NODES:])
            with suppress(OSError):
                make_own(self._path.parent)
                write_whole(self._path, msgspec.json.encode(newest) + b"\n")


def _last_ones(folders: Sequence[str]) -> list[str]:
    """Return the last `MAX_FOLDERS` folders; each appears once, at its last position."""
    return list(dict.fromkeys(reversed(folders)))[:MAX_FOLDERS][::-1]


def _lasts(folder: str) -> bool:
    """Return True for a path on the node itself; a path through /proc/PID/root ends with the process."""
    return not folder.startswith("/proc/")


def _is_followed(file: LogFile) -> bool:
    """Return False for the kernel log, and for a log that was found and that no running process writes."""
    return file.source != "kernel" and (file.source != "found" or bool(file.pids))
