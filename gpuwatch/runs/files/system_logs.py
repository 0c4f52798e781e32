"""Which collected logs of the kernel and outputs of tools no user of the job can have written."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

from gpuwatch.runs.files.files import LogPath

FIRST_USER = 1000
"""User ids below are the system's (UID_MIN of login.defs)."""


def system_logs(logs: Sequence[LogPath], evidence: Collection[str]) -> frozenset[str]:
    """Names of those that belong to the system or the person, and to no account that owns other files here.

    Of a folder that one account wrote or copied nobody can determine who wrote which file.

    Args:
        logs: All that are scanned.
        evidence: Names of the kernel's logs and outputs of tools among them.
    """
    writers = {log.owner for log in logs if log.name not in evidence}
    return frozenset(log.name for log in logs if log.name in evidence and _is_trusted(log.owner, writers))


def _is_trusted(owner: int, writers: Collection[int]) -> bool:
    is_own = 0 <= owner < FIRST_USER or owner == os.geteuid()
    return is_own and owner not in writers
