"""A real terminal: a tmux server of our own with one shell in it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType

from tests.parts import need

ROOT = Path(__file__).parents[3]
WAIT_S = 240.0


class Terminal:
    """A window of the given size, running a plain sh in the project's root."""

    def __init__(self, columns: int = 120, rows: int = 40, **env: str) -> None:
        self._tmux = need("tmux")
        self._folder = tempfile.TemporaryDirectory(prefix="gpuwatch-tmux-")
        self._socket = f"{self._folder.name}/socket"
        self._size = (str(columns), str(rows))
        # pytest exports a size of its own, which programs would believe over the terminal's
        self._own = {key: value for key, value in os.environ.items() if key not in {"COLUMNS", "LINES"}}
        self._env = {"TERM": "screen-256color", "LANG": "C.UTF-8", **env}

    def __enter__(self) -> Terminal:
        columns, rows = self._size
        settings = [part for key, value in self._env.items() for part in ("-e", f"{key}={value}")]
        size = ("-x", columns, "-y", rows)
        self._run(
            "-f", "/dev/null", "new-session", "-d", "-s", "t", *size, *settings, "-c", str(ROOT), "/bin/sh"
        )
        try:
            self.type("PS1='rea''dy$ '; clear")
            self.wait_for(r"^ready\$")
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        self._run("kill-server")
        self._folder.cleanup()

    def type(self, line: str) -> None:
        """Type a line and press Enter."""
        self._run("send-keys", "-t", "t", "-l", line)
        self.press("Enter")

    def press(self, *keys: str) -> None:
        """Press keys by tmux's names: Enter, C-c, Down, q."""
        self._run("send-keys", "-t", "t", *keys)

    def screen(self) -> str:
        """The visible text."""
        return self._run("capture-pane", "-p", "-t", "t")

    def ask(self, variable: str) -> str:
        """A tmux format variable of the pane: alternate_on, cursor_flag, mouse_any_flag, pane_pid."""
        return self._run("display-message", "-p", "-t", "t", f"#{{{variable}}}").strip()

    def wait_for(self, pattern: str, seconds: float = WAIT_S) -> str:
        """Wait until the screen matches; the screen.

        Raises:
            AssertionError: it never did; holds the last screen.
        """
        deadline = time.monotonic() + seconds
        while True:
            screen = self.screen()
            if re.search(pattern, screen):
                return screen
            if time.monotonic() > deadline:
                raise AssertionError(f"{pattern!r} did not appear in {seconds:.0f} s:\n{screen}")
            time.sleep(0.1)

    def wait_for_end_of(self, text: str, seconds: float = WAIT_S) -> None:
        """Wait until the text is no longer on the screen."""
        deadline = time.monotonic() + seconds
        while text in self.screen():
            assert time.monotonic() < deadline, f"{text!r} stays"
            time.sleep(0.1)

    def resize(self, columns: int, rows: int) -> None:
        """Another size of the window."""
        self._run("resize-window", "-t", "t", "-x", str(columns), "-y", str(rows))

    def is_restored(self) -> bool:
        """The shell's own screen is back, its cursor shows, and the mouse is the terminal's again."""
        asked = [self.ask(name) for name in ("alternate_on", "cursor_flag", "mouse_any_flag")]
        return asked == ["0", "1", "0"]

    def _run(self, *argv: str) -> str:
        done = subprocess.run(
            [self._tmux, "-S", self._socket, *argv], check=True, capture_output=True, text=True, env=self._own
        )
        return done.stdout


def quoted(*argv: str) -> str:
    """An argv as a line to type."""
    return shlex.join(argv)
