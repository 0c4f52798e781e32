"""A folder of logs as the screens show it: no node is connected, and time stands at the end of the logs."""

from __future__ import annotations

from typing import Protocol

NOT_IN_LOGS = "not in these logs"
"""Begins what is said where a key needs a living node."""


class LogFolder(Protocol):
    """The logs that were opened, and how far they are read."""

    @property
    def unnamed_node(self) -> str:
        """Where files, ranks and alerts are listed whose node is not known."""
        ...

    @property
    def evidence_command(self) -> str:
        """The command that writes an evidence bundle of these logs; empty: they are not one folder."""
        ...

    @property
    def read_share(self) -> float:
        """How much of the files is read and judged, 0 to 1."""
        ...

    @property
    def outcome(self) -> str:
        """How the job ended, in a few words; empty: not known yet."""
        ...

    @property
    def trouble(self) -> str:
        """Why the logs are not judged; empty: they are, or will be."""
        ...
