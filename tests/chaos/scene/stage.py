"""What a fault is played on: a cockpit that polls its nodes, and what it can count there."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from gpuwatch.session import Session
from tests.chaos.scene.control import Control
from tests.chaos.scene.polling import Polling


class Stage(Protocol):
    """Nodes, and a session that watches them once `watched` is entered."""

    names: Sequence[str]
    session: Session
    polling: Polling
    control: Control

    def watched(self) -> AbstractContextManager[None]:
        """Everything is live inside."""
        ...

    @property
    def running(self) -> Sequence[int]:
        """The ranks that must make steps after a fault."""
        ...

    def step(self, rank: int) -> int:
        """The newest step that is known of a rank."""
        ...

    def agents(self) -> int:
        """The number of agent processes on all nodes."""
        ...

    def files(self) -> set[Path]:
        """The files on all nodes that nobody but an agent can have left."""
        ...
