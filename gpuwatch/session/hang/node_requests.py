"""Interface of a session: the requests to nodes that hang queries use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.pending_request import Asked
from gpuwatch.session.hang.dump_transfer import Pieces
from gpuwatch.session.hang.dump_trigger import Asks
from gpuwatch.session.hang.py_spy_upload import Program, UploadRequests
from gpuwatch.session.hang.rank_lines import FileEndReads


class StackRequests(UploadRequests, Protocol):
    """Requests for stacks, by py-spy where available."""

    @property
    def fleet(self) -> Fleet:
        """The nodes and their processes."""
        ...

    @property
    def py_spy(self) -> Program | None:
        """The py-spy to upload to nodes that have none; None: none is uploaded."""
        ...

    def ask_stacks(
        self,
        node: str,
        pids: Sequence[int],
        py_spy: str | None = "",
        seconds: float | None = None,
        *,
        sockets: bool = True,
    ) -> Asked:
        """Request the stacks of these processes; the answer is a `wire.Stacks`."""
        ...


class NodeRequests(Pieces, Asks, StackRequests, FileEndReads, Protocol):
    """All requests of a hang query.

    Each returns an `Asked` at once, which a later poll fills with the answer.
    """

    def ask_ras(self, node: str, pids: Sequence[int]) -> Asked:
        """Request NCCL's RAS report at these processes' addresses; the answer is a `wire.RasAnswers`."""
        ...
