"""`gpuwatch record`: the service without a screen. It records, judges, delivers and exports metrics."""

# ruff: noqa: PLC0415  a command imports only what it uses, so that --help and usage errors stay fast

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuwatch.cli.monitor.recording_copies import print_status, write_parquet, write_redacted
from gpuwatch.cli.shared import exit_codes
from gpuwatch.cli.shared.receivers import alertmanager_option, delivering
from gpuwatch.cli.shared.signals import ended_by_signal
from gpuwatch.cli.shared.source import Refusal, Source, source_options
from gpuwatch.number_text import megabytes, plural
from gpuwatch.plain import plain
from gpuwatch.whole_number import SECONDS_OF

if TYPE_CHECKING:
    from gpuwatch.link.recording.retention import Retention
    from gpuwatch.link.recording.writer import RecordingWriter
    from gpuwatch.report.delivery.delivery import Delivery
    from gpuwatch.report.exporter.page import MetricsPage
    from gpuwatch.report.exporter.server import MetricsServer
    from gpuwatch.session import Session
    from gpuwatch.session.session_recording import SessionRecording

POLL_S = 0.1
_SIZE = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def duration_s(text: str) -> float:
    """Return the seconds of a duration such as `90s`, `12h` or `7d`; a number alone is in seconds.

    Raises:
        click.BadParameter: The text is not a duration.
    """
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?)\s?([smhd]?)", text)
    if match is None:
        raise click.BadParameter(f"{text!r} is not a duration such as 90s, 12h or 7d.")
    return float(match[1]) * SECONDS_OF[match[2] or "s"]


def size_bytes(text: str) -> int:
    """Return the bytes of a size such as `500M` or `20G` (powers of 1000); a number alone is in bytes.

    Raises:
        click.BadParameter: The text is not a size.
    """
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,3})?)\s?([KMGT]?)i?B?", text, re.IGNORECASE)
    if match is None:
        raise click.BadParameter(f"{text!r} is not a size such as 500M or 20G.")
    return int(float(match[1]) * _SIZE[match[2].upper()])


@click.command()
@source_options
@click.option(
    "-o", "--output", "path", metavar="FILE", type=click.Path(path_type=Path),
    help="The recording; an existing one is continued.",
)  # fmt: skip
@click.option(
    "--for", "for_s", metavar="TIME", type=duration_s, help="Stop after this time, such as 90s or 12h."
)
@click.option("--keep", "keep_s", metavar="TIME", type=duration_s, help="Delete older data, such as 7d.")
@click.option(
    "--max-size",
    metavar="SIZE",
    type=size_bytes,
    help="Delete the oldest data beyond this size, such as 20G.",
)
@click.option(
    "--heartbeat", metavar="FILE", type=click.Path(path_type=Path),
    help="Write the time into this file after every commit, for an external check.",
)  # fmt: skip
@click.option(
    "--status",
    is_flag=True,
    help="Print whether the recording file SOURCE is being written now; exit 1 if not.",
)
@click.option(
    "--redact",
    is_flag=True,
    help="Copy the recording SOURCE to -o FILE with hosts, users, paths and addresses renamed.",
)
@click.option(
    "--parquet", metavar="DIR", type=click.Path(path_type=Path),
    help="Write the recording SOURCE as Parquet tables, for DuckDB and pandas.",
)  # fmt: skip
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
    redact: bool,
    parquet: Path | None,
    listen: str | None,
    alertmanagers: tuple[str, ...],
) -> int:
    """Record what the nodes report into a file, until Ctrl-C or TERM. `gpuwatch open FILE` replays it.

    Incidents are judged and delivered as in the screens. A full disk is reported and never fatal: data
    waits in memory meanwhile, and the recording continues when there is space. See docs/recording.md.

    Exit status: 0 done, 1 --status: the file is not being recorded, 2 wrong usage, or the file cannot be
    written.
    """
    from gpuwatch.link.recording.retention import Retention

    if status:
        return print_status(source)
    if redact:
        return write_redacted(source, path)
    if parquet is not None:
        return write_parquet(source, parquet)
    if source.recording is not None:
        raise Refusal([f"{source.recording}: a recording cannot be recorded; name nodes"])
    if path is None:
        raise click.UsageError("-o FILE names the recording.")
    with running(source, alertmanagers, listen) as service:
        service.record(path, Retention(keep_s, max_size), heartbeat)
        service.follow(for_s)
    return exit_codes.HEALTHY


class Service:
    """A session whose stream is recorded, and whose incidents and metrics are delivered and exported."""

    def __init__(self, session: Session, delivery: Delivery | None, server: MetricsServer | None) -> None:
        from gpuwatch.report.exporter.scrape import Scraper
        from gpuwatch.session.session_recording import SessionRecording

        self.session, self._delivery, self._server = session, delivery, server
        self.recording: SessionRecording = SessionRecording(session)
        self._scraper = Scraper()
        self._trouble = ""

    def record(self, path: Path, retention: Retention, heartbeat: Path | None) -> None:
        """Open or continue the recording at `path`; `heartbeat` is a file that gets the time of each commit.

        Raises:
            Refusal: The recording cannot be written.
        """
        from gpuwatch.link.recording.schema import RecordingError

        try:
            self.recording.start(path, retention, heartbeat)
        except RecordingError as error:
            raise Refusal([str(error)]) from error

    def follow(self, for_s: float | None) -> None:
        """Start the session and poll it for `for_s` seconds; None: until interrupted.

        Problems go to stderr once.
        """
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
        if self._server is not None and self._server.fault:
            found.append(f"metrics: internal error, please report it: {plain(self._server.fault)}")
        trouble = "; ".join(filter(None, found))
        if trouble != self._trouble:
            self._trouble = trouble
            click.echo(plain(f"gpuwatch: {trouble or 'everything is written and delivered again'}"), err=True)

    def close(self) -> None:
        """Write the rest of the recording, close it, and print its size on stderr."""
        writer = self.recording.writer
        self.session.poll()
        self.recording.close()
        if writer is not None:
            click.echo(plain(f"{writer.state.path}: {summary(writer, self.session)}"), err=True)


def summary(writer: RecordingWriter, session: Session) -> str:
    """Return a summary text: `5,149 frames, 0.8 MB; 3 secrets masked on the nodes`."""
    state = writer.state
    masked = session.tee.masked if session.tee is not None else 0
    text = f"{state.frames:,} frames, {megabytes(state.written_bytes)}"
    if masked:
        text += f"; {plural(masked, 'secret')} masked on the nodes"
    if state.lost_items:
        text += f"; {state.lost_items} parts could not be written"
    return text


@contextlib.contextmanager
def running(source: Source, alertmanagers: tuple[str, ...], listen: str | None) -> Iterator[Service]:
    """Open the session, its receivers and the server of `listen`; yield the service, then close all."""
    from gpuwatch.cli.config.settings import configured_receivers
    from gpuwatch.cli.monitor.exporter import open_server

    with contextlib.ExitStack() as stack:
        stack.enter_context(ended_by_signal())
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
