"""The session over a log folder: the same fleet, alerts and requests as for nodes, without connections."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpuwatch.clock import SessionClock
from gpuwatch.diagnose.model.alert import Silence
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.logs.log_stream import LogStream
from gpuwatch.fleet.stepwise import Steps
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.stream.inbox import Arrival, ClockReading, LinkStatus
from gpuwatch.rules.load import Packs
from gpuwatch.runs.files.files import Gathered
from gpuwatch.session.log_folder.book import FolderBook
from gpuwatch.session.log_folder.judging import FolderTask, report_of, serve_judgement
from gpuwatch.session.log_folder.listing import listing
from gpuwatch.session.log_folder.processes import FolderProcess, serve_lines, serve_searches
from gpuwatch.session.log_folder.report import UNNAMED_NODE, FolderReport, ReadSoFar
from gpuwatch.session.request_sender import LineRequester
from gpuwatch.shell_command import command_line
from gpuwatch.wire import AnyRequest, Cancel, Lines, decode

if TYPE_CHECKING:
    from gpuwatch.diagnose.actions.action import Action, ActionTarget
    from gpuwatch.diagnose.training.job_view.rank_placement import PlacedRank, RankPlacement
    from gpuwatch.probe.orchestration.conductor import Conductor
    from gpuwatch.probe.probe_request import ProbeRequest
    from gpuwatch.session.actions.execution import ActionRun
    from gpuwatch.session.hang.hang_query import HangQuery
    from gpuwatch.session.profile_query import ProfileQuery

NOT_KEPT = "for these logs only: silences over logs are not saved"
BUNDLE = "evidence.zip"
ORDER_S = 1e-3
"""Seconds between the times of two reports, so that screens recognise new entries by their time."""


class NotInLogsError(Exception):
    """Raised for a request that needs a live node."""


class FolderSession(LineRequester):
    """A session over log files. Its clock stands still at the end of the logs.

    It forks, so create it before any thread is started.
    """

    def __init__(self, paths: Sequence[Path], found: Gathered, packs: Packs) -> None:
        """Start the processes that read, search and judge.

        Args:
            paths: The paths that the user gave.
            found: The logs found there, for the first listing.
            packs: The rules.
        """
        super().__init__()
        self.packs = packs
        self.job = job_name(paths)
        self.probes: tuple[Conductor, ...] = ()
        self.clock = SessionClock(self.now, self.now)
        self.folder = self
        self.book = FolderBook(self.job)
        self.progress = ReadSoFar(0, 0)
        self.report = report_of(found, listing(found), self.job)
        self.plan = Plan(())
        self.fleet = Fleet(self.plan, packs)
        self._paths = tuple(paths)
        self._source = ", ".join(str(path) for path in paths)
        self._streams: dict[int, LogStream] = {}
        self._reports = 0
        self._lines = FolderProcess(serve_lines)
        self._searches = FolderProcess(serve_searches)
        self._judge = FolderProcess(serve_judgement, FolderTask(tuple(paths), packs, self.job, found))
        self._take(self.report)

    def now(self) -> float:
        """Return the end of the logs (unix seconds), which serves as the monotonic and the wall clock."""
        return max(1.0, self.report.ended_at) + ORDER_S * self._reports

    def start(self) -> None:
        """No-op: the processes of a log folder run from the creation of the session on."""

    def take_trouble(self) -> str | None:
        """Return None: nothing is stored for later sessions, so nothing can fail."""

    def poll(self) -> bool:
        """Process what the child processes have sent; return True if there was anything."""
        moved = False
        for message in received(self._judge):
            moved = True
            if isinstance(message, FolderReport):
                self._take(message)
            elif isinstance(message, ReadSoFar):
                self.progress = message
        for process in (self._lines, self._searches):
            for data in received_bytes(process):
                moved = True
                self._deliver(data)
        return moved

    def polling(self) -> Steps[bool]:
        """Do what `poll` does, in one step."""
        yield from ()
        return self.poll()

    @property
    def unnamed_node(self) -> str:
        """Node name for files, ranks and alerts whose node is unknown."""
        return UNNAMED_NODE

    @property
    def evidence_command(self) -> str:
        """The command that writes an evidence bundle of these logs.

        Empty if they are not exactly one folder.
        """
        if len(self._paths) != 1 or not self._paths[0].is_dir():
            return ""
        return command_line(["gpuwatch", "evidence", str(self._paths[0].resolve()), "-o", BUNDLE])

    @property
    def read_share(self) -> float:
        """Share of the files that is read and judged, 0 to 1."""
        if self.report.whole:
            return 1.0
        return min(0.99, self.progress.bytes / max(1, self.report.bytes))

    @property
    def outcome(self) -> str:
        """How the job ended, as text; empty until something is judged."""
        if not self.report.judged:
            return ""
        text = self.report.judgement.end.text
        return text if self.book.incidents else f"{text}; no incident"

    @property
    def trouble(self) -> str:
        """Why the logs cannot be judged; empty: no problem."""
        if self._judge.alive or self.report.whole:
            return ""
        return "the process that judges the logs has ended; open them again, or use gpuwatch scan"

    def _take(self, report: FolderReport) -> None:
        self.report = report
        self._reports += 1
        files = list(report.files)
        self._lines.send(files)
        self._searches.send(files)
        nodes = tuple(NodeSpec(name, link="logs") for name in report.nodes)
        self.plan = Plan(nodes, source=self._source)
        earlier, self.fleet = self.fleet, Fleet(self.plan, self.packs)
        follow(self.fleet, earlier)
        at = self.now()
        for name, frames in report.nodes.items():
            for what in (LinkStatus("live"), ClockReading(0.0, 0.0), *frames):
                self.fleet.apply(Arrival(name, at, what))
        for writer in report.writers:
            key = (writer.node, writer.file, writer.rank, writer.local_rank, writer.pid, writer.host)
            self.fleet.progress.writers[key] = writer
        self.fleet.progress.version += 1
        self.book.take(report)

    def _deliver(self, data: bytes) -> None:
        frame = decode(data)
        if isinstance(frame, Lines) and (stream := self._streams.get(frame.id)) is not None:
            stream.take(frame)
            if stream.done:
                del self._streams[frame.id]

    # ---- lines

    def search(
        self, node: str, pattern: str, files: Sequence[str] = (), *, ignore_case: bool = False
    ) -> LogStream:
        """Search the given files, or all files of the node."""
        known = self.fleet.nodes.get(node)
        named = list(files) or [file.path for file in (known.logs if known is not None else ())]
        return super().search(node, pattern, named, ignore_case=ignore_case)

    def drop(self, stream: LogStream) -> None:
        """Cancel a tail, a read or a search."""
        if self._streams.pop(stream.id, None) is not None:
            self._process_of(stream).send(Cancel(id=stream.id, of=stream.id))

    def _keep(self, stream: LogStream) -> None:
        self._streams[stream.id] = stream

    def _send(self, stream: LogStream, request: AnyRequest) -> None:
        if not self._process_of(stream).send(request):
            stream.fail("the process that reads the files has ended")

    def _process_of(self, stream: LogStream) -> FolderProcess:
        return self._searches if stream.kind == "search" else self._lines

    # ---- marks of the operator

    def note(self, _incident: str, _text: str) -> str | None:
        """Return the reason why notes on log files are not stored."""
        return "notes about the logs of a folder are not kept"

    def acknowledge(self, ident: str) -> None:
        """Acknowledge an alert or an incident."""
        self.book.acknowledge(ident)

    def unacknowledge(self, ident: str) -> None:
        """Remove the acknowledgement of an alert or an incident."""
        self.book.unacknowledge(ident)

    def silence(
        self, code: str, *, node: str | None = None, gpu: int | None = None, rank: int | None = None
    ) -> str | None:
        """Silence matching alerts for this session; return the reason why this is not stored."""
        self.book.silence(Silence(code, node, gpu, rank))
        return NOT_KEPT

    def unsilence(
        self, code: str, *, node: str | None = None, gpu: int | None = None, rank: int | None = None
    ) -> str | None:
        """Remove a silence; return None."""
        self.book.unsilence(Silence(code, node, gpu, rank))
        return None

    # ---- requests that need a live node

    def enter(self, node: str) -> None:
        """No-op: no node is connected."""

    def retry(self, node: str | None = None) -> None:
        """No-op: no node is connected."""

    def inquire(self) -> HangQuery:
        """Raise `NotInLogsError`: log files have no ranks to query.

        Raises:
            NotInLogsError: always.
        """
        raise NotInLogsError("not in these logs: the ranks have ended")

    def profile(self, places: Sequence[PlacedRank], placement: RankPlacement) -> ProfileQuery:  # noqa: ARG002 - as above
        """Raise `NotInLogsError`: log files have no ranks to profile.

        Raises:
            NotInLogsError: always.
        """
        raise NotInLogsError("not in these logs: the ranks have ended")

    def act(self, action: Action, target: ActionTarget) -> ActionRun:  # noqa: ARG002 - as of the live session
        """Raise `NotInLogsError`: log files have no node to run an action on.

        Raises:
            NotInLogsError: always.
        """
        raise NotInLogsError("not in these logs: an action needs the nodes")

    def probe(self, request: ProbeRequest) -> Conductor:  # noqa: ARG002 - as of the live session
        """Raise `NotInLogsError`: log files have no links to probe.

        Raises:
            NotInLogsError: always.
        """
        raise NotInLogsError("not in these logs: a probe needs the nodes")

    def close(self) -> None:
        """Stop the processes."""
        for process in (self._judge, self._searches, self._lines):
            process.close()

    def __enter__(self) -> FolderSession:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def job_name(paths: Sequence[Path]) -> str:
    """Return the name of the folder, or of the first of several paths."""
    first = paths[0].resolve()
    return first.name or str(first)


def follow(fleet: Fleet, earlier: Fleet) -> None:
    """Set the new fleet's version counters above those of the fleet that it replaces."""
    fleet.version, fleet.progress.version = earlier.version + 1, earlier.progress.version + 1
    fleet.findings_version = earlier.findings_version + 1
    fleet.logs_version = earlier.logs_version + 1
    for name, node in fleet.nodes.items():
        known = earlier.nodes.get(name)
        node.version = 0 if known is None else known.version + 1


def received(process: FolderProcess) -> Iterator[object]:
    """Yield the messages that have arrived from a child process."""
    try:
        while process.pipe.poll():
            yield process.pipe.recv()
    except (EOFError, OSError):
        return


def received_bytes(process: FolderProcess) -> Iterator[bytes]:
    """Yield the encoded frames that have arrived from a child process."""
    try:
        while process.pipe.poll():
            yield process.pipe.recv_bytes()
    except (EOFError, OSError):
        return
