"""Walks globs of log files, folder by folder, in many short steps."""

import os
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterator, Optional, Sequence, Tuple, Union

    Part = Union[str, "re.Pattern[str]", None]
    """A plain name, a pattern, or None for `**`."""
    Step = Optional[Tuple[str, Optional[int]]]
    """(path, rank) of a file; None: a folder was listed."""

_MAGIC = re.compile(r"[*?\[]|\{(?:rank|date)\}")
_PIECES = re.compile(r"\{rank\}|\{date\}|\[!?\]?[^\]]{0,255}\]|\*+|\?|.", re.DOTALL)
_MEANING = {
    "{rank}": r"(?P<rank>\d{1,6})",
    "{date}": r"\d[\d_.:T-]{2,30}\d",
    "?": r".",
}
_PACKED = (".gz", ".xz", ".zst", ".bz2", ".lz4", ".zip")
MAX_DEPTH = 24


class Glob(object):
    """A glob of log files with `{rank}` and `{date}`; `{host}` is already filled in.

    `**` matches any number of folders.
    """

    def __init__(self, pattern: str, source: str, given: "str | None" = None) -> None:
        self.source = source
        """Source of the files it finds: `glob` or `option`."""
        self.given = pattern if given is None else given
        """The pattern as given, with `{host}`."""
        parts = os.path.expanduser(pattern).split("/")
        self._parts = [_component(part) for part in parts if part]

    def walk(self, enter: "Callable[[str], object]") -> "Iterator[Step]":
        """Yield (path, rank) of each matching file, and None after each listed folder.

        Packed files are left out, and hidden names unless the pattern begins with a dot. `enter` is called
        with a path before the file system is accessed: a dead mount may block.
        """
        return _Walk(enter).into("", self._parts, None, 0) if self._parts else iter(())


def with_hosts(patterns: "Sequence[str]", hosts: "Sequence[str]") -> "list[str]":
    """Return the patterns with `{host}` replaced by each of this node's names."""
    found: list[str] = []
    for pattern in patterns:
        for host in hosts if "{host}" in pattern else [""]:
            one = pattern.replace("{host}", host)
            if one not in found:
                found.append(one)
    return found


def _component(part: str) -> "Part":
    if part == "**":
        return None
    if _MAGIC.search(part) is None:
        return part
    named: list[str] = []
    pieces = []
    for piece in _PIECES.findall(part):
        if piece in _MEANING:
            meaning = _MEANING[piece]
            if piece in named:  # a group's name may stand once
                meaning = r"\d{1,6}" if piece == "{rank}" else meaning
            named.append(piece)
            pieces.append(meaning)
        elif piece.startswith("*"):
            pieces.append(".*")
        elif len(piece) > 1:
            inside = piece[1:-1].replace("\\", r"\\").replace("[", r"\[")
            pieces.append(
                "[" + ("^" + inside[1:] if inside.startswith("!") else inside.replace("^", r"\^")) + "]"
            )
        else:
            pieces.append(re.escape(piece))
    try:
        return re.compile("".join(pieces), re.DOTALL)
    except re.error:
        return part


class _Walk(object):
    """Finds the files that match a glob, component by component."""

    def __init__(self, enter: "Callable[[str], object]") -> None:
        self._enter = enter

    def into(self, folder: str, parts: "Sequence[Part]", rank: "int | None", depth: int) -> "Iterator[Step]":
        """Yield the matches of the remaining parts of a pattern below `folder`, and None after each folder.

        `rank`: from an earlier part.
        """
        part, rest = parts[0], parts[1:]
        if isinstance(part, str):
            return self._plain(folder + "/" + part, rest, rank, depth)
        return (
            self._deep(folder, parts, rank, depth)
            if part is None
            else self._fitting(folder, parts, rank, depth)
        )

    def _plain(self, path: str, rest: "Sequence[Part]", rank: "int | None", depth: int) -> "Iterator[Step]":
        if rest:
            for found in self.into(path, rest, rank, depth):
                yield found
            return
        self._enter(path)
        if os.path.exists(path):
            yield path, rank

    def _deep(self, folder: str, parts: "Sequence[Part]", rank: "int | None", depth: int) -> "Iterator[Step]":
        if len(parts) > 1:
            for found in self.into(folder, parts[1:], rank, depth):
                yield found
        if depth >= MAX_DEPTH:
            return
        for name, is_folder in _entries(folder, self._enter):
            yield None
            if is_folder and not name.startswith("."):
                for found in self.into(folder + "/" + name, parts, rank, depth + 1):
                    yield found

    def _fitting(
        self, folder: str, parts: "Sequence[Part]", rank: "int | None", depth: int
    ) -> "Iterator[Step]":
        part, rest = parts[0], parts[1:]
        entries = _entries(folder, self._enter)
        yield None
        for name, is_folder in entries:
            match = part.fullmatch(name)  # type: ignore[union-attr]  # a part of a glob is a pattern here, not `**`
            if match is None or (name.startswith(".") and not part.pattern.startswith(r"\.")):  # type: ignore[union-attr]  # a part of a glob is a pattern here, not `**`
                continue
            reported = match.groupdict().get("rank")
            known = rank if reported is None else int(reported)
            if rest:
                for found in self.into(folder + "/" + name, rest, known, depth):
                    yield found
            elif not is_folder and not name.endswith(_PACKED):
                yield folder + "/" + name, known


def _entries(folder: str, enter: "Callable[[str], object]") -> "list[tuple[str, bool]]":
    """Return (name, True for a real folder) of each entry of a folder, sorted; empty if unreadable."""
    enter(folder or "/")
    try:
        return sorted((entry.name, _is_folder(entry)) for entry in os.scandir(folder or "/"))
    except OSError:
        return []


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False
