"""A session: it opens the links of a plan and moves what they bring into the fleet. It knows no screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.log_stream import LogStream
from gpuwatch.hosts.plan import Plan
from gpuwatch.link.inbox import Inbox
from gpuwatch.link.opening import open_links
from gpuwatch.link.options import Ask, LinkOptions
from gpuwatch.wire import AnyRequest, Cancel, ReadLines, Search, Tail


class Session:
    """Start it, call `poll` at any pace, close it. Also a context manager."""

    def __init__(self, plan: Plan, options: LinkOptions | None = None, ask: Ask | None = None) -> None:
        self.plan = plan
        self.inbox = Inbox()
        self.fleet = Fleet(plan)
        self._asked = 0
        self._links = open_links(plan, self.inbox, options or LinkOptions(), ask)

    def start(self) -> None:
        """Start every link; returns at once."""
        self._links.start()

    def poll(self) -> bool:
        """Move all that has arrived into the fleet; True when anything had."""
        arrivals = self.inbox.drain()
        for arrival in arrivals:
            self.fleet.apply(arrival)
        return bool(arrivals)

    def retry(self, node: str | None = None) -> None:
        """Dial lost nodes now instead of after their wait: one by name, or all; returns at once."""
        self._links.retry(node)

    def tail(self, node: str, file: str, lines: int = 200) -> LogStream:
        """The last lines of a file on a node and every new one, until `drop`."""
        return self._ask(node, file, lambda number: Tail(id=number, file=file, lines=lines))

    def read_lines(
        self,
        node: str,
        file: str,
        *,
        offset: int | None = None,
        time: float | None = None,
        before: int = 0,
        after: int = 0,
    ) -> LogStream:
        """Lines around a byte offset, a time (unix seconds of the node's clock) or the end of a file."""
        return self._ask(
            node,
            file,
            lambda number: ReadLines(
                id=number, file=file, offset=offset, time=time, before=before, after=after
            ),
        )

    def search(
        self, node: str, pattern: str, files: Sequence[str] = (), *, ignore_case: bool = False
    ) -> LogStream:
        """Search files of a node (none named: all that are followed), on the node."""
        stream = self._ask(
            node,
            "",
            lambda number: Search(id=number, pattern=pattern, files=list(files), ignore_case=ignore_case),
        )
        stream.many_files = True
        return stream

    def drop(self, stream: LogStream) -> None:
        """End a tail, a read or a search: nobody looks at it any more."""
        if self.fleet.streams.pop((stream.node, stream.id), None) is not None and not stream.done:
            self._links.send(stream.node, Cancel(id=self._number(), of=stream.id))

    def _ask(self, node: str, file: str, request: Callable[[int], AnyRequest]) -> LogStream:
        number = self._number()
        stream = LogStream(node, file, number)
        self.fleet.streams[node, number] = stream
        if not self._links.send(node, request(number)):
            stream.fail("the node is not connected, or has no agent that reads files")
        return stream

    def _number(self) -> int:
        self._asked += 1
        return self._asked

    def close(self) -> None:
        """Close every link, within 2 s; nothing of ours runs on any node afterwards."""
        self._links.close()

    def __enter__(self) -> Session:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
