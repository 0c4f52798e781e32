"""Finds the rank of an error whose own lines name no process, in the lines right above and below it.

A program logs `Uncaught exception on rank 6.` and then the traceback without a tag; a library names host, pid
and device in one line, and in the next one of the same process the rank.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from gpuwatch.agent.logs.lines.levels import GRAVE, own_level
from gpuwatch.agent.logs.lines.line_ranks import LineRanks, line_ranks
from gpuwatch.agent.logs.lines.normalise import messages
from gpuwatch.agent.logs.lines.prefixes import Speaker
from gpuwatch.agent.logs.lines.rank_words import OTHER_COUNTS, PEER, RANK_NAMED
from gpuwatch.agent.logs.lines.timestamps import time_of
from gpuwatch.agent.logs.matching.ruleset import CompiledRule
from gpuwatch.runs.files.excerpts.around import Around, around
from gpuwatch.runs.files.log_path import LogPath
from gpuwatch.runs.model.record import Row
from gpuwatch.runs.placement.owners import path_places

ABOVE_LINES, BELOW_LINES = 3, 3
"""Lines with letters, without blank lines and borders."""
SAME_RECORD_S = 1.0
"""Seconds between the times of two lines from which they are records of their own."""
MAX_ROWS = 24
"""Findings of a file that are completed."""
_LAUNCHER = re.compile(r"\b(?:srun|slurm\w{0,20}|mpirun|mpiexec|prterun|torchrun)(?:\[\d{1,10}\])?: ")
_WRITER = ("rank", "local_rank", "index", "host", "pid", "gpu")
_OF_ANOTHER = re.compile(
    r"(?i)\bpeers?\b|remote|timed? ?out|timeout|\blost\b|SIGTERM|terminat|unhealthy|barrier|heartbeat"
    r"|waiting|NCCL error"
)
"""Words of lines of ranks that follow another one's failure."""
_HEAD = re.compile(
    r"(?<![\w.:-])(?P<process>[A-Za-z0-9][\w.-]{0,80}:\d{1,10}:\d{1,10} \[(?P<device>\d{1,3})\]) "
)
"""What NCCL and its plugins put before their lines: host, pid, thread and device."""
_RAISED = re.compile(
    r"(?i)NCCL ?error|nccl(?:System|Internal|Remote|UnhandledCuda)Error|unhandled (?:system|cuda) error"
)
"""What a process raises right after NCCL's own line about its failure."""
_BEGIN = "Traceback (most recent call last)"
_FRAME = re.compile(r"(?:^|[\s:|\]>]) {2,}\S|^\t")
"""A line of a traceback, perhaps behind a tag."""
_WHERE = re.compile(
    r"ray::[^\s(]{1,200}\(\)? ?\(?pid=(?P<pid>\d{1,10}), ip=(?P<ip>[\d.]{7,15})"
    r"|\((?P<executor>[A-Za-z0-9][\w.-]{0,120}) executor \d{1,6}\): \S"
    r"|\b(?:[Ww]orker|[Hh]ost|[Nn]ode)(?: address)?[:=]? {1,4}'?(?:tcp|tls|ucx)://(?P<url>[A-Za-z0-9][\w.-]{0,120}):\d{1,5}"
)
"""Where a driver's exception was raised: Ray's task, Spark's executor, Dask's worker."""
MAX_BLOCK = 60
GPUS = (8, 4)
"""Usual numbers of ranks on a node."""


def give_neighbours(
    rows: Iterable[Row], log: LogPath, words: Collection[str], rules: Mapping[str, CompiledRule]
) -> None:
    """Set the rank of errors that name no process, from the lines around them; at most `MAX_ROWS` of a file.

    Args:
        rows: The findings of the file.
        log: A file that is no rank's own; no ranks are set in a kernel log.
        words: The words whose numbers are ranks.
        rules: The rules by id.
    """
    if path_places(log.inner).kernel:
        return
    known = 0
    for row in rows:
        if row["severity"] not in ("error", "critical") or known >= MAX_ROWS or not row["lines"]:
            continue
        line = row["lines"][row.get("key", 0)]
        if _has_no_rank(rules.get(row["rule"])) or _LAUNCHER.search(line[:600]) is not None:
            continue
        head = _HEAD.search(line)
        named = any(row.get(each) is not None for each in (_WRITER[:3] if head else _WRITER))
        if named or row.get("offset") is None or "tool" in row["fields"] or "told_by" in row["fields"]:
            continue
        known += 1
        lines = around(log.path, log.packing, row["offset"], row["offset"])
        if lines is None:
            continue
        states_node = any("(IP: " in text for text in row["lines"])  # as Ray's memory monitor does
        if head is None and not states_node and (raised := _raised_at(lines.above)) is not None:
            row.update(raised)
            continue
        if head is None:
            rank = _of_block(lines, len(row["lines"]), time_of(line, 0.0), words)
        elif (rank := _of_process(head["process"], lines)) is None:
            rank = _raised_below(int(head["device"]), lines)
        if rank is not None:
            row.update(rank=rank, rank_from="index")


def _has_no_rank(rule: CompiledRule | None) -> bool:
    return rule is not None and rule.no_rank_logs


def _of_process(process: str, lines: Around) -> int | None:
    """Return the only rank that near lines of the same process name; None: none or several."""
    near = [*lines.above[-BELOW_LINES:], *lines.below[:BELOW_LINES]]
    ranks = {
        int(named["n"])
        for line in near
        if process in line
        for named in RANK_NAMED.finditer(line)
        if named["rank"] is not None and not _is_other(line[max(0, named.start() - 40) : named.start()])
    }
    return ranks.pop() if len(ranks) == 1 else None


def _raised_at(above: Sequence[str]) -> dict[str, object] | None:
    """Return host and pid of the process that raised an exception, as the lines above state them, or None."""
    for line in reversed(above[-MAX_BLOCK:]):
        where = _WHERE.search(line)
        if where is not None:
            host = where["ip"] or where["executor"] or where["url"]
            return {"host": host} if where["pid"] is None else {"host": host, "pid": int(where["pid"])}
        if _FRAME.search(line) is None:
            return None
    return None


def _raised_below(device: int, lines: Around) -> int | None:
    """Return the only rank that raises NCCL's error right below its line and may use this device, or None."""
    ranks = {
        by.rank
        for text, by, _ in _read(_lettered(lines.below)[:BELOW_LINES])
        if by.rank is not None and _RAISED.search(text) is not None
    }
    rank = ranks.pop() if len(ranks) == 1 else None
    return rank if rank is not None and any(rank % count == device for count in GPUS) else None


def above_block(above: Sequence[str]) -> Sequence[str]:
    """Return the lines above a traceback whose exception follows them; all if none does."""
    begin = next((at for at in range(len(above) - 1, -1, -1) if _BEGIN in above[at]), None)
    if begin is None or not all(_FRAME.search(line) for line in above[begin + 1 :]):
        return above
    return above[:begin]


def _lettered(lines: Sequence[str]) -> list[str]:
    """Return the lines that have letters: neither blank nor a border."""
    return [line for line in lines if any(map(str.isalpha, line))]


def _is_other(before: str) -> bool:
    """Return True if the text before a rank makes it a peer, or a rank in a smaller group."""
    return PEER.search(before) is not None or OTHER_COUNTS.search(before) is not None


def _of_block(lines: Around, size: int, at: float | None, words: Collection[str]) -> int | None:
    """Return the only rank that errors right above a block, or sentences about a failure below it, name.

    None: there is none, or several. A line above with another time than `at`, that of the block, is a record
    of its own.
    """
    ranks: set[int] = set()
    for text, by, reading in _read(_lettered(above_block(lines.above))[-ABOVE_LINES:]):
        above_at = time_of(text, 0.0)
        is_other = at is not None and above_at is not None and abs(at - above_at) >= SAME_RECORD_S
        if not is_other and (reading.phrase or own_level(text) in GRAVE):
            ranks |= _named(text, by, reading, words)
    for text, by, reading in _read(lines.below[size - 1 : size - 1 + BELOW_LINES]):
        if reading.phrase:
            ranks |= _named(text, by, reading, words)
    return ranks.pop() if len(ranks) == 1 else None


def _read(lines: Sequence[str]) -> Iterator[tuple[str, Speaker, LineRanks]]:
    for line in lines:
        text, by = messages(line.encode("utf-8", "replace"))[0][-1]
        yield line, by, line_ranks(text)


def _named(text: str, by: Speaker, reading: LineRanks, words: Collection[str]) -> set[int]:
    if _OF_ANOTHER.search(text) is not None:
        return set()
    rank = reading.rank if by.rank is None or reading.phrase else by.rank
    rank = reading.index if rank is None and reading.word in words else rank
    return set() if rank is None else {rank}
