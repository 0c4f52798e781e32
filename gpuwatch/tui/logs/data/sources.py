"""The available log files and their ranks, and the selection of some by a text such as `0-7` or `failed`."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import TypeAlias

from gpuwatch.diagnose.model.text import ranks_text
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.wire import KERNEL_LOG, LogFile, RankSource

MAX_RANGE = 100_000
HOW: dict[RankSource, str] = {
    "process": "RANK in its environment",
    "path": "the file's path",
    "line": "the line prefixes",
    "field": "the line text",
    "index": "the worker or task index in the lines",
}


class ChoiceError(ValueError):
    """Raised if a typed text selects nothing; the message states why."""


@dataclass(frozen=True)
class LogSource:
    """One file on one node, or the lines of one rank in it."""

    node: str
    file: str
    rank: int | None = None
    gpu: int | None = None
    how: RankSource | None = None
    """The source of the rank number."""
    ranks: tuple[int, ...] = ()
    """All ranks with lines in the file."""
    shared: bool = False
    """True if other ranks write to it too: only this rank's lines are shown."""
    job: str | None = field(default=None, compare=False)
    """The job that writes it; None: unknown, or several."""
    empty: bool = field(default=False, compare=False)
    """True if the file had no bytes when it was listed."""

    @property
    def name(self) -> str:
        """A short name: `r17` for a rank, `kernel`, else the file's name."""
        if self.rank is not None:
            return f"r{self.rank}"
        return "kernel" if self.file == KERNEL_LOG else PurePosixPath(self.file).name


def _gpu_of(node: Node, rank: int | None) -> int | None:
    """Return the index of the only GPU that a rank's process uses; None if unknown or several."""
    if rank is None:
        return None
    held = {part.uuid for process in node.processes if process.rank == rank for part in process.gpus}
    indices = [gpu.info.index for uuid, gpu in node.gpus.items() if uuid in held]
    return indices[0] if len(indices) == 1 else None


def _source(node: Node, file: LogFile) -> LogSource:
    rank = file.ranks[0] if len(file.ranks) == 1 else None
    how = file.rank_from if file.ranks else None
    gpu, ranks = _gpu_of(node, rank), tuple(file.ranks)
    return LogSource(node.name, file.path, rank, gpu, how, ranks, job=file.job, empty=file.size == 0)


def _rank_order(source: LogSource) -> tuple[bool, int, bool, str]:
    return source.rank is None, source.rank or 0, source.file == KERNEL_LOG, source.file


def node_sources(node: Node) -> list[LogSource]:
    """Return the log files of a node: those of ranks first, then launcher files, the kernel log last.

    Files that another node reads are left out. Files that a rank writes are listed even if they are not
    followed.
    """
    found = [_source(node, file) for file in node.logs if file.state != "elsewhere"]
    listed = {source.file for source in found}
    for process in node.processes:  # written by a rank, but not followed (yet)
        for path in process.logs:
            if path not in listed and all(file.path != path for file in node.logs):
                listed.add(path)
                gpu = _gpu_of(node, process.rank)
                known = () if process.rank is None else (process.rank,)
                found.append(LogSource(node.name, path, process.rank, gpu, "process", known, job=process.job))
    return sorted(found, key=_rank_order)


def all_sources(fleet: Fleet) -> list[LogSource]:
    """Return the log files of all nodes."""
    return [source for node in fleet.nodes.values() for source in node_sources(node)]


def file_of(fleet: Fleet, source: LogSource) -> LogFile | None:
    """Return the node's report on a source's file; None if the node or file is unknown."""
    node = fleet.nodes.get(source.node)
    return None if node is None else next((f for f in node.logs if f.path == source.file), None)


def rank_sources(sources: Iterable[LogSource], rank: int) -> list[LogSource]:
    """Return the sources that only this rank writes, else those with lines of it (`shared` set)."""
    listed = list(sources)
    own = [source for source in listed if source.rank == rank]
    return own or [
        replace(source, rank=rank, shared=True)
        for source in listed
        if rank in source.ranks and source.file != KERNEL_LOG
    ]


def whole_files(sources: Iterable[LogSource]) -> list[LogSource]:
    """Return each file of the sources once, with the lines of all its ranks."""
    found: dict[tuple[str, str], LogSource] = {}
    for source in sources:
        whole = replace(source, rank=None, shared=False) if source.shared else source
        found.setdefault((source.node, source.file), whole)
    return list(found.values())


def with_content(sources: Sequence[LogSource]) -> list[LogSource]:
    """Return the sources that are not empty, as a rank's unused stdout is; all if there is no other."""
    return [source for source in sources if not source.empty] or list(sources)


def of_job(sources: Iterable[LogSource], job: str | None) -> list[LogSource]:
    """Return the files of this job and those of unknown job; None: all files.

    Other jobs have ranks with the same numbers.
    """
    return [source for source in sources if job is None or source.job in (None, job)]


def every_rank(sources: Sequence[LogSource]) -> list[LogSource]:
    """Return the files with lines of any rank, by rank; if there are none, all files but kernel logs."""
    spoken = [source for source in sources if source.ranks]
    return sorted(spoken, key=_rank_order) or [s for s in sources if s.file != KERNEL_LOG]


def known_ranks(sources: Iterable[LogSource]) -> list[int]:
    """Return all ranks with lines in any file, ascending."""
    return sorted({rank for source in sources for rank in source.ranks})


_INCIDENT = re.compile(r"incident-\d{1,9}$")
NOTHING_NAMED = {
    "failed": "no rank is known to have failed",
    "slowest": "no rank is known to be the slowest",
}
_RANGE = re.compile(r"(?:r|rank=?)?(\d{1,9})(?:-(\d{1,9}))?$")
RANK = re.compile(r"rank=(\d{1,9})(?:-\d{1,9})?$")
"""A text that names a rank, or the first of a range, as in the filter of nodes."""


Special: TypeAlias = Callable[[str], "Sequence[LogSource]"]
"""A function that returns the sources for the words `failed`, `slowest` and `incident-1`."""


def choose(text: str, fleet: Fleet, special: Special) -> list[LogSource]:
    """Return the sources that a typed text selects, in the order of its words, each once.

    Args:
        text: Words separated by commas or spaces: a rank, a range of ranks, a node (a shell pattern may match
            several), a part of a path with a slash or a star, `incident-1`, `failed`, `slowest`, `all`.
        fleet: The current state.
        special: A function that returns the sources for `failed`, `slowest` and `incident-1`.

    Raises:
        ChoiceError: A word selects nothing.
    """
    sources = all_sources(fleet)
    words = [word for word in re.split(r"[\s,]+", text.strip()) if word]
    if not words:
        raise ChoiceError("give ranks or nodes: 0-7  3,8  gpu-003  failed  slowest  all")
    chosen: dict[LogSource, None] = {}
    for word in words:
        chosen |= dict.fromkeys(_named(word, fleet, sources, special))
    return list(chosen)


def _named(word: str, fleet: Fleet, sources: list[LogSource], special: Special) -> Iterator[LogSource]:
    if word == "all":
        yield from every_rank(sources)
    elif word in NOTHING_NAMED or _INCIDENT.match(word):
        found = special(word)
        if not found:
            raise ChoiceError(NOTHING_NAMED.get(word, f"no log of {word} is known"))
        yield from found
    elif word in fleet.nodes:
        yield from _of_nodes([word], fleet)
    elif match := _RANGE.match(word):
        yield from _of_range(int(match[1]), int(match[2] or match[1]), sources)
    elif names := fnmatch.filter(fleet.nodes, word):
        yield from _of_nodes(names, fleet)
    else:
        yield from _of_paths(word, sources)


def _of_nodes(names: list[str], fleet: Fleet) -> list[LogSource]:
    found = [source for name in names for source in node_sources(fleet.nodes[name])]
    if not found:
        raise ChoiceError(f"no log files are known on {', '.join(names[:3])}")
    return found


def _of_range(first: int, last: int, sources: list[LogSource]) -> Iterator[LogSource]:
    known = known_ranks(sources)
    wanted = [rank for rank in known if first <= rank <= last]
    if not wanted or last < first or last - first > MAX_RANGE:
        named = str(first) if first == last else f"{first}-{last}"
        there = f"there are logs of {ranks_text(known)}" if known else "no log file of any rank is known"
        raise ChoiceError(f"no log of rank {named}; {there}")
    for rank in wanted:
        yield from rank_sources(sources, rank)


def _of_paths(word: str, sources: list[LogSource]) -> list[LogSource]:
    pattern = word if "*" in word or "?" in word else f"*{word}*"
    found = [source for source in sources if fnmatch.fnmatch(source.file, pattern)]
    if not found:
        raise ChoiceError(f"no rank, node or file matches {word!r}")
    return found
