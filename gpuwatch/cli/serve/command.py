"""`gpuwatch serve`: the screens in a browser, for several viewers of one session."""

# ruff: noqa: PLC0415  a command imports only what it uses, so that --help and usage errors stay fast

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from gpuwatch.cli.shared import completed, exit_codes
from gpuwatch.cli.shared.receivers import alertmanager_option, delivering, tell_trouble
from gpuwatch.cli.shared.signals import leaving_politely
from gpuwatch.cli.shared.source import Refusal, Source, source_options
from gpuwatch.tui.toolkit.refresh_rate import MAX_HZ, MIN_HZ

if TYPE_CHECKING:
    from gpuwatch.report.browser.server import BrowserServer
    from gpuwatch.report.browser.viewer_process import ViewerProcess
    from gpuwatch.report.delivery.delivery import Delivery
    from gpuwatch.session import Session
    from gpuwatch.session.relay.relay import ViewerRelay

POLL_S = 0.1
DEFAULT_LISTEN = "127.0.0.1:9481"
NEEDED = ("aiohttp", "textual_serve")


@click.command()
@source_options
@click.option(
    "--listen", metavar="HOST:PORT", default=DEFAULT_LISTEN, show_default=True,
    help="Address to serve the page on; port 0 chooses a free port, :PORT listens on all interfaces.",
)  # fmt: skip
@click.option(
    "--allow-changes", is_flag=True,
    help="Let viewers acknowledge, silence, write notes and reconnect nodes (default: read-only).",
)  # fmt: skip
@click.option(
    "--max-viewers", type=click.IntRange(1, 200), default=8, show_default=True,
    help="Maximum number of viewers; each is a process of about 100 MB on this machine.",
)  # fmt: skip
@click.option("--hz", type=click.FloatRange(MIN_HZ, MAX_HZ), help="Maximum repaints per second.")
@click.option(
    "--theme",
    metavar="NAME",
    shell_complete=completed.themes,
    help="Theme of the pages: gpuwatch, gpuwatch-light, ...",
)
@alertmanager_option
def serve(
    source: Source,
    listen: str,
    allow_changes: bool,
    max_viewers: int,
    hz: float | None,
    theme: str | None,
    alertmanagers: tuple[str, ...],
) -> int:
    """Serve the screens to browsers; prints the address, which holds a token. Ctrl-C ends all viewers.

    All viewers share one session: a node is connected once for all of them. They are read-only
    unless --allow-changes is given; probes, actions and recordings are made from a terminal. See
    docs/serve.md.

    Exit status: 0 ended by Ctrl-C or TERM, 2 wrong usage, or the address cannot be bound.
    """
    check_installed()
    setup: dict[str, Any] = {"parent": os.getpid(), "changes": allow_changes, "hz": hz, "theme": theme}
    with leaving_politely():
        if source.recording is not None:
            setup |= {"recording": str(source.recording), "at": recorded_moment(source)}
            server = open_server(listen, source, Viewers(setup, None), max_viewers)
            return run(server, None, None)
        from gpuwatch.cli.config.settings import configured_receivers
        from gpuwatch.session.relay.relay import ViewerRelay

        with delivering(source, alertmanagers, configured_receivers()) as delivery:
            session = replace(source, options=replace(source.options, waits_for_demo=False)).session()
            relay = ViewerRelay(session, changes=allow_changes)
            try:
                server = open_server(listen, source, Viewers(setup, relay), max_viewers)
                return run(server, Collector(session, relay, delivery), session)
            finally:
                relay.close()
                session.close()


def check_installed() -> None:
    """Check that the packages of the extra `serve` are installed.

    Raises:
        Refusal: A package is not installed.
    """
    if any(importlib.util.find_spec(name) is None for name in NEEDED):
        raise Refusal(
            ["gpuwatch serve needs textual-serve: pip install 'gpuwatch-cluster[serve]', or textual-serve"]
        )


def recorded_moment(source: Source) -> float | None:
    """Return the time in the recording that `--at` names (unix seconds); None without `--at` or recording.

    Raises:
        Refusal: The recording cannot be read.
        click.BadParameter: The time is invalid or outside of the recording.
    """
    if source.recording is None or source.at is None:
        return None
    with source.replay(source.recording) as replay:
        return replay.position


def open_server(listen: str, source: Source, viewers: Viewers, max_viewers: int) -> BrowserServer:
    """Bind the address and return the browser server, which is not started yet.

    Warn on stderr if other machines can reach the address.

    Raises:
        click.ClickException: The address is invalid or cannot be bound.
    """
    from gpuwatch.report.browser.server import BrowserServer
    from gpuwatch.report.output.listen_address import ListenError

    title = f"gpuwatch {source.plan.source}".strip()
    try:
        server = BrowserServer(listen, title, viewers, max_viewers)
    except ListenError as error:
        raise click.BadParameter(f"{error}.", param_hint="--listen") from error
    except OSError as error:
        raise Refusal([f"--listen {listen}: {error.strerror or error}"]) from error
    if server.exposed:
        click.echo(
            "gpuwatch: other machines can reach this address, and its traffic and token are unencrypted; "
            "see docs/serve.md for ssh and TLS",
            err=True,
        )
    return server


class Viewers:
    """Starts the process of each viewer."""

    def __init__(self, setup: dict[str, Any], relay: ViewerRelay | None) -> None:
        """Create the viewers' starter.

        `relay`: gives each viewer its socket; None: each plays a recording.
        """
        self._setup, self._relay = setup, relay

    async def __call__(self, size: tuple[int, int]) -> ViewerProcess:
        """Start and return the process of one viewer whose terminal has this size (columns, rows)."""
        from gpuwatch.own_process import module_command
        from gpuwatch.report.browser.viewer_process import ViewerProcess

        setup, command = dict(self._setup), module_command("gpuwatch.cli.serve.viewer")
        if self._relay is None:
            return await ViewerProcess.start([*command, json.dumps(setup)], (), os.environ, size)
        with self._relay.add_viewer() as end:
            setup["fd"] = end.fileno()
            return await ViewerProcess.start([*command, json.dumps(setup)], (end.fileno(),), os.environ, size)


@dataclass
class Collector:
    """The session that all viewers share, the relay of its stream, and the delivery of its incidents."""

    session: Session
    relay: ViewerRelay
    delivery: Delivery | None
    trouble: str = ""
    """The last reported problem of the delivery."""

    def turn(self) -> None:
        """Poll the session once, exchange data with the viewers, deliver incidents; problems go to stderr."""
        self.session.poll()
        self.relay.exchange()
        if self.delivery is not None:
            self.delivery.update(self.session.book.incidents)
            self.trouble = tell_trouble(self.delivery, self.trouble)


def run(server: BrowserServer, collector: Collector | None, session: Session | None) -> int:
    """Start the session, if there is one, and serve until a signal ends it; return the exit status."""
    if session is not None:
        session.start()
    asyncio.run(serving(server, collector))
    return exit_codes.HEALTHY


async def serving(server: BrowserServer, collector: Collector | None) -> None:
    """Serve, and poll the collector every 0.1 s, until SIGINT, SIGTERM or SIGHUP; prints the address."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    await server.start(lambda text: click.echo(f"gpuwatch: {text}", err=True))
    click.echo(server.url)
    try:
        while not stop.is_set():
            if collector is not None:
                collector.turn()
            try:
                await asyncio.wait_for(stop.wait(), POLL_S)
            except asyncio.TimeoutError:
                continue
    finally:
        await server.close()
