"""Nodes with log files, in memory: requests are answered as an agent answers them, through the wire."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from gpuwatch import wire
from gpuwatch.fleet.logs.log_stream import LogStream
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.demo.links import EPOCH
from gpuwatch.link.stream.inbox import Arrival, ClockReading, LinkStatus
from gpuwatch.tui.logs.data.buffer import Buffer
from tests.tui.still import NOW, StillSession

_LEVELS: tuple[tuple[str, wire.Severity], ...] = (
    (r"CRITICAL", "critical"),
    (r"ERROR|Error\b", "error"),
    (r"WARN", "warning"),
)
_STAMP = re.compile(r"(\d\d):(\d\d):(\d\d)\.(\d{3})")
_PREFIX = re.compile(r"\[rank(\d+)\]:")
MIDNIGHT = EPOCH - EPOCH % 86_400
NOON = MIDNIGHT + 12 * 3600
PATH = "/logs/rank_0.log"


@dataclass
class FakeFile:
    """A file: its lines, with their offsets, and what its agent says about it."""

    path: str
    ranks: list[int] = field(default_factory=list)
    lines: list[wire.LogLine] = field(default_factory=list)
    state: str = "following"
    reason: str | None = None

    @property
    def size(self) -> int:
        """Bytes."""
        return self.lines[-1].end if self.lines else 0

    def write(self, text: str, arrived: float | None = None) -> list[wire.LogLine]:
        """Append lines; a clock in the text is the line's own time."""
        new, offset = [], self.size
        for part in text.splitlines():
            end = offset + len(part.encode()) + 1
            stamp, prefix = _STAMP.search(part), _PREFIX.match(part)
            own = None
            if stamp:
                hour, minute, second, ms = (int(group) for group in stamp.groups())
                own = MIDNIGHT + hour * 3600 + minute * 60 + second + ms / 1000
            level = next((name for pattern, name in _LEVELS if re.search(pattern, part)), None)
            rank = int(prefix[1]) if prefix else None
            new.append(wire.LogLine(offset, end, part, own, arrived, rank, level))
            offset = end
        self.lines += new
        return new

    def reported(self) -> wire.LogFile:
        """As the agent lists it."""
        return wire.LogFile(
            path=self.path,
            state=self.state,  # type: ignore[arg-type]
            reason=self.reason,
            size=self.size,
            lines=len(self.lines),
            grown_at=next((line.t for line in reversed(self.lines) if line.t is not None), None),
            ranks=self.ranks,
            rank_from="path" if self.ranks else None,
        )


class LogSession(StillSession):
    """Nodes with files. `hold` keeps the answers back, so that a test sees the screen wait."""

    def __init__(self, files: dict[str, list[FakeFile]], offsets: dict[str, float] | None = None) -> None:
        super().__init__(Plan(nodes=tuple(NodeSpec(name) for name in files), source="hosts.yaml"))
        self.files = files
        self.hold = False
        self.held: list[Arrival] = []
        self.asked: list[tuple[str, str]] = []
        for name, own in files.items():
            clock = ClockReading((offsets or {}).get(name, 0.0), 0.01)
            hello = wire.Hello(t=1.0, seq=0, host=name, agent="1", python="3", pid=1, interval_s=1.0)
            self.report(name, LinkStatus("live"), hello, clock)
            self.report(name, wire.Logs(t=1.0, seq=1, files=[file.reported() for file in own]))
        super().poll()

    def report(self, node: str, *whats: object) -> None:
        """Let something arrive."""
        self.waiting += [Arrival(node, NOW, what) for what in whats]  # type: ignore[arg-type]

    def file(self, node: str, path: str) -> FakeFile | None:
        """A file by its path."""
        return next((file for file in self.files[node] if file.path == path), None)

    def write(self, node: str, path: str, text: str, arrived: float | None = None) -> None:
        """Let a file grow; every tail of it is reported."""
        file = self.file(node, path)
        assert file is not None
        new = file.write(text, arrived)
        for stream in self.fleet.streams.values():
            if (stream.node, stream.file, stream.kind) == (node, path, "tail"):
                self.answer(stream, new, file)

    def answer(self, stream: LogStream, lines: Sequence[wire.LogLine], file: FakeFile | None, *,
               done: bool = False, error: str | None = None, seam: str | None = None,
               progress: float | None = None) -> None:  # fmt: skip
        """One frame, through the wire."""
        frame = wire.Lines(
            t=1.0, seq=2, id=stream.id, file=file.path if file else "", lines=list(lines), seam=seam,
            done=done, size=file.size if file else None, error=error, progress=progress,
        )  # fmt: skip
        arrival = Arrival(stream.node, NOW, wire.decode(wire.encode(frame)))
        (self.held if self.hold else self.waiting).append(arrival)

    def let_go(self) -> None:
        """The held answers arrive."""
        self.waiting += self.held
        self.held, self.hold = [], False

    def tail(self, node: str, file: str, lines: int = 200) -> LogStream:
        """The last lines."""
        self.asked.append(("tail", file))
        stream = self.unanswered(node, file, "tail")
        known = self.file(node, file)
        if known is None or known.state == "unreadable":
            self.answer(stream, [], None, error=known.reason if known else "no such file")
        else:
            self.answer(stream, known.lines[-lines:], known)
        return stream

    def read_lines(
        self, node: str, file: str, *, offset: int | None = None, time: float | None = None, before: int = 0,
        after: int = 0,
    ) -> LogStream:  # fmt: skip
        """A page."""
        self.asked.append(("read", file))
        stream = self.unanswered(node, file, "read")
        known = self.file(node, file)
        if known is None:
            self.answer(stream, [], None, done=True, error="no such file")
            return stream
        lines, at = known.lines, len(known.lines)
        if offset is not None:
            at = next((i for i, line in enumerate(lines) if line.end > offset), len(lines))
        elif time is not None:
            at = next(
                (i for i, line in enumerate(lines) if line.t is not None and line.t >= time), len(lines)
            )
        self.answer(stream, lines[max(0, at - before) : at + after], known, done=True)
        return stream

    def search(
        self, node: str, pattern: str, files: Sequence[str] = (), *, ignore_case: bool = False
    ) -> LogStream:
        """What a pattern is found in, a file at a time."""
        self.asked.append(("search", pattern))
        stream = self.unanswered(node, "", "search")
        wanted = [file for file in self.files[node] if not files or file.path in files]
        matcher = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
        for number, file in enumerate(wanted):
            found = [line for line in file.lines if matcher.search(line.text)]
            self.answer(stream, found, file, progress=(number + 1) / len(wanted))
        self.answer(stream, [], None, done=True)
        return stream


def clock(second: float) -> str:
    """`12:00:03.250` for a second of the story."""
    whole = 12 * 3600 + second
    minutes, seconds = divmod(whole, 60)
    hours, minutes = divmod(int(minutes), 60)
    return f"{hours:02}:{minutes:02}:{seconds:06.3f}"


TRACE = """\
[rank{rank}]: Traceback (most recent call last):
[rank{rank}]:   File "/job/train.py", line 41, in <module>
[rank{rank}]:     main()
[rank{rank}]:   File "/job/train.py", line 33, in main
[rank{rank}]:     loss.backward()
[rank{rank}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.25 GiB"""


def one_file(count: int, path: str = PATH) -> LogSession:
    file = FakeFile(path, [0])
    for number in range(count):
        file.write(f"{clock(number)} line {number}")
    return LogSession({"gpu-001": [file]})


def pulled(session: LogSession, *buffers: Buffer) -> None:
    session.poll()
    for buffer in buffers:
        buffer.pull()


def story(ranks: int = 8, steps: int = 600, failing: int = 5) -> LogSession:
    """Two nodes, a file a rank: steps every half second, one rank fails at the end, the others time out."""
    files: dict[str, list[FakeFile]] = {}
    for rank in range(ranks):
        node = f"gpu-{rank // 4 + 1:03}"
        own = FakeFile(f"/scratch/run7/logs/rank_{rank}.log", [rank])
        for step in range(steps):
            loss = 9.0 - step / 100
            own.write(
                f"{clock(step / 2 + rank / 100)} INFO step {step} loss {loss:.3f} tokens/s {40_000 + rank}"
            )
        end = steps / 2 + 1
        if rank == failing:
            own.write(f"{clock(end)} ERROR allocator: out of memory on cuda:{rank % 4}")
            own.write(TRACE.format(rank=rank))
        else:
            own.write(
                f"{clock(end + 600 + rank / 100)} WARNING watchdog: ALLREDUCE seq {steps} has not returned"
            )
            own.write(f"{clock(end + 601 + rank / 100)} ERROR watchdog: collective timed out on rank {rank}")
        files.setdefault(node, []).append(own)
    for own_files in files.values():
        kernel = FakeFile(wire.KERNEL_LOG)
        kernel.write(f"{clock(3)} nvidia-nvswitch: link up")
        own_files.append(kernel)
    return LogSession(files)


def with_finding(session: LogSession, node: str, path: str, text: str, rank: int) -> wire.Finding:
    """Let the agent tell a finding at the first line that holds a text."""
    file = session.file(node, path)
    assert file is not None
    line = next(line for line in file.lines if text in line.text)
    finding = wire.Finding(
        t=1.0, seq=9, id=len(session.fleet.findings) + 1, rule="cuda.out_of_memory", severity="error",
        file=path, offset=line.offset, at=line.t or EPOCH, timed=True, lines=[line.text], rank=rank,
    )  # fmt: skip
    session.report(node, finding)
    StillSession.poll(session)
    return finding
