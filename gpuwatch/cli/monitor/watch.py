"""`gpuwatch watch`: the screen."""

# ruff: noqa: PLC0415  a command line imports only what it comes to, so that --help and mistakes are answered at once

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from gpuwatch.cli.shared import exit_codes
from gpuwatch.cli.shared.receivers import alertmanager_option, delivering
from gpuwatch.cli.shared.source import Source, lend_option, source_options
from gpuwatch.diagnose.model.text import plural
from gpuwatch.tui.toolkit.refresh_rate import MAX_HZ, MIN_HZ

if TYPE_CHECKING:
    from gpuwatch.diagnose.hang.combined_verdict import HangReport
    from gpuwatch.diagnose.model.incident import Incident
    from gpuwatch.report.evidence.run import EvidenceRun
    from gpuwatch.session import Session
    from gpuwatch.tui.app import GpuwatchApp


SCREEN = (
    click.option(
        "--hz",
        type=click.FloatRange(MIN_HZ, MAX_HZ),
        help="Maximum repaints per second. [default: 8, or refresh of the settings]",
    ),
    click.option("--theme", metavar="NAME", help="Theme: gpuwatch, gpuwatch-light, or any Textual theme."),
    click.option(
        "--ascii", "ascii_only", is_flag=True, default=None, help="Use ASCII instead of symbols and braille."
    ),
    click.option("--no-color", is_flag=True, help="Use no colors (same as NO_COLOR=1)."),
    click.option("--bell", is_flag=True, default=None, help="Ring the terminal bell on each new incident."),
    click.option("--no-mouse", is_flag=True, help="Do not capture the mouse."),
)


def screen_options(command: Callable[..., int]) -> Callable[..., int]:
    """Give a command the options of the screens, which `show` takes."""
    for decorate in reversed(SCREEN):
        command = decorate(command)
    return command


@click.command()
@source_options
@lend_option
@alertmanager_option
@screen_options
def watch(source: Source, **look: Any) -> int:  # noqa: ANN401 - what click parsed
    """Open the screens: a heat map of all GPUs, a table of all nodes; `?` lists the keys.

    Without a terminal it prints the report of `gpuwatch once` and exits.
    """
    return show(source, **look)


def show(
    source: Source, *, hz: float | None, theme: str | None, ascii_only: bool | None, no_color: bool,
    no_mouse: bool, bell: bool | None, alertmanagers: tuple[str, ...] = (),
) -> int:  # fmt: skip
    """Show the screens of a source, or print a report where there is no terminal."""
    if not can_draw():
        from gpuwatch.cli.monitor.once import report_once

        click.echo(f"gpuwatch: no screen, for {why_not_drawn()}: the report of `gpuwatch once`", err=True)
        return report_once(source)
    from gpuwatch.cli.config.settings import loaded
    from gpuwatch.own_folders import state_folder
    from gpuwatch.tui.app import GpuwatchApp
    from gpuwatch.tui.preferences.file import keep, settings_file

    preferred = loaded().values
    if bell is not None:
        preferred = replace(preferred, bell=bell)
    session = opened(source)
    try:
        app = GpuwatchApp(
            session,
            clock=session.clock.monotonic,
            wall=session.clock.wall,
            hz=hz,
            ascii_only=ascii_only,
            no_color=no_color,
            preferences=preferred,
            keep=partial(keep, settings_file()),
        )
        app.state_folder = state_folder()
        app.evidence.begin = partial(begin_evidence, session)
        choose_theme(app, theme)
        with delivering(source, alertmanagers, preferred.alerts) as app.delivery:
            return run(app, session, mouse=not no_mouse)
    finally:
        session.close()


def begin_evidence(
    session: Session, incident: Incident | None, job: str | None, hang: HangReport | None
) -> EvidenceRun:
    """Begin the bundle of an incident, else of a job, with the newest answers of its ranks."""
    from gpuwatch.report.evidence.run import begin_bundle

    known = session.hang_report(job if incident is None else incident.job)
    return begin_bundle(session, incident, job, hang or known)


def opened(source: Source) -> Session:
    """The session of the screens: live, with its recent past kept, or a recording that plays."""
    if source.recording is None:
        session = source.session()
        session.keep_stream()
        return session
    replay = source.replay(source.recording, from_start=True)
    replay.player.play()
    return replay


def can_draw() -> bool:
    """Whether a screen can be shown and keys can be read here. Textual paints through stderr."""
    return (
        all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))
        and os.environ.get("TERM", "dumb") != "dumb"
    )


def why_not_drawn() -> str:
    """What keeps the screen from being shown."""
    streams = {"stdin": sys.stdin, "stdout": sys.stdout, "stderr": sys.stderr}
    away = [name for name, stream in streams.items() if not stream.isatty()]
    if away:
        return f"{' and '.join(away)} {'is' if len(away) == 1 else 'are'} not a terminal"
    return f"TERM is {os.environ.get('TERM') or 'not set'}"


def choose_theme(app: GpuwatchApp, name: str | None) -> None:
    """Set the theme.

    Raises:
        click.BadParameter: there is no such theme.
    """
    if name is None:
        return
    if name not in app.available_themes:
        raise click.BadParameter(
            f"unknown theme {name!r}; choose from {', '.join(sorted(app.available_themes))}"
        )
    app.theme = name


def run(app: GpuwatchApp, session: Session, *, mouse: bool) -> int:
    """Run the screen; after a fault of ours the terminal is restored first, then it is reported."""
    asyncio.run(until_leaving(app, mouse=mouse))
    if app.faults.count:
        counted = plural(app.faults.count, "fault")
        click.echo(f"gpuwatch: the screen survived {counted}; please report {app.faults.file}", err=True)
    if app.crash is None:
        return app.return_code or exit_codes.HEALTHY
    session.close()
    lines = traceback.format_exception(app.crash)
    click.echo("".join(lines), err=True)
    click.echo("gpuwatch: internal error in the screens; please report the lines above.", err=True)
    return exit_codes.INTERNAL


async def until_leaving(app: GpuwatchApp, *, mouse: bool) -> None:
    """Run the screen. TERM and a closed terminal end it as the key does, and the terminal is given back."""
    collect_rarely()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, partial(app.exit, return_code=128 + number))
    await app.run_async(mouse=mouse)


def collect_rarely() -> None:
    """Let the cycle collector walk seldom: over the facts of 8,192 GPUs it takes 0.1 s, and finds nothing.

    What a node reports is freed by its reference count when newer words replace it.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
