"""Textual's driver for browsers, over pipes whose other end may be gone."""

from __future__ import annotations

import contextlib
import os
from typing import Any

from textual.app import App
from textual.drivers.web_driver import WebDriver


class BrowserDriver(WebDriver):
    """Writes packets to standard output and reads them from standard input.

    Output is dropped if its reader has ended; the app then exits because of `has_lost`.
    """

    def __init__(self, app: App[object], **options: Any) -> None:  # noqa: ANN401 - Textual's own
        super().__init__(app, **options)
        self._write = self._write_or_drop  # type: ignore[assignment]  # all calls of it ignore the result

    def _write_or_drop(self, data: bytes) -> int:
        left = memoryview(data)
        with contextlib.suppress(OSError):
            while left:
                left = left[os.write(self.fileno, left) :]
        return len(data)


def has_lost(parent: int) -> bool:
    """Return True if the process that started this one (pid `parent`) is gone."""
    return os.getppid() != parent
