"""A prefilter that uses Hyperscan for dense text: the same shapes and phrases as the word sets, faster.

A log that repeats its lines with other numbers has few new shapes. In text of which most lines are new
(source code, prompts, dumps of settings) the words of each would be looked up. Hyperscan finds all phrases
at once.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import platform
from bisect import bisect_right
from collections.abc import Sequence
from importlib.metadata import version
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from gpuwatch.agent.logs.matching.ruleset import RuleSet
from gpuwatch.own_folders import cache_folder, make_own
from gpuwatch.runs.scan.piece_sieve import PieceSieve
from gpuwatch.whole_file import read_own, write_whole

if TYPE_CHECKING:
    from gpuwatch.agent.logs.matching.ruleset import Phrase

MANY_BYTES = 64 << 10
"""From this many bytes of new shapes in a piece, Hyperscan is faster than the words."""
WORTH_BYTES = 16 << 20
"""Bytes of new shapes that are looked up by words before a database is compiled: that takes seconds."""
MAX_CACHE_BYTES = 64 << 20
MAX_CACHE_FILES = 3


def installed() -> bool:
    """Return True if the extra `hyperscan` is installed."""
    return importlib.util.find_spec("hyperscan") is not None


class HyperSieve(PieceSieve):
    """A `PieceSieve` that looks for phrases in many new shapes at once."""

    def __init__(self, ruleset: RuleSet) -> None:
        super().__init__(ruleset)
        self._texts: dict[tuple[bytes, bool], list[Phrase]] = {}
        for phrase in ruleset.phrases:
            self._texts.setdefault((self._bare[phrase], phrase.fold), []).append(phrase)
        self._by_number = list(self._texts.values())
        self._database: Any = None
        self._looked = 0
        """Bytes of new shapes so far, while there is no database."""

    def _found(self, shapes: Sequence[bytes]) -> dict[bytes, list[Phrase]] | None:
        """Return the phrases of each of these shapes that has some; None: look them up by their words."""
        size = sum(map(len, shapes))
        if size < MANY_BYTES:
            return None
        if self._database is None:
            self._looked += size
            self._database = database_of(list(self._texts), may_compile=self._looked > WORTH_BYTES)
            if self._database is None:
                return None
        ends: list[tuple[int, int]] = []

        def on_match(number: int, _start: int, end: int, _flags: int, _context: object) -> None:
            ends.append((end, number))

        self._database.scan(b"\n".join(shapes), match_event_handler=on_match)
        starts = list(accumulate((len(shape) + 1 for shape in shapes), initial=0))
        held: dict[int, dict[int, None]] = {}
        for end, number in ends:
            held.setdefault(bisect_right(starts, end - 1) - 1, {})[number] = None
        found: dict[bytes, list[Phrase]] = {}
        for index, numbers in held.items():
            shape = shapes[index]
            lowered = shape.lower()
            phrases = [
                each for number in numbers for each in self._by_number[number] if each.may_match(lowered)
            ]
            found[shape] = phrases
        return found


def database_of(texts: Sequence[tuple[bytes, bool]], *, may_compile: bool) -> Any:  # noqa: ANN401 - no types
    """Return the Hyperscan database of texts, each with its flag "ignore case"; None: not compiled yet.

    It is kept in the cache folder. The file's name is a digest of the texts, of Hyperscan's version and of
    the processor, whose instructions the database uses; the file begins with a digest of the rest.
    """
    import hyperscan  # noqa: PLC0415 - an extra, needed on request only

    stated = [version("hyperscan"), platform.machine(), processor(), repr(texts)]
    name = hashlib.sha256("\n".join(stated).encode()).hexdigest()[:32]
    file = cache_folder() / f"phrases-{name}.hyperscan"
    database = None
    with contextlib.suppress(OSError, hyperscan.HyperscanError):
        whole = read_own(file, MAX_CACHE_BYTES, follow=False)
        if whole[:64] == _seal(name, whole[64:]):
            os.utime(file)  # files in use are kept
            database = hyperscan.loadb(whole[64:], hyperscan.HS_MODE_BLOCK)
    if database is None and may_compile:
        database = hyperscan.Database(mode=hyperscan.HS_MODE_BLOCK)
        database.compile(
            expressions=[text for text, _ in texts],
            ids=list(range(len(texts))),
            elements=len(texts),
            flags=[hyperscan.HS_FLAG_CASELESS if fold else 0 for _, fold in texts],
            literal=True,
        )
        with contextlib.suppress(OSError):
            data = hyperscan.dumpb(database)
            make_own(file.parent)
            write_whole(file, _seal(name, data) + data)
            files = sorted(file.parent.glob("phrases-*.hyperscan"), key=lambda each: each.stat().st_mtime)
            for old in files[:-MAX_CACHE_FILES]:
                old.unlink(missing_ok=True)
    if database is not None:
        database.scratch = hyperscan.Scratch(database)
    return database


def _seal(name: str, data: bytes) -> bytes:
    """Return a digest of a database, bound to its name."""
    return hashlib.sha256(name.encode() + b"\n" + data).hexdigest().encode()


def processor() -> str:
    """Return the processor's instruction sets (flags) as Linux lists them; "" elsewhere."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:  # noqa: PTH123 - one line of many
            return next((line for line in file if line.startswith(("flags", "Features"))), "")
    except OSError:
        return ""
