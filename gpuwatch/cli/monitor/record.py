"""`gpuwatch record`: record a cluster without a screen, for `gpuwatch open`."""

# ruff: noqa: PLC0415  a command line imports only what it comes to, so that --help and mistakes are answered at once

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuwatch.cli.shared import exit_codes
from gpuwatch.cli.shared.signals import leaving_politely
from gpuwatch.cli.shared.source import Refusal, Source, source_options

if TYPE_CHECKING:
    from gpuwatch.link.recording.writer import RecordingWriter
    from gpuwatch.session import Session

POLL_S = 0.1


@click.command()
@source_options
@click.option(
    "-o", "--output", "path", metavar="FILE", type=click.Path(path_type=Path), required=True,
    help="The recording; one that is there goes on.",
)  # fmt: skip
@click.option("--for", "for_s", type=click.FloatRange(0), help="Seconds to record (default: until Ctrl-C).")
def record(source: Source, path: Path, for_s: float | None) -> int:
    """Record what the nodes report into a file, until Ctrl-C. `gpuwatch open FILE` replays it.

    Exit status: 0 done, 2 wrong usage, or the file cannot be written.
    """
    from gpuwatch.link.recording.schema import RecordingError
    from gpuwatch.link.recording.writer import RecordingWriter

    if source.recording is not None:
        raise Refusal([f"{source.recording}: a recording cannot be recorded; name nodes"])
    session = source.session()
    tee = session.keep_stream()
    try:
        recorder = RecordingWriter(path, session.plan, tee.nodes)
    except RecordingError as error:
        session.close()
        raise Refusal([str(error)]) from error
    detach = tee.attach(recorder)
    try:
        with leaving_politely(), session:
            follow(session, recorder, for_s)
    except KeyboardInterrupt:
        pass  # the regular end
    finally:
        session.poll()
        detach()
        recorder.close()
    click.echo(f"{path}: {recorder.state.frames:,} frames, {path.stat().st_size / 1e6:.1f} MB", err=True)
    return exit_codes.HEALTHY


def follow(session: Session, recorder: RecordingWriter, for_s: float | None) -> None:
    """Poll until the time is up; what keeps the recording from being written is reported once."""
    until = None if for_s is None else time.monotonic() + for_s
    trouble = ""
    while until is None or time.monotonic() < until:
        session.poll()
        if recorder.state.trouble != trouble:
            trouble = recorder.state.trouble
            click.echo(f"gpuwatch: {trouble or 'the recording goes on'}", err=True)
        time.sleep(POLL_S)
