"""Finds the folder that a rank writes into: that of `gpuwatch run`, a new one, or the one of rank 0."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Callable
from zlib import crc32

from ..base.json_files import open_regular, write_text_whole
from ..base.ranks import RankFacts
from .folder import SessionFolder, create_session_folder, is_own_folder, named_folder

JOB_VARIABLES = (
    "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "SLURM_STEP_ID", "MASTER_ADDR", "MASTER_PORT",
    "TORCHELASTIC_RESTART_COUNT",
)  # fmt: skip
MAX_START_GAP_S = 600.0
"""Maximum seconds from the start of rank 0 to that of another rank.

An older pointer belongs to another run.
"""

MAX_POINTER_BYTES = 255
"""Maximum size of a pointer, which contains the name of a folder."""
MAX_SUMMARY_BYTES = 8 << 20
ENDED = frozenset(("completed", "failed", "interrupted"))
"""The states of a session that is over."""


class SessionPlace:
    """The session folder of this rank.

    Without `gpuwatch run`, rank 0 creates the folder and a pointer to it. The other ranks of the job look for
    it when they have something to write; no rank waits.
    """

    def __init__(
        self,
        logs: Path | None,
        facts: RankFacts,
        env: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        env = os.environ if env is None else env
        self._folder = named_folder(env)
        self.is_of_gpuwatch_run = self._folder is not None
        self._logs = logs
        self._facts = facts
        self._began = clock()
        key = "|".join(env.get(name, "") for name in JOB_VARIABLES)
        self._pointer = None if logs is None else logs / f".session_{crc32(key.encode()):08x}"

    @property
    def is_wanted(self) -> bool:
        """True if this rank is to write into a session folder."""
        return self.is_of_gpuwatch_run or self._logs is not None

    def make(self) -> SessionFolder | None:
        """Return the session folder; rank 0 creates one if none was given.

        Other ranks get the folder of `gpuwatch run` or one that `find` has found, else None.

        Raises:
            OSError: the folder cannot be made.
        """
        if self._folder is None and self._logs is not None and self._facts.rank == 0:
            self._folder = create_session_folder(self._logs, self._began)
            if self._facts.world_size > 1 and self._pointer is not None:
                write_text_whole(self._pointer, self._folder.id)
        return self._folder

    def find(self) -> SessionFolder | None:
        """Return the run's session folder if it is known by now, else None."""
        if self._folder is None and self._pointer is not None and self._logs is not None:
            try:
                with os.fdopen(open_regular(self._pointer, os.O_RDONLY), "rb") as file:
                    is_of_this_run = os.fstat(file.fileno()).st_mtime > self._began - MAX_START_GAP_S
                    name = file.read(MAX_POINTER_BYTES).decode().strip()
            except (OSError, UnicodeDecodeError):
                return None
            path = self._logs / name
            is_below = path.parent == self._logs and name.startswith("training_")
            if is_of_this_run and is_below and is_own_folder(path):
                folder = SessionFolder.existing(path)
                self._folder = None if ended_before(folder, self._began) else folder
        return self._folder


def ended_before(folder: SessionFolder, start: float) -> bool:
    """Return True if the summary in a folder states an end before `start` (unix seconds).

    The folder then contains an earlier run.
    """
    try:
        with os.fdopen(open_regular(folder.summary_json, os.O_RDONLY), "rb") as file:
            summary = json.loads(file.read(MAX_SUMMARY_BYTES))
    except (OSError, ValueError, RecursionError):
        return False
    end = summary.get("end") if isinstance(summary, dict) and summary.get("status") in ENDED else None
    return isinstance(end, (int, float)) and end < start
