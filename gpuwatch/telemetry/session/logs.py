"""Writes a session's three logs: one process owns them, and every call writes its line at once."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TextIO

from ..base.json_files import open_regular
from ..base.levels import LogLevels
from . import lines
from .folder import SessionFolder

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # every use asks for None first

_LOG = logging.getLogger("gpuwatch.telemetry")
_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND


class SessionLogs:
    """The main, multi-GPU and performance logs of a session.

    Nothing is written before `claim` has succeeded. A full disk or a missing folder never ends the training:
    the failure is logged once, and `failed` counts the failed writes.
    """

    def __init__(
        self,
        folder: SessionFolder,
        rank: int = 0,
        *,
        levels: LogLevels | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.folder = folder
        self.failed = 0
        self._rank = rank
        self._levels = levels or LogLevels.from_environment()
        self._clock = clock
        self._files: dict[str, TextIO] = {}
        self._began = clock()

    @property
    def is_owner(self) -> bool:
        """True if this process writes the three logs."""
        return bool(self._files)

    def claim(self, *, is_restart: bool = False) -> bool:
        """Become the writer of the logs unless another process is; return True if this process is the writer.

        The process that creates the main log owns all three.

        Args:
            is_restart: The launcher has restarted the ranks: continue the files of an ended writer.

        Raises:
            OSError: the folder cannot be written.
        """
        if self._files:
            return True
        try:
            main = _opened(self.folder.main_log, os.O_EXCL)
        except FileExistsError:
            if not is_restart:
                return False
            main = _opened(self.folder.main_log)
        if not _locked(main):
            main.close()
            return False
        self._files["main"] = main
        self._files["multigpu"] = _opened(self.folder.multigpu_log)
        self._files["performance"] = _opened(self.folder.performance_log)
        return True

    def started(self, facts: Mapping[str, Any]) -> None:
        """Write the header; `facts` has the keys of the summary."""
        for text in lines.header(facts):
            self._main("INFO", text)
        self._plain(lines.configuration_block(facts, self._rank))

    def process_group(self, backend: str, world_size: int, local_rank: int) -> None:
        """Write backend, world size and local rank of the process group."""
        for text in (
            f"Distributed backend: {backend}",
            f"World size: {world_size}",
            f"Local rank: {local_rank}",
        ):
            self._worker("multigpu", "INFO", text)

    def step(self, values: Mapping[str, Any]) -> None:
        """Write a step and its numbers; see `lines.step_line` and `lines.step_metrics` for the keys.

        `elapsed_s` is one of them: seconds since the session's start, for a step that did not just end.
        """
        elapsed = values["elapsed_s"] if "elapsed_s" in values else self._clock() - self._began
        metrics = lines.step_metrics(values, elapsed)
        self._plain([lines.step_line(values), lines.metrics_line(metrics)])

    def rank_step(self, step: int, processes: int, local_rank: int, index: int) -> None:
        """Write that a rank has done a step."""
        where = f"Local rank: {local_rank} | Process index: {index}"
        text = f"Multi-GPU Step {step} | Processes: {processes} | {where}"
        self._worker("multigpu", "INFO", text)

    def note(self, text: str) -> None:
        """Write a line to the main log."""
        self._main("INFO", text)

    def evaluation(self, results: Mapping[str, float]) -> None:
        """Write the results of an evaluation."""
        self._plain(lines.evaluation_block(results))

    def communication(
        self,
        operation: str,
        *,
        size_bytes: float | None = None,
        duration_s: float | None = None,
        count: int = 1,
        extra: str = "",
    ) -> None:
        """Write one communication, or `count` of them with their sums."""
        text = lines.communication_line(
            operation, self._rank, size_bytes=size_bytes, duration_s=duration_s, count=count, extra=extra
        )
        self._worker("multigpu", "INFO", text)

    def performance(
        self, step: int, step_time_s: float, samples_per_s: float | None = None, batch: int | None = None
    ) -> None:
        """Write the mean step time and throughput since the last such line."""
        self._worker("performance", "INFO", lines.performance_line(step, step_time_s, samples_per_s, batch))

    def profile(self, line: str) -> None:
        """Write the breakdown of a profiled step."""
        self._worker("performance", "INFO", line)

    def gpu(self, sample: Mapping[str, Any], node: str = "") -> None:
        """Write one reading of a GPU."""
        self._worker("performance", "INFO", lines.gpu_line(sample, node))

    def warning(self, text: str, *, log: str = "performance", level: str = "WARNING") -> None:
        """Write a warning to one of the logs `main`, `multigpu` and `performance`, at a `logging` level."""
        if log == "main":
            self._main(level, text)
        else:
            self._worker(log, level, text)

    def ended(self, status: str) -> None:
        """Write how the session ended, and close the files."""
        self._main("INFO" if status == "completed" else "ERROR", f"TRAINING SESSION ENDED: {status}")
        self.close()

    def close(self) -> None:
        """Close the files."""
        while self._files:
            with contextlib.suppress(OSError):  # every line was flushed, or its failure reported
                self._files.popitem()[1].close()

    def _main(self, level: str, text: str) -> None:
        if self._levels.is_enabled("main", level):
            clock = time.strftime("%H:%M:%S", time.localtime(self._clock()))
            self._write("main", [lines.main_record(clock, level, _one_line(text))])

    def _plain(self, texts: Iterable[str]) -> None:
        if self._levels.is_enabled("main", "INFO"):
            self._write("main", texts)

    def _worker(self, log: str, level: str, text: str) -> None:
        if self._levels.is_enabled(log, level):
            stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self._clock()))
            self._write(log, [lines.worker_record(stamp, level, self._rank, _one_line(text))])

    def _write(self, log: str, texts: Iterable[str]) -> None:
        file = self._files.get(log)
        if file is None:
            return
        try:
            file.write("".join(f"{text}\n" for text in texts))
            file.flush()
        except (OSError, ValueError) as error:  # ValueError: closed at the interpreter's end
            self._report(error)

    def _report(self, error: Exception) -> None:
        if not self.failed:
            _LOG.warning("the logs in %s cannot be written: %s", self.folder.path, error)
        self.failed += 1


def _opened(path: Path, flags: int = 0) -> TextIO:
    return os.fdopen(open_regular(path, _APPEND | flags), "a", encoding="utf-8", errors="replace")


def _locked(file: TextIO) -> bool:
    """Lock the file while it is open; return True if that succeeds, or if the file system has no locks."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _one_line(text: str) -> str:
    return text.replace("\r", " ").replace("\n", " ")
