"""Parses RAS's text output (NCCL 2.24 to 2.28); only its errors and warnings are read."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from gpuwatch.diagnose.hang.ras.model import Bucket, Communicator, Ras, RasError, RasRank
from gpuwatch.plain import plain

VERSION = re.compile(r"NCCL version (\S+)")
HEADING = re.compile(r"#(\d+)-(\d+) \(([0-9a-f]+)\) (INCOMPLETE|ERROR|MISMATCH)")
GROUP = re.compile(r" *(\d+) +(\d+) +(\d+) +(\S+) +(\d+) +(\d+) +([A-Z]+) +([A-Z,]+)$")
"""Matches a row of a table of communicator groups.

Columns: number, communicators, nodes, ranks per node, ranks per communicator, ranks, status, errors.
"""
RANK = re.compile(r"  Rank (\d+)(?: (.*?))? -- (.*)")
OLD_RANKS = re.compile(r"  The missing ranks?: ([\d, ]+)")
PROCESS = re.compile(r"GPUs? (\d{1,9})(?!\d).*? managed by process (\d+) on node (\S+)")
LOST = re.compile(r"  Process (\d+) on node (\S+) managing GPUs? (\d+)")
COUNTS = re.compile(r"  Communicator ranks have different (\w+) operation counts")
RANKS_LAUNCHED = re.compile(
    r"  (\d+) ranks have (?:launched up to operation (\d+)|not launched any operations)"
)
LAUNCHED = re.compile(r"has (?:launched up to operation (\d+)|not launched any operations)")
STATUS = re.compile(r"  (?:(\d+) ranks have|Rank (\d+) has) status ([A-Z]+)")
REPORTED = re.compile(r"(?:ranks|Rank \d+) reported (.*?)(?: --|$)")
TIMEOUTS = re.compile(r"Encountered (\d+) communication timeout")
DIGITS = re.compile(r"\d{19}")
STATES = {
    "NOCOMM": "left",
    "INIT": "initializing",
    "RUNNING": "running",
    "FINALIZE": "finalizing",
    "ABORT": "aborted",
}


@dataclass
class _Draft:
    hash: str
    size: int | None = None
    silent: list[RasRank] = field(default_factory=list)
    left: list[RasRank] = field(default_factory=list)
    failed: list[tuple[RasRank, str]] = field(default_factory=list)
    ending: list[tuple[RasRank, str]] = field(default_factory=list)
    launched: dict[str, list[Bucket]] = field(default_factory=dict)


def read_text(words: str, node: str, address: str) -> Ras:
    """Parse RAS's text output.

    Raises:
        RasError: `words` is not the output of RAS.
    """
    if "Communicators..." not in words:
        raise RasError("not an answer of NCCL RAS: " + plain(words.strip()[:80]))
    if DIGITS.search(words):
        raise RasError("not an answer of NCCL RAS: it has numbers of more than 18 digits")
    version = VERSION.search(words)
    timeouts = TIMEOUTS.search(words)
    sizes: dict[int, int] = {}
    counted = 0
    drafts: dict[str, _Draft] = {}
    dead: list[RasRank] = []
    for title, lines in _blocks(words):
        match = HEADING.match(title)
        if title == "DEAD":
            dead += [peer for line in lines if (peer := _lost(line)) is not None]
        elif match is not None:
            draft = drafts.setdefault(match[3], _Draft(match[3], sizes.get(int(match[1]))))
            {"INCOMPLETE": _incomplete, "ERROR": _error, "MISMATCH": _mismatch}[match[4]](draft, lines)
        else:
            groups = [group for line in lines if (group := GROUP.match(line)) is not None]
            sizes.update((int(group[1]), int(group[5])) for group in groups)
            counted += sum(int(group[6]) for group in groups)
    gone = {(peer.host, peer.pid) for peer in dead}
    return Ras(
        node=node,
        address=address,
        version=plain(version[1])[:40] if version is not None else None,
        communicators=tuple(_finished(draft, gone) for draft in drafts.values()),
        counted=counted,
        timeouts=int(timeouts[1]) if timeouts is not None else 0,
        dead=tuple(dead),
    )


def _finished(draft: _Draft, gone: set[tuple[str | None, int | None]]) -> Communicator:
    return Communicator(
        hash=draft.hash,
        size=draft.size,
        silent=tuple(peer for peer in draft.silent if (peer.host, peer.pid) not in gone),
        dead=tuple(peer for peer in draft.silent if (peer.host, peer.pid) in gone),
        left=tuple(draft.left),
        failed=tuple(draft.failed),
        ending=tuple(draft.ending),
        launched={
            name: tuple(sorted(buckets, key=lambda bucket: bucket.count))
            for name, buckets in draft.launched.items()
            if buckets  # a report that is cut off ends behind their heading
        },
    )


def _blocks(words: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each unindented line with the indented lines below it, without control characters.

    The first pair has "" and the lines above the first unindented one.
    """
    title = ""
    lines: list[str] = []
    for raw in words.splitlines():
        line = plain(raw.rstrip())
        if line and not line.startswith(" ") and not set(line) <= {"="}:
            yield title, lines
            title, lines = line, []
        elif line:
            lines.append(line)
    yield title, lines


def _incomplete(draft: _Draft, lines: list[str]) -> None:
    for line in lines:
        peer = _ranked(line)
        if peer is not None:
            draft.silent.append(peer)
        elif (match := OLD_RANKS.match(line)) is not None:
            draft.silent += [RasRank(int(each)) for each in re.findall(r"\d+", match[1])]


def _error(draft: _Draft, lines: list[str]) -> None:
    stated = "error"
    for line in lines:
        match = REPORTED.search(line)
        stated = match[1].lower() if match is not None else stated
        peer = _ranked(line)
        if peer is not None:
            draft.failed.append((peer, stated))


def _mismatch(draft: _Draft, lines: list[str]) -> None:
    """Add to the draft how many ranks launched how many operations, the outliers, and unusual states."""
    buckets: list[Bucket] | None = None
    state, usual = None, True
    for line in lines:
        counts, many, status = COUNTS.match(line), RANKS_LAUNCHED.match(line), STATUS.match(line)
        peer = _ranked(line)
        if counts is not None:
            buckets, state = draft.launched.setdefault(counts[1], []), None
        elif many is not None and buckets is not None:
            buckets.append(Bucket(int(many[2] or 0), int(many[1]), ()))
        elif status is not None and buckets is None:
            state, usual = STATES.get(status[3], status[3].lower()), state is None
            if peer is not None:
                _another(draft, peer, state)
        elif peer is not None and buckets is not None:
            launched = LAUNCHED.search(line)
            if launched is not None:
                buckets.append(Bucket(int(launched[1] or 0), 1, (peer,)))
            elif buckets:
                last = buckets[-1]
                buckets[-1] = Bucket(last.count, last.size, (*last.peers, peer))
        elif peer is not None and state is not None and not usual:
            _another(draft, peer, state)


def _another(draft: _Draft, peer: RasRank, state: str) -> None:
    if state == "left":
        draft.left.append(peer)
    else:
        draft.ending.append((peer, state))


def _ranked(line: str) -> RasRank | None:
    """Return the rank of a line, with host, pid and GPU if the line has them; None: the line is of no rank.

    Example: `  Rank 3 has launched up to operation 7 -- GPU 3 managed by process 4711 on node 10.0.0.7`.
    """
    match = RANK.match(line)
    if match is None:
        return None
    process = PROCESS.match(match[3])
    if process is None:
        return RasRank(int(match[1]))
    return RasRank(int(match[1]), process[3][:80], int(process[2]), int(process[1]))


def _lost(line: str) -> RasRank | None:
    match = LOST.match(line)
    return None if match is None else RasRank(-1, match[2][:80], int(match[1]), int(match[3]))
