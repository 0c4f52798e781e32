"""Cuts a piece of a file at the ranges on which earlier readers hung."""

import re

from .hangs import overlap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator

WHOLE, CAREFUL, SKIPPED = "whole", "careful", "skipped"

_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")


class Stretches(object):
    """The ranges of files that are not scanned, or line by line, as earlier readers hung on them.

    `careful`: path -> range, `skipped`: path -> ranges ([inode, begin, end]).
    """

    def __init__(self, careful: "dict[str, list[int]]", skipped: "dict[str, list[list[int]]]") -> None:
        self._careful = careful
        self._skipped = skipped

    def cut(self, path: str, inode: int, data: bytes, offset: int) -> "Iterator[tuple[int, bytes, str]]":
        """Yield (offset, bytes, how to scan them) for portions of `data`, whose first byte is at `offset`.

        A careful portion is one line, or the part of it in `data`.
        """
        here = [inode, offset, offset + len(data)]
        skipped = [each for each in self._skipped.get(path, ()) if overlap(each, here)]
        careful = [each for each in [self._careful.get(path)] if each is not None and overlap(each, here)]
        if not skipped and not careful:
            yield offset, data, WHOLE
            return
        edges = {at for each in skipped + careful for at in each[1:] if offset < at < here[2]}
        borders = sorted(edges | {offset, here[2]})
        for begin, end in zip(borders, borders[1:]):  # noqa: B905 - strict needs Python 3.10
            portion = data[begin - offset : end - offset]
            if _inside(begin, skipped):
                yield begin, portion, SKIPPED
            elif _inside(begin, careful):
                for line in _LINE.finditer(portion):
                    yield begin + line.start(), line.group(), CAREFUL
            else:
                yield begin, portion, WHOLE


def _inside(at: int, stretches: "list[list[int]]") -> bool:
    return any(begin <= at < end for _, begin, end in stretches)
