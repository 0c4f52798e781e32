"""Records the session of a rank: its logs, and its part of the summary, updated while it runs."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from typing import Any, Callable

from ..base.ranks import RankFacts, stated_environment
from .counts import CommunicationCounts, GpuCounts, WarningCounts
from .folder import RUN_VARIABLE, SessionFolder
from .logs import SessionLogs
from .parts import read_parts, wait_for_parts
from .place import SessionPlace
from .summary import merge_parts, write_part, write_summary

_LOG = logging.getLogger("gpuwatch.telemetry")
MAX_ERROR = 2000
"""Maximum length of the error text in a summary."""
WRITE_EVERY_S, WRITE_AT_LINE_S = 15.0, 5.0
"""Seconds between writes of the summary or part: while steps arrive, and at a performance line."""


class SessionRecorder:
    """The session of one rank.

    Rank 0 writes the three logs, and the summary unless `gpuwatch run` does; every other rank writes a part.
    A folder that cannot be written is logged once and never ends the training.
    """

    def __init__(
        self,
        place: SessionPlace,
        facts: RankFacts,
        *,
        wall: Callable[[], float] = time.time,
        before: SessionRecorder | None = None,
    ) -> None:
        """Create a recorder; nothing is written before `start`.

        Args:
            place: Finds the session folder.
            facts: The rank.
            wall: Returns the time in unix seconds.
            before: A recorder whose counts are continued.
        """
        self.logs: SessionLogs | None = None
        self.communication: CommunicationCounts = (
            before.communication if before else CommunicationCounts(facts.rank)
        )
        self.gpus: GpuCounts = before.gpus if before else GpuCounts(facts.host)
        self.warnings: WarningCounts = before.warnings if before else WarningCounts(facts.rank, wall)
        self._place = place
        self._facts = facts
        self._wall = wall
        self._began = wall()
        self._known: dict[str, Any] = {}
        self._written = 0.0
        self._writes = 0
        self._has_failed = False

    @property
    def folder(self) -> SessionFolder | None:
        """The session folder; None if it is not known yet."""
        return self._place.find()

    @property
    def id(self) -> str | None:
        """The session id; None if it is not known yet."""
        folder = self.folder
        return folder.id if folder else None

    def start(self, known: Mapping[str, Any]) -> None:
        """Collect the facts of the session; on rank 0, open its logs. `known`: keys of the summary."""
        from ..base.masks import mask_secrets  # noqa: PLC0415 - compiles 30 patterns: the import stays light
        from .environment import command, packages, system_facts  # noqa: PLC0415 - the import stays light

        run_id = os.environ.get(RUN_VARIABLE) or None
        self._known = {
            "run_id": run_id,
            **known,
            "start": self._began,
            "status": "running",
            "command": command(),
        }
        self._known["environment"] = mask_secrets(stated_environment())
        self._known["configuration"] = mask_secrets(self._known.get("configuration") or {})
        if self._facts.rank == 0:
            self._known.update(packages=packages(), system=system_facts())
        if not self._place.is_wanted or self._facts.rank != 0:
            return
        try:
            folder = self._place.make()
            if folder is None:
                return
            logs = SessionLogs(folder, self._facts.rank)
            is_restart = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") not in {"", "0"}
            if logs.claim(is_restart=is_restart):
                self.logs = logs
                logs.started({**self._known, "id": folder.id})
        except OSError as error:
            self._report(error)

    def update(self, known: Mapping[str, Any]) -> None:
        """Set known keys of the summary; secrets in a configuration are masked."""
        from ..base.masks import mask_secrets  # noqa: PLC0415 - compiles 30 patterns: the import stays light

        self._known.update(known)
        self._known["configuration"] = mask_secrets(self._known.get("configuration") or {})

    def profile(self, step: int, line: str, times_ms: Mapping[str, float]) -> None:
        """Record the breakdown of a profiled step. `times_ms`: the keys of the summary's `profile`."""
        self._known["profile"] = {"step": step, **times_ms}
        if self.logs is not None:
            self.logs.profile(line)

    def is_due(self, *, at_line: bool = False) -> bool:
        """Return True if the summary or part must be written again.

        That is `WRITE_EVERY_S` after the last time; at a performance line (`at_line`) already after
        `WRITE_AT_LINE_S`, or at once if it was written at most once.
        """
        every_s = WRITE_AT_LINE_S if at_line and self._writes > 1 else 0.0 if at_line else WRITE_EVERY_S
        return self._wall() - self._written >= every_s

    def write(self, known: Mapping[str, Any], *, is_final: bool = False) -> None:
        """Write the summary (rank 0) or this rank's part, with the values in `known` and in earlier calls.

        In a run of `gpuwatch run` rank 0 writes a part, too. Secrets in `known` are not masked; `update`
        masks. Without a session folder nothing is written; an error is reported, not raised.
        """
        self._written = self._wall()
        self._writes += 1
        self._known.update(known)
        folder = self._place.find()
        if folder is None:
            return
        facts = {**self._known, "end": self._wall(), "writer": self._known.get("writer")}
        facts["communication"] = self.communication.entries(facts.get("step_seconds"))
        facts["warnings"], facts["gpus"] = (
            self.warnings.entries(),
            self.gpus.entries() or facts.get("gpus") or [],
        )
        facts.pop("step_seconds", None)
        try:
            if self._facts.rank == 0 and not self._place.is_of_gpuwatch_run:
                self._write_summary(folder, facts, is_final=is_final)
            else:
                part = {"rank": self._facts.rank, "final": is_final, **facts}
                write_part(folder.rank_part(self._facts.rank), part)
        except OSError as error:
            self._report(error)

    def finish(self, status: str, known: Mapping[str, Any], error: str | None = None) -> None:
        """Write the final state and close the logs. `error`: why the session failed; secrets are masked.

        Rank 0 waits up to `WAIT_FOR_PARTS_S` for the parts of the other ranks if the session is completed.
        """
        from ..base.masks import mask_text  # noqa: PLC0415 - compiles 30 patterns: the import stays light

        error = None if error is None else mask_text(error)
        self.write({**known, "status": status, "error": error}, is_final=True)
        if self.logs is not None:
            self.logs.ended(status)

    def _write_summary(self, folder: SessionFolder, facts: Mapping[str, Any], *, is_final: bool) -> None:
        if is_final and facts["status"] == "completed":
            wait_for_parts(folder, self._facts.world_size - 1)
        parts = read_parts(folder)
        own = {**facts, "id": folder.id, "parts": sorted(parts)}
        merged = merge_parts(own, list(parts.values()))
        if merged["node_count"] is None:
            merged["node_count"] = len({each.get("node") for each in merged["ranks"]}) or None
        write_summary(folder, merged)

    def _report(self, error: OSError) -> None:
        if not self._has_failed:
            _LOG.warning("the session folder cannot be written; the training continues: %s", error)
        self._has_failed = True


def status_of(error: BaseException | None) -> tuple[str, str | None]:
    """Return the status of a session that ends with this exception, and the error text or None."""
    if error is None or (isinstance(error, SystemExit) and error.code in {None, 0}):
        return "completed", None
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", "KeyboardInterrupt"
    return "failed", f"{type(error).__name__}: {error}"[:MAX_ERROR]
