"""Sends a session's requests to its nodes; each is kept in the fleet until it is answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import structs

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.logs.log_stream import LogStream, StreamKind
from gpuwatch.fleet.pending_request import Asked
from gpuwatch.link.stream.inbox import LinkStatus
from gpuwatch.wire import (
    AnyRequest,
    AskDumpFiles,
    AskDumpPiece,
    AskDumps,
    AskJobFiles,
    AskJobPiece,
    AskKernels,
    AskProfile,
    AskRankSettings,
    AskRas,
    AskStacks,
    AskSystemSettings,
    Cancel,
    LongRequest,
    ReadLines,
    Search,
    SetInterval,
    Tail,
    UploadPySpy,
)


class LineRequester:
    """Numbers requests for lines and hands them to `_send`."""

    def __init__(self) -> None:
        self._asked = 0

    def tail(self, node: str, file: str, lines: int = 200) -> LogStream:
        """Request the last `lines` lines of a file on a node and every new one, until `drop`.

        The tail survives a lost link: when the node is back, it continues at its position.
        """
        stream = self._open(node, file, "tail")
        self._send(stream, Tail(id=stream.id, file=file, lines=lines))
        return stream

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
        """Request lines around a byte offset, a time (unix seconds on the node) or the end of a file."""
        stream = self._open(node, file, "read")
        around = ReadLines(id=stream.id, file=file, offset=offset, time=time, before=before, after=after)
        self._send(stream, around)
        return stream

    def search(
        self, node: str, pattern: str, files: Sequence[str] = (), *, ignore_case: bool = False
    ) -> LogStream:
        """Search the given files of a node, or all followed ones, on the node."""
        stream = self._open(node, "", "search")
        self._send(stream, Search(id=stream.id, pattern=pattern, files=list(files), ignore_case=ignore_case))
        return stream

    def _open(self, node: str, file: str, kind: StreamKind) -> LogStream:
        stream = LogStream(node, file, self._number(), kind=kind)
        self._keep(stream)
        return stream

    def _number(self) -> int:
        self._asked += 1
        return self._asked

    def _keep(self, stream: LogStream) -> None:
        """Store an open stream, to which later answers are added."""
        raise NotImplementedError

    def _send(self, stream: LogStream, request: AnyRequest) -> None:
        """Send the request of a stream, or let the stream fail."""
        raise NotImplementedError


class RequestSender(LineRequester):
    """Numbers requests, sends them, and fails the open ones when the link of their node is lost."""

    def __init__(self, fleet: Fleet, send: Callable[[str, AnyRequest], bool]) -> None:
        """Create the sender; open requests and their answers are kept in `fleet`.

        `send` takes a node and a request; it returns False if it could not send.
        """
        super().__init__()
        self.fleet = fleet
        self._report = send

    def read_text(self, node: str, file: str, offset: int, lines: int) -> LogStream:
        """Request lines from a byte offset on, with offsets and text only, which costs the node less."""
        stream = self._open(node, file, "read")
        self._send(stream, ReadLines(id=stream.id, file=file, offset=offset, after=lines, bare=True))
        return stream

    def set_interval(self, node: str, seconds: float) -> bool:
        """Request another interval between a node's samples; return False if it could not be sent."""
        return self._report(node, SetInterval(id=self._number(), seconds=seconds))

    def ask_rank_settings(
        self, node: str, reach: Sequence[str] = (), ports: Sequence[int] = (), pids: Sequence[int] = ()
    ) -> Asked:
        """Request a node's rank settings, and whether it can connect to `reach` (`wire.NodeSettings`)."""
        request = AskRankSettings(id=self._number(), reach=list(reach), ports=list(ports), pids=list(pids))
        return self._ask(node, request)

    def ask_system_settings(self, node: str) -> Asked:
        """Request firmware, kernel, network and driver settings of a node (`wire.SystemSettings`)."""
        return self._ask(node, AskSystemSettings(id=self._number()))

    def ask_stacks(
        self,
        node: str,
        pids: Sequence[int],
        py_spy: str | None = "",
        seconds: float | None = None,
        *,
        sockets: bool = True,
    ) -> Asked:
        """Request the stacks of processes (`wire.Stacks`); `session.hang.hang_query` queries all nodes."""
        request = AskStacks(
            id=self._number(), pids=list(pids), py_spy=py_spy, seconds=seconds, sockets=sockets
        )
        return self._ask(node, request)

    def ask_profile(
        self, node: str, pids: Sequence[int], *, seconds: int, rate: int, blocking: bool, py_spy: str = ""
    ) -> Asked:
        """Request samples of processes (`wire.Profiles`); `session.profile_query` profiles ranks."""
        request = AskProfile(
            id=self._number(), pids=list(pids), seconds=seconds, rate=rate, blocking=blocking, py_spy=py_spy
        )
        return self._ask(node, request)

    def ask_kernels(self, node: str, pids: Sequence[int], seconds: int) -> Asked:
        """Request that processes record their GPU kernels (`wire.Kernels`)."""
        return self._ask(node, AskKernels(id=self._number(), pids=list(pids), seconds=seconds))

    def upload_py_spy(self, node: str, piece: str, offset: int, size: int, digest: str) -> Asked:
        """Send a piece of py-spy to a node's agent (`wire.UploadResult`).

        See `session.hang.py_spy_upload`.
        """
        number = self._number()
        return self._ask(node, UploadPySpy(id=number, piece=piece, offset=offset, size=size, digest=digest))

    def ask_ras(self, node: str, pids: Sequence[int]) -> Asked:
        """Request NCCL's RAS report at the addresses of these processes (`wire.RasAnswers`)."""
        return self._ask(node, AskRas(id=self._number(), pids=list(pids)))

    def ask_dumps(self, node: str, pids: Sequence[int]) -> Asked:
        """Request that processes write their flight-recorder dumps on the node (`wire.DumpResults`)."""
        return self._ask(node, AskDumps(id=self._number(), pids=list(pids)))

    def ask_dump_files(self, node: str, pids: Sequence[int]) -> Asked:
        """Request the list of dumps that these processes' job left on the node (`wire.DumpPlaces`)."""
        return self._ask(node, AskDumpFiles(id=self._number(), pids=list(pids)))

    def ask_dump_piece(self, node: str, pid: int, prefix: str, name: str, offset: int) -> Asked:
        """Request a piece of a dump (`wire.DumpPiece`); one at a time per node."""
        request = AskDumpPiece(id=self._number(), pid=pid, prefix=prefix, name=name, offset=offset)
        return self._ask(node, request)

    def ask_job_files(self, node: str, logs: Sequence[str], wanted: str) -> Asked:
        """Request the files in the folders of these logs (`wire.JobFolders`)."""
        return self._ask(node, AskJobFiles(id=self._number(), logs=list(logs), wanted=wanted))

    def ask_job_piece(self, node: str, log: str, name: str, offset: int) -> Asked:
        """Request a piece of a file in the folder of a log (`wire.DumpPiece`); one at a time per node."""
        return self._ask(node, AskJobPiece(id=self._number(), log=log, name=name, offset=offset))

    def drop(self, stream: LogStream) -> None:
        """Cancel a tail, a read or a search."""
        if self.fleet.streams.pop((stream.node, stream.id), None) is not None:
            self._report(stream.node, Cancel(id=self._number(), of=stream.id))

    def forward(self, node: str, request: AnyRequest) -> int | None:
        """Send a request of a viewer's process under a new number of this session, and return that number.

        Return None if it could not be sent. The answer is not kept in the fleet.
        """
        number = self._number()
        return number if self._report(node, structs.replace(request, id=number)) else None

    def _ask(self, node: str, request: LongRequest) -> Asked:
        asked = Asked(node, request.id)
        self.fleet.asked[node, asked.id] = asked
        if not self._report(node, request):
            asked.error = "the node is not connected, or has no agent"
            del self.fleet.asked[node, asked.id]
        return asked

    def _keep(self, stream: LogStream) -> None:
        self.fleet.streams[stream.node, stream.id] = stream

    def _send(self, stream: LogStream, request: AnyRequest) -> None:
        if not self._report(stream.node, request) and stream.kind != "tail":
            stream.fail("the node is not connected, or has no agent that reads files")

    def _link_changed(self, node: str, link: LinkStatus) -> None:
        """Handle a new phase of a link: tails resume when it is live; other requests fail when it is lost."""
        if link.phase == "lost":
            for asked in [one for one in self.fleet.asked.values() if one.node == node]:
                asked.error = "the link was lost: " + link.reason
                del self.fleet.asked[node, asked.id]
        for stream in [one for one in self.fleet.streams.values() if one.node == node]:
            if stream.kind != "tail":
                if link.phase == "lost":
                    stream.fail("the link was lost: " + link.reason)
                    del self.fleet.streams[node, stream.id]
            elif link.phase == "live":
                self._resume(stream)

    def _resume(self, stream: LogStream) -> None:
        offset = stream.resume()
        self._report(stream.node, Tail(id=stream.id, file=stream.file, offset=offset))
