"""Decides whether a checkpoint is complete, from its files."""

import os
import re
import stat
import time

from ...base.regular_file import modified_at

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterable

MAX_FILES = 4096
MAX_DEPTH = 3
MAX_OLDER = 8
GROWING_S = 5.0
"""Seconds since the last write within which a checkpoint may still be growing."""
SAME_SIZE = 0.9
"""Share of the previous checkpoint's size below which a checkpoint is incomplete."""
_DIGITS = re.compile(r"\d+")
_SHARD = re.compile(r"(\d{1,6})-of-(\d{1,6})(\.[^/]{1,40})$")
_RANK = re.compile(r"(?i)(?:rank|shard|part|worker)[-_.=]?(\d{1,6})(?!\d)")
_TEMPORARY = re.compile(
    r"(?i)(?:\.tmp|\.temp|\.part|\.incomplete|\.orbax-checkpoint-tmp)(?:[-.]\w{0,60})?$|^tmp[-_.]"
)


class StoredCheckpoint(object):
    """The files of a checkpoint at a path: `files` (name -> bytes) and when the newest was written."""

    def __init__(self, path: str) -> None:
        """List the file at `path`, or the files below the folder there; no contents are read.

        At most MAX_FILES files, MAX_DEPTH folders down; links are not followed.

        Raises:
            OSError: `path` is missing or a link, it holds no regular file, or a folder may not be listed.
        """
        self.files: dict[str, int] = {}
        self.written_at = 0.0
        status = os.lstat(path)
        if stat.S_ISDIR(status.st_mode):
            self._take(path, "", 0)
        elif stat.S_ISREG(status.st_mode):
            self._add(os.path.basename(path), status)
        if not self.files:
            raise OSError("no file of a checkpoint")

    @property
    def size(self) -> int:
        """Total bytes."""
        return sum(self.files.values())

    def _add(self, name: str, status: "os.stat_result") -> None:
        self.files[name] = status.st_size
        self.written_at = max(self.written_at, modified_at(status))

    def _take(self, folder: str, below: str, depth: int) -> None:
        for entry in os.scandir(folder):
            if len(self.files) >= MAX_FILES:
                return
            if entry.is_dir(follow_symlinks=False):
                if depth < MAX_DEPTH:
                    self._take(entry.path, below + entry.name + "/", depth + 1)
            elif entry.is_file(follow_symlinks=False):
                self._add(below + entry.name, entry.stat(follow_symlinks=False))


def facts(path: str, now: "float | None" = None) -> "dict[str, Any]":
    """Return facts about the checkpoint at a path; empty if nothing is there.

    `files` (number), `bytes`, `written_at` (unix seconds), and `complete` (0 or 1) if known: not within
    GROWING_S of the last write. For an incomplete one also `good` (path) and `good_at` (unix seconds) of the
    newest older checkpoint next to it that may be complete, if there is one. `now`: unix seconds; None: read
    the clock.
    """
    found = _seen(path)
    if found is None:
        return {}
    reported: dict[str, Any] = {
        "files": len(found.files),
        "bytes": found.size,
        "written_at": round(found.written_at, 3),
    }
    if (time.time() if now is None else now) - found.written_at < GROWING_S:
        return reported
    older = _older(path, found.written_at)
    whole = _is_complete(path, found, [one for _, one in older])
    if whole is not None:
        reported["complete"] = int(whole)
    if whole is False:
        for number, (beside, one) in enumerate(older):
            if _is_complete(beside, one, [before for _, before in older[number + 1 :]]) is not False:
                reported.update(good=beside, good_at=round(one.written_at, 3))
                break
    return reported


def _is_complete(path: str, found: "StoredCheckpoint", older: "list[StoredCheckpoint]") -> "bool | None":
    """Return whether a checkpoint is complete: by the marks of its format, else compared with older ones.

    `older`: newest first. None: undecided.
    """
    names = [name.rpartition("/")[2] for name in found.files]
    if any(_TEMPORARY.search(name) for name in names + [os.path.basename(path)]):
        return False
    if not all(size for name, size in found.files.items() if not name.endswith((".txt", ".lock"))):
        return False
    if any(name.endswith(".distcp") for name in names) and ".metadata" not in names:
        return False  # torch.distributed.checkpoint writes it last
    shards: dict[tuple[str, str, str], set[int]] = {}
    for name in names:
        shard = _SHARD.search(name)
        if shard is not None:
            number, total, ending = shard.groups()
            shards.setdefault((name[: shard.start()], total, ending), set()).add(int(number))
    if any(len(numbers) < int(total) for (_, total, _), numbers in shards.items()):
        return False
    if _has_gap(found.files) or any(_lacks(found, one) for one in older):
        return False
    if older:
        return len(found.files) >= len(older[0].files) and found.size >= SAME_SIZE * older[0].size
    return True if shards or ".metadata" in names or "_CHECKPOINT_METADATA" in names else None


def _has_gap(names: "Iterable[str]") -> bool:
    """Return True if files whose names differ only in the rank are numbered from 0 or 1, with a gap."""
    forms: dict[tuple[str, str], set[int]] = {}
    for name in names:
        for rank in _RANK.finditer(name):
            form = name[: rank.start(1)], name[rank.end(1) :]
            forms.setdefault(form, set()).add(int(rank.group(1)))
    return any(
        len(numbers) > 1 and min(numbers) <= 1 and len(numbers) <= max(numbers) - min(numbers)
        for numbers in forms.values()
    )


def _lacks(found: "StoredCheckpoint", earlier: "StoredCheckpoint") -> bool:
    """Return True if an earlier checkpoint has more files, and this one less than SAME_SIZE of its bytes.

    Both must hold: fewer ranks write fewer files of as many bytes.
    """
    return len(found.files) < len(earlier.files) and found.size < SAME_SIZE * earlier.size


def _older(path: str, written_at: float) -> "list[tuple[str, StoredCheckpoint]]":
    """Return (path, files) of the newest `MAX_OLDER` older checkpoints with the same name but for digits."""
    folder, name = os.path.split(path)
    form = _DIGITS.sub("#", name)
    found: list[tuple[float, str]] = []
    for entry in os.scandir(folder or "."):
        if entry.name != name and _DIGITS.sub("#", entry.name) == form and not entry.is_symlink():
            at = entry.stat(follow_symlinks=False).st_mtime
            if at < written_at and len(found) < MAX_FILES:
                found.append((at, entry.path))
    known = [(beside, _seen(beside)) for _, beside in sorted(found, reverse=True)[:MAX_OLDER]]
    return [(beside, one) for beside, one in known if one is not None]


def _seen(path: str) -> "StoredCheckpoint | None":
    try:
        return StoredCheckpoint(path)
    except (OSError, ValueError):
        return None
