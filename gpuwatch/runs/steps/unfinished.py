"""Compares operations that ranks announce and report as done, to find the rank that did not finish one."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from msgspec import Struct

from gpuwatch.agent.logs.lines.normalise import messages
from gpuwatch.agent.logs.matching.record_rank import read_message

MIN_FINISHED_PEERS = 3
"""Least number of ranks that must have finished an operation, and all but one of those that began it."""
MIN_PEERS_OF_COLLECTIVE = 1
"""Least number for a collective, which all ranks call: one other rank suffices."""
_MAY = re.compile(rb"(?i)\b(?:start|begin|enter|complet|finish|done|leav|left|exit|before|after)")
_COLLECTIVE = (
    r"(?P<{}>(?:all[-_ ]?reduce|all[-_ ]?gather|reduce[-_ ]?scatter|all[-_ ]?to[-_ ]?all|broadcast|barrier)"
    r"(?:_[a-z_]{{1,20}})?)"
)
_BEFORE = re.compile(r"(?i)(?:^|[\]:|>] ?)before (?:the )?" + _COLLECTIVE.format("what") + r"\b")
_AFTER = re.compile(r"(?i)(?:^|[\]:|>] ?)after (?:the )?" + _COLLECTIVE.format("what") + r"\b")
_IS_COLLECTIVE = re.compile("allreduce|allgather|reducescatter|alltoall|broadcast|barrier")
_WHAT = r"(?P<{}>[A-Za-z][A-Za-z_-]{{2,30}}(?: [A-Za-z_-]{{2,20}}){{0,2}}?)"
_BEGUN = re.compile(
    r"(?i)\b(?:starting|beginning|begins?|entering|enters?|started|entered) (?:the )?"
    + _WHAT.format("what")
    + r"\s?(?:\.{2,3}|$|[,(#:\d])"
)
_ENDED = re.compile(
    r"(?i)(?:^|[\]:|>] ?)" + _WHAT.format("first") + r" (?:is |was )?(?:completed?|finished|done|ended)\b"
    r"|\b(?:completed|finished|leaving|left|exited|exiting|done with) (?:the )?"
    + _WHAT.format("second")
    + r"\s?(?:\.{1,3}|$|[,(#:\d])"
)


class Unfinished(Struct, frozen=True):
    """An operation that one rank began and did not finish, while the others did."""

    what: str
    """The operation as the line names it, such as `all-reduce`."""
    rank: int
    peers: int
    """Number of ranks that finished the operation."""
    host: str | None
    file: str
    text: str
    """The line with which the rank began the operation."""


def unfinished(samples: Iterable[tuple[str, Sequence[bytes]]]) -> Unfinished | None:
    """Return the operation that a single rank did not finish; None if there is none.

    `samples`: name and sample lines of each file.
    """
    begun: dict[str, Counter[int]] = defaultdict(Counter)
    ended: dict[str, Counter[int]] = defaultdict(Counter)
    last: dict[tuple[str, int], Unfinished] = {}
    for file, lines in samples:
        if _MAY.search(b"\n".join(lines)) is None:
            continue
        for raw in lines:
            if _MAY.search(raw) is None:
                continue
            text, by = messages(raw)[0][-1]
            reading = read_message(text, by, raw)
            rank = by.rank if by.rank is not None else reading.rank
            if rank is None:
                continue
            for found in (*_BEGUN.finditer(text), *_BEFORE.finditer(text)):
                key = _key(found["what"])
                begun[key][rank] += 1
                last[key, rank] = Unfinished(found["what"], rank, 0, by.host, file, text)
            for found in _ENDED.finditer(text):
                ended[_key(found["first"] or found["second"])][rank] += 1
            for found in _AFTER.finditer(text):
                ended[_key(found["what"])][rank] += 1
    return next((each for key in begun if (each := _alone(key, begun[key], ended[key], last))), None)


def _alone(
    key: str, begun: Counter[int], ended: Counter[int], last: dict[tuple[str, int], Unfinished]
) -> Unfinished | None:
    inside = [rank for rank, count in begun.items() if count > ended[rank]]
    out = [rank for rank, count in begun.items() if 0 < count <= ended[rank]]
    least = MIN_PEERS_OF_COLLECTIVE if _IS_COLLECTIVE.match(key) else MIN_FINISHED_PEERS
    if len(inside) != 1 or len(out) < least:
        return None
    found = last[key, inside[0]]
    return Unfinished(found.what, found.rank, len(out), found.host, found.file, found.text)


def _key(what: str) -> str:
    """Return the name of an operation normalised: `all-reduce`, `AllReduce` and `all_reduce` are equal."""
    return re.sub(r"[^a-z]", "", what.lower())
