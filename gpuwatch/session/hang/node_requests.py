"""The part of a session that asks nodes, as the hang queries use it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.pending_request import Asked
from gpuwatch.session.hang.dump_transfer import Pieces
from gpuwatch.session.hang.dump_trigger import Asks
from gpuwatch.session.hang.py_spy_upload import Program, UploadRequests


class StackRequests(UploadRequests, Protocol):
    """Asks what processes do now, by py-spy where there is one."""

    @property
    def fleet(self) -> Fleet:
        """The nodes and their processes."""
        ...

    @property
    def py_spy(self) -> Program | None:
        """The program for nodes that have none."""
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
        """What these processes do now (`wire.Stacks`)."""
        ...


class NodeRequests(Pieces, Asks, StackRequests, Protocol):
    """Every request returns at once; the answer is in the `Asked` after a later poll."""

    def ask_ras(self, node: str, pids: Sequence[int]) -> Asked:
        """What NCCL's RAS reports on the addresses of these processes (`wire.RasAnswers`)."""
        ...
