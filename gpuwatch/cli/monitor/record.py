"""`gpuwatch record`: the service without a screen. It records, judges, delivers and exports metrics."""

# ruff: noqa: PLC0415  a command line imports only what it comes to, so that --help and mistakes are answered at once

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuwatch.cli.shared import exit_codes
from gpuwatch.cli.shared.amounts import duration_s, size_bytes
from gpuwatch.cli.shared.receivers import alertmanager_option, delivering
from gpuwatch.cli.shared.signals import leaving_politely
from gpuwatch.cli.shared.source import Refusal, Source, source_options

if TYPE_CHECKING:
    from gpuwatch.link.recording.retention import Retention
    from gpuwatch.link.recording.writer import RecordingWriter
    from gpuwatch.report.delivery.delivery import Delivery
    from gpuwatch.report.exporter.page import MetricsPage
    from gpuwatch.report.exporter.server import MetricsServer
    from gpuwatch.session import Session
    from gpuwatch.session.session_recording import SessionRecording

POLL_S = 0.1
LATE_S = 15.0
"""A heartbeat that is older is bad news: the recorder is dead, or cannot write."""


@click.command()
@source_options
@click.option(
    "-o", "--output", "path", metavar="FILE", type=click.Path(path_type=Path),
    help="The recording; one that is there goes on.",
)  # fmt: skip
@click.option(
    "--for", "for_s", metavar="TIME", type=duration_s, help="Stop after this time, such as 90s or 12h."
)
@click.option("--keep", "keep_s", metavar="TIME", type=duration_s, help="Delete what is older, such as 7d.")
@click.option("--max-size", metavar="SIZE", type=size_bytes, help="Delete the oldest beyond it, such as 20G.")
@click.option(
    "--heartbeat", metavar="FILE", type=click.Path(path_type=Path),
    help="Write the time into this file after every commit, for a check from outside.",
)  # fmt: skip
@click.option("--status", is_flag=True, help="Print whether SOURCE is being recorded into; exit 1 if not.")
@click.option("--listen", metavar="ADDRESS", help="Also serve Prometheus metrics, as `gpuwatch exporter`.")
@alertmanager_option
def record(  # noqa: PLR0913, PLR0917 - click hands over every option
    source: Source,
    path: Path | None,
    for_s: float | None,
    keep_s: float | None,
    max_size: int | None,
    heartbeat: Path | None,
    status: bool,
    listen: str | None,
    alertmanagers: tuple[str, ...],
) -> int:
    """Record what the nodes report into a file, until Ctrl-C or TERM. `gpuwatch open FILE` replays it.

    Incidents are judged and delivered as in the screens. A full disk is reported and never fatal: what
    comes meanwhile waits in memory, and the recording goes on when there is space. See docs/recording.md.

    Exit status: 0 done, 1 --status: nobody writes the file, 2 wrong usage, or the file cannot be written.
    """
    from gpuwatch.link.recording.retention import Retention

    if status:
        return print_status(source)
    if source.recording is not None:
        raise Refusal([f"{source.recording}: a recording cannot be recorded; name nodes"])
    if path is None:
        raise click.UsageError("-o FILE names the recording.")
    with contextlib.suppress(KeyboardInterrupt), running(source, alertmanagers, listen) as service:
        service.record(path, Retention(keep_s, max_size), heartbeat)
        service.follow(for_s)
    return exit_codes.HEALTHY


class Service:
    """A session that is recorded, judged, delivered and exported."""

    def __init__(self, session: Session, delivery: Delivery | None, server: MetricsServer | None) -> None:
        from gpuwatch.report.exporter.scrape import Scraper
        from gpuwatch.session.session_recording import SessionRecording

        self.session, self._delivery, self._server = session, delivery, server
        self.recording: SessionRecording = SessionRecording(session)
        self._scraper = Scraper()
        self._trouble = ""

    def record(self, path: Path, retention: Retention, heartbeat: Path | None) -> None:
        """Open the file.

        Raises:
            Refusal: it cannot be written.
        """
        from gpuwatch.link.recording.schema import RecordingError

        try:
            self.recording.start(path, retention, heartbeat)
        except RecordingError as error:
            raise Refusal([str(error)]) from error

    def follow(self, for_s: float | None) -> None:
        """Poll until the time is up; what goes wrong meanwhile is reported once."""
        until = None if for_s is None else time.monotonic() + for_s
        self.session.start()
        if self._server is not None:
            self._server.start()
            click.echo(f"gpuwatch: metrics at {self._server.url}", err=True)
        while until is None or time.monotonic() < until:
            self.session.poll()
            if self._delivery is not None:
                self._delivery.update(self.session.book.incidents)
            if self._server is not None:
                self._server.answer(self._page)
            self._report()
            time.sleep(POLL_S)

    def _page(self) -> MetricsPage:
        clock = self.session.clock
        receivers = () if self._delivery is None else self._delivery.status()
        fleet, book = self.session.fleet, self.session.book
        return self._scraper.page(fleet, book, clock.monotonic(), clock.wall(), receivers)

    def _report(self) -> None:
        found = [self.recording.trouble, "" if self._delivery is None else self._delivery.trouble]
        trouble = "; ".join(filter(None, found))
        if trouble != self._trouble:
            self._trouble = trouble
            click.echo(f"gpuwatch: {trouble or 'all is written and delivered again'}", err=True)

    def close(self) -> None:
        """End the recording, everything written, and report on it."""
        writer = self.recording.writer
        self.session.poll()
        self.recording.close()
        if writer is not None:
            click.echo(f"{writer.state.path}: {summary(writer, self.session)}", err=True)


def summary(writer: RecordingWriter, session: Session) -> str:
    """`5,149 frames, 0.8 MB; 3 secrets masked on the nodes`."""
    state = writer.state
    masked = session.tee.masked if session.tee is not None else 0
    text = f"{state.frames:,} frames, {state.written_bytes / 1e6:.1f} MB"
    if masked:
        text += f"; {masked} secret{'s' if masked > 1 else ''} masked on the nodes"
    if state.lost_items:
        text += f"; {state.lost_items} parts could not be written"
    return text


@contextlib.contextmanager
def running(source: Source, alertmanagers: tuple[str, ...], listen: str | None) -> Iterator[Service]:
    """The service, everything closed at the end."""
    from gpuwatch.cli.config.settings import configured_receivers
    from gpuwatch.cli.monitor.exporter import open_server

    with contextlib.ExitStack() as stack:
        stack.enter_context(leaving_politely())
        server = None if listen is None else open_server(listen, None)
        if server is not None:
            stack.callback(server.close)
        delivery = stack.enter_context(delivering(source, alertmanagers, configured_receivers()))
        session = source.session()
        session.keep_stream()
        stack.callback(session.close)
        service = Service(session, delivery, server)
        stack.callback(service.close)
        yield service


def print_status(source: Source) -> int:
    """State who writes a recording, and when it was committed last.

    Raises:
        Refusal: SOURCE is no recording.
    """
    from gpuwatch.diagnose.model.condition import duration
    from gpuwatch.link.recording.reader import Recording

    if source.recording is None:
        raise Refusal(["--status needs a recording as SOURCE"])
    with contextlib.closing(Recording(source.recording)) as recording:
        writer = recording.writer
    if writer is None:
        click.echo(f"{source.recording}: not being recorded")
        return exit_codes.UNHEALTHY
    age_s = max(0.0, time.time() - writer.beat)
    fresh = age_s < LATE_S and writer.alive(time.time())
    state = "recording" if fresh else "NOT recording"
    click.echo(f"{source.recording}: {state}; {writer.words}, last commit {duration(age_s)} ago")
    return exit_codes.HEALTHY if fresh else exit_codes.UNHEALTHY
