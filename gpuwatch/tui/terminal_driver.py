"""Textual's driver for terminals, over a file that survives the terminal."""

from __future__ import annotations

import contextlib
from typing import TextIO

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver


class IgnoreWriteErrors:
    """A file that drops what cannot be written: when the terminal is gone it is not read anyway.

    Without it textual's writer thread dies of the first failure, its bounded queue fills up, and the process
    waits for ever, with every connection open.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> None:
        """Write, or drop."""
        with contextlib.suppress(OSError):
            self._file.write(text)

    def flush(self) -> None:
        """Flush, or drop."""
        with contextlib.suppress(OSError):
            self._file.flush()

    def fileno(self) -> int:
        """Of the file below."""
        return self._file.fileno()

    def isatty(self) -> bool:
        """As the file below."""
        return self._file.isatty()


class TerminalDriver(LinuxDriver):
    """LinuxDriver, and macOS's too."""

    def __init__(
        self,
        app: App[object],
        *,
        debug: bool = False,
        mouse: bool = True,
        size: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        if self._file is not None:
            self._file = IgnoreWriteErrors(self._file)  # type: ignore[assignment]  # all that the writer thread asks of a file
