"""Textual's driver for terminals, made safe against the loss of the terminal."""

from __future__ import annotations

import contextlib
from typing import Any, TextIO

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver


class IgnoreWriteErrors:
    """A file that drops output which cannot be written, because the terminal is gone.

    Without it, Textual's writer thread dies at the first failure, its bounded queue fills up, and the process
    blocks forever with every connection open.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._file.flush()

    def fileno(self) -> int:
        return self._file.fileno()

    def isatty(self) -> bool:
        return self._file.isatty()


class TerminalDriver(LinuxDriver):
    """LinuxDriver (which Textual also uses on macOS) with an output file that ignores write errors."""

    def __init__(self, app: App[object], **options: Any) -> None:  # noqa: ANN401 - Textual's own
        super().__init__(app, **options)
        if self._file is not None:
            self._file = IgnoreWriteErrors(self._file)  # type: ignore[assignment]  # all that the writer thread asks of a file
