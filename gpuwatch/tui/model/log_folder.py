"""A folder of logs as the screens show it: no node is connected, and the time is the end of the logs."""

from __future__ import annotations

from typing import Protocol

NOT_IN_LOGS = "not in these logs"
"""Start of the message for a key that needs a connected node."""


class LogFolder(Protocol):
    """The opened logs, and the progress of reading them."""

    @property
    def unnamed_node(self) -> str:
        """The node under which files, ranks and alerts of unknown nodes are listed."""
        ...

    @property
    def evidence_command(self) -> str:
        """The command that writes an evidence bundle of these logs; "" if they are not in one folder."""
        ...

    @property
    def read_share(self) -> float:
        """The fraction (0 to 1) of the files that are already read and judged."""
        ...

    @property
    def outcome(self) -> str:
        """How the job ended, in a few words; "" while unknown."""
        ...

    @property
    def trouble(self) -> str:
        """Why the logs are not judged; "" if they are, or will be."""
        ...
