"""The options of the screens, and running the screens over a session."""

# ruff: noqa: PLC0415  a command imports only what it uses, so that --help and usage errors stay fast

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import click
from msgspec import Struct
from msgspec.structs import replace

from gpuwatch.cli.shared import completed, exit_codes
from gpuwatch.number_text import plural
from gpuwatch.tui.toolkit.refresh_rate import MAX_HZ, MIN_HZ

if TYPE_CHECKING:
    from gpuwatch.report.delivery.delivery import Delivery
    from gpuwatch.session import Session
    from gpuwatch.session.log_folder.session import FolderSession
    from gpuwatch.session.session_recording import SessionRecording
    from gpuwatch.tui.app import GpuwatchApp
    from gpuwatch.tui.evidence_bundle import BeginEvidence
    from gpuwatch.tui.preferences.file import LoadedPreferences


SCREEN = (
    click.option(
        "--hz",
        type=click.FloatRange(MIN_HZ, MAX_HZ),
        help="Maximum repaints per second. [default: 8, or refresh of the settings]",
    ),
    click.option(
        "--theme",
        metavar="NAME",
        shell_complete=completed.themes,
        help="Theme: gpuwatch, gpuwatch-light, or any Textual theme.",
    ),
    click.option(
        "--ascii", "ascii_only", is_flag=True, default=None, help="Use ASCII instead of symbols and braille."
    ),
    click.option("--no-color", is_flag=True, help="Use no colors (same as NO_COLOR=1)."),
    click.option("--bell", is_flag=True, default=None, help="Ring the terminal bell on each new incident."),
    click.option("--no-mouse", is_flag=True, help="Do not capture the mouse."),
)


def screen_options(command: Callable[..., int]) -> Callable[..., int]:
    """Decorator that adds the screens' options to a command, which passes them on as `ScreenOptions`."""
    for decorate in reversed(SCREEN):
        command = decorate(command)
    return command


class Beside(Struct, frozen=True):
    """The parts that run beside the screens; None for those that the session does not allow."""

    evidence: BeginEvidence | None = None
    """The function that begins an evidence bundle."""
    delivery: Delivery | None = None
    """Delivers alerts."""
    recording: SessionRecording | None = None
    """The recording of the session, which ends with the screens."""


class ScreenOptions(Struct, frozen=True):
    """Values of `screen_options`; missing ones have their defaults."""

    hz: float | None = None
    theme: str | None = None
    ascii_only: bool | None = None
    no_color: bool = False
    no_mouse: bool = False
    bell: bool | None = None


def show_session(
    session: Session | FolderSession, preferred: LoadedPreferences, beside: Beside, look: ScreenOptions
) -> int:
    """Show the screens of a session that is not started; return the exit status.

    The options override the user's settings, whose problems the first screen states. The recording in
    `beside` is closed at the end.

    Raises:
        click.BadParameter: The theme in `look` is unknown.
    """
    from gpuwatch.own_folders import state_folder
    from gpuwatch.tui.app import GpuwatchApp
    from gpuwatch.tui.preferences.file import keep, settings_file

    own = preferred.values
    app = GpuwatchApp(
        session,
        clock=session.clock,
        hz=look.hz,
        ascii_only=look.ascii_only,
        no_color=look.no_color,
        preferences=own if look.bell is None else replace(own, bell=look.bell),
    )
    app.keep = partial(keep, settings_file())
    app.state_folder = state_folder()
    app.evidence.begin, app.delivery = beside.evidence, beside.delivery
    app.recording = beside.recording
    app.settings_problems = preferred.problems
    choose_theme(app, look.theme)
    try:
        return run(app, session, mouse=not look.no_mouse)
    finally:
        if beside.recording is not None:
            beside.recording.close()


def can_draw() -> bool:
    """Return True if all standard streams are terminals and TERM is set to one that can draw."""
    return (
        all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))
        and os.environ.get("TERM", "dumb") != "dumb"
    )


def why_not_drawn() -> str:
    """Return why the screens cannot be shown, such as `stdout is not a terminal`."""
    streams = {"stdin": sys.stdin, "stdout": sys.stdout, "stderr": sys.stderr}
    away = [name for name, stream in streams.items() if not stream.isatty()]
    if away:
        return f"{' and '.join(away)} {'is not a terminal' if len(away) == 1 else 'are not terminals'}"
    return f"TERM is {os.environ.get('TERM') or 'not set'}"


def choose_theme(app: GpuwatchApp, name: str | None) -> None:
    """Set the app's theme; None keeps the current one.

    Raises:
        click.BadParameter: There is no theme of that name.
    """
    if name is None:
        return
    if name not in app.available_themes:
        raise click.BadParameter(
            f"unknown theme {name!r}; choose from {', '.join(sorted(app.available_themes))}"
        )
    app.theme = name


def run(app: GpuwatchApp, session: Session | FolderSession, *, mouse: bool) -> int:
    """Run the screens; return the exit status.

    An internal error is printed after the terminal is restored.
    """
    asyncio.run(until_leaving(app, mouse=mouse))
    if app.faults.count:
        counted = plural(app.faults.count, "internal error")
        click.echo(f"gpuwatch: {counted} in the screens; please report {app.faults.file}", err=True)
    if app.crash is None:
        return app.return_code or exit_codes.HEALTHY
    session.close()
    lines = traceback.format_exception(app.crash)
    click.echo("".join(lines), err=True)
    click.echo("gpuwatch: internal error in the screens; please report the lines above.", err=True)
    return exit_codes.INTERNAL


async def until_leaving(app: GpuwatchApp, *, mouse: bool) -> None:
    """Run the screens until the user quits, or TERM or HUP ends them with the status 128 + signal."""
    collect_rarely()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, partial(app.exit, return_code=128 + number))
    await app.run_async(mouse=mouse)


def collect_rarely() -> None:
    """Make the cyclic garbage collector run rarely: with 8,192 GPUs a run takes 0.1 s and finds nothing.

    Reference counts free old data when newer data replaces it. A run over 10,000 young objects takes 5 ms.
    """
    gc.freeze()
    gc.set_threshold(10_000, 100, 100)
