"""The process of one viewer of `gpuwatch serve`: shows the screens that its JSON argument describes.

Standard input and output are the packets of Textual's web driver. The session's stream comes over an
inherited socket; every viewer plays a recording by itself.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct

from gpuwatch.cli.config.settings import loaded_for_screens
from gpuwatch.link.relay.connection import RelayConnection
from gpuwatch.session.relay.viewer_session import ViewerSession
from gpuwatch.session.replay_session import ReplaySession
from gpuwatch.session.session import Session
from gpuwatch.tui.app import GpuwatchApp
from gpuwatch.tui.browser_driver import BrowserDriver, has_lost
from gpuwatch.tui.model.session_protocol import SharedView

WATCH_S = 0.5
"""Seconds between two checks that the process with the links still exists."""


class ViewerSetup(Struct, frozen=True):
    """The content of a viewer's screens and its options; as JSON the process's only argument."""

    fd: int = -1
    """The socket of the relay."""
    recording: str = ""
    """A recording to play instead of the relay's stream."""
    at: float | None = None
    """The time in the recording to show (unix seconds); None: its beginning."""
    parent: int = 0
    """The pid of the process with the links."""
    changes: bool = False
    hz: float | None = None
    theme: str | None = None


def opened(setup: ViewerSetup) -> Session:
    """Return the session to show: that of the relay, or the replay of the recording.

    The replay is paused at the setup's time if it has one; else it plays.

    Raises:
        RelayError: The process that holds the links is gone.
        RecordingError: The recording cannot be read.
    """
    if not setup.recording:
        return ViewerSession(RelayConnection(socket.socket(fileno=setup.fd)))
    replay = ReplaySession(Path(setup.recording))
    if setup.at is None:
        replay.player.play()
    else:
        replay.player.pause()
        replay.go_to(setup.at)
    return replay


async def show(app: GpuwatchApp, session: Session, parent: int) -> None:
    """Run the screens until the viewer leaves, SIGTERM is received, or the process with the links ends."""
    gc.freeze()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, partial(app.exit, return_code=0))
    watching = asyncio.ensure_future(leave_with(parent, app, session))
    try:
        await app.run_async()
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


async def leave_with(parent: int, app: GpuwatchApp, session: Session) -> None:
    """Exit the app when the process with pid `parent` is gone, or has closed the session's socket."""
    while not has_lost(parent):
        if isinstance(session, ViewerSession) and session.connection.ended.is_set():
            break
        await asyncio.sleep(WATCH_S)
    app.exit(return_code=0)


def main() -> int:
    """Show a viewer's screens; return the exit status."""
    setup = msgspec.json.decode(sys.argv[1], type=ViewerSetup)
    session = opened(setup)
    clock, own = session.clock, loaded_for_screens()
    app = GpuwatchApp(session, clock=clock, hz=setup.hz, preferences=own.values)
    app.driver_class = BrowserDriver
    app.settings_problems = own.problems
    app.shared_view = SharedView(setup.changes)
    if setup.theme is not None and setup.theme in app.available_themes:
        app.theme = setup.theme
    try:
        asyncio.run(show(app, session, setup.parent))
    finally:
        session.close()
    return app.return_code or 0


if __name__ == "__main__":
    sys.exit(main())
