"""The demo's incident with its log files: requests are answered as the demo's nodes answer them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from functools import cache

from gpuwatch import wire
from gpuwatch.fleet.logs.log_stream import LogStream
from gpuwatch.link.demo.links import EPOCH, SEED
from gpuwatch.link.demo.logs import NodeLogs
from gpuwatch.link.stream.inbox import Arrival
from tests.tui.logs.log_desk import Desk
from tests.tui.logs.log_nodes import LogSession
from tests.tui.still import NOW, StillSession, judged_session, still_app

NODES = 16


@contextlib.asynccontextmanager
async def demo_desk(
    size: tuple[int, int] = (120, 40), session: DemoLogs | LogSession | None = None
) -> AsyncIterator[Desk]:
    """The demo after its incident, on its first screen."""
    now = [NOW]
    app = still_app(session or DemoLogs(), 95, clock=lambda: now[0])
    async with app.run_test(size=size) as pilot:
        yield Desk(pilot, app, now)


class DemoLogs(StillSession):
    """The demo after its incident, which stands still; `reads` counts the pages that were read."""

    def __init__(self, second: float = 95.0) -> None:
        judged = judged_session(second)
        super().__init__(judged.plan, book=judged.book, fleet=judged.fleet)
        self.packs, self.second, self.reads = judged.packs, second, 0

    def acknowledge(self, ident: str) -> None:
        """The book does."""
        self.book.acknowledge(ident)

    def _ask(self, stream: LogStream, request: wire.AnyRequest) -> LogStream:
        for frame in _logs(stream.node).answer(request, self.second):
            reported = wire.decode(wire.encode(frame))
            self.waiting.append(Arrival(stream.node, NOW, reported))
        return stream

    def tail(self, node: str, file: str, lines: int = 200) -> LogStream:
        """The last lines."""
        stream = self.unanswered(node, file, "tail")
        return self._ask(stream, wire.Tail(id=stream.id, file=file, lines=lines))

    def read_lines(
        self, node: str, file: str, *, offset: int | None = None, time: float | None = None, before: int = 0,
        after: int = 0,
    ) -> LogStream:  # fmt: skip
        """A page."""
        self.reads += 1
        stream = self.unanswered(node, file, "read")
        page = wire.ReadLines(id=stream.id, file=file, offset=offset, time=time, before=before, after=after)
        return self._ask(stream, page)

    def search(
        self, node: str, pattern: str, files: Sequence[str] = (), *, ignore_case: bool = False
    ) -> LogStream:
        """What a pattern is found in."""
        stream = self.unanswered(node, "", "search")
        wanted = wire.Search(id=stream.id, pattern=pattern, files=list(files), ignore_case=ignore_case)
        self._ask(stream, wanted)
        while (frame := _logs(node).work()) is not None:
            self.waiting.append(Arrival(node, NOW, wire.decode(wire.encode(frame))))
        return stream


@cache
def _logs(node: str) -> NodeLogs:
    return NodeLogs(SEED, int(node.removeprefix("gpu-")) - 1, node, NODES, EPOCH, 0.0)
