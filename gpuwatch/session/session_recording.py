"""Records a running session into a file: started and ended by a key, or for the duration of a command."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from gpuwatch.link.recording.retention import Retention
from gpuwatch.link.recording.schema import RecordingError
from gpuwatch.link.recording.writer import RecordingWriter
from gpuwatch.number_text import megabytes
from gpuwatch.own_folders import make_own, state_folder
from gpuwatch.session.session import Session


class SessionRecording:
    """The recording of a session, at most one at a time.

    It begins with what the session's ring still holds.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.writer: RecordingWriter | None = None
        self._detach: Callable[[], None] = lambda: None

    def start(self, path: Path, retention: Retention | None = None, heartbeat: Path | None = None) -> None:
        """Record into a file from now on; the time of each commit is written to the file `heartbeat`.

        Raises:
            RecordingError: the recording cannot be written.
        """
        tee = self._session.keep_stream()
        self.writer = RecordingWriter(path, self._session.plan, tee.nodes, retention, heartbeat)
        self._detach = tee.attach(self.writer)

    def close(self) -> None:
        """Write the remaining data and end the recording; do nothing if there is none."""
        if self.writer is not None:
            self._detach()
            self.writer.close()
            self.writer = None

    @property
    def trouble(self) -> str:
        """Why nothing can be written now; empty: no problem."""
        return "" if self.writer is None else self.writer.state.trouble

    @property
    def status(self) -> str:
        """Text on the recording, such as `recording, 3.4 MB`, or its problem; empty: no recording."""
        if self.writer is None:
            return ""
        state = self.writer.state
        return (
            f"recording: {state.trouble}" if state.trouble else f"recording, {megabytes(state.written_bytes)}"
        )

    def toggle(self) -> str:
        """Start or end the recording; return a sentence that names the file or the reason of a failure."""
        if self.writer is not None:
            path = self.writer.state.path
            self.close()
            return f"recorded into {path}"
        try:
            path = self._start_somewhere()
        except (RecordingError, OSError) as error:
            return f"not recorded: {error}"
        return f"recording into {path}"

    def _start_somewhere(self) -> Path:
        name = time.strftime("gpuwatch-%Y%m%d-%H%M%S.gpw", time.localtime(self._session.clock.wall()))
        try:
            self.start(Path.cwd() / name)
            return Path.cwd() / name
        except RecordingError:
            folder = state_folder()
            make_own(folder)
            self.start(folder / name)
            return folder / name
