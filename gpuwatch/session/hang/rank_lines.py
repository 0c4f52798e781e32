"""Requests the last lines of the logs of a silent job's ranks: what each announced that it does."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Protocol

from gpuwatch.agent.logs.lines.splitter import line_text
from gpuwatch.diagnose.hang.pausing_lines import MAX_LINES, pausing_by_lines
from gpuwatch.fleet.logs.log_stream import LogStream
from gpuwatch.fleet.nodes.node import Node

MAX_FILES = 8
"""Most files per node whose last lines are requested, those of the lowest ranks first."""
LINE_BYTES = 4096


class FileEndReads(Protocol):
    """Interface of a session: requests for the last lines of node files."""

    def read_lines(self, node: str, file: str, *, before: int = 0) -> LogStream:
        """Request at most `before` lines above the end of a file."""
        ...

    def drop(self, stream: LogStream) -> None:
        """Cancel a request."""
        ...


class RankLines:
    """The last lines of the log files of one job, as far as the nodes have returned them."""

    def __init__(self, session: FileEndReads, nodes: Collection[Node], job: str) -> None:
        self._session = session
        self._open = [
            (ranks, session.read_lines(node.name, path, before=MAX_LINES))
            for node in nodes
            if node.link.phase == "live"
            for path, ranks in sorted(_files(node, job), key=lambda each: each[1])[:MAX_FILES]
        ]

    @property
    def over(self) -> bool:
        """True if all nodes have answered."""
        return all(stream.done for _, stream in self._open)

    def close(self) -> None:
        """Cancel the requests for lines that are still open."""
        for _, stream in self._open:
            if not stream.done:
                self._session.drop(stream)
                stream.fail("no answer")

    @property
    def doing(self) -> dict[int, str]:
        """Return rank -> the line by which it announced a pause."""
        answered = [(ranks, stream) for ranks, stream in self._open if stream.error is None]
        return pausing_by_lines(
            (ranks, [_text(line.text) for line in stream.lines if line.text.strip()])
            for ranks, stream in answered
        )


def _files(node: Node, job: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield each followed log file of the job's ranks on a node with its ranks, unless it is empty."""
    ranks = {each.pid: each.rank for each in node.processes if each.job == job and each.rank is not None}
    for file in node.logs:
        if file.state != "following" or file.source == "kernel" or not file.size:
            continue
        writers = {ranks[pid] for pid in file.pids if pid in ranks}
        if file.job == job:
            writers.update(file.ranks)
        if writers:
            yield file.path, tuple(sorted(writers))


def _text(line: str) -> str:
    """Return the line as displayed: of a progress bar the newest state."""
    return line_text(line.encode("utf-8", "replace")[-LINE_BYTES:])
