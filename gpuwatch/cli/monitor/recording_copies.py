"""`gpuwatch record`'s operations on a recording: redacted copy, Parquet tables, state of its recorder."""

# ruff: noqa: PLC0415  a command imports only what it uses, so that --help and usage errors stay fast

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuwatch.cli.shared import exit_codes
from gpuwatch.cli.shared.output import writing
from gpuwatch.cli.shared.source import Refusal, Source
from gpuwatch.number_text import megabytes
from gpuwatch.plain import plain

if TYPE_CHECKING:
    from gpuwatch.link.recording.lease import Holder
    from gpuwatch.link.recording.reader import Recording

COMMIT_TIMEOUT_S = 5.0
"""Maximum age of the last commit in seconds; with an older one the recorder is dead or cannot write.

A recorder commits every second.
"""
FULL_BYTES = 1 << 20
"""Free bytes of a file system below which a recording cannot continue."""


def print_status(source: Source) -> int:
    """Print which process writes a recording, when it last wrote, and what stops it; return the exit status.

    It is `UNHEALTHY` if no process writes the recording, the last commit is at least 5 s old, or the file
    system is full.

    Raises:
        Refusal: SOURCE is not a recording.
    """
    with opened(source, "--status") as recording:
        writer = recording.writer
    if writer is None:
        with writing():
            click.echo(plain(f"{source.recording}: not being recorded"))
        return exit_codes.UNHEALTHY
    full = source.recording is not None and is_full(source.recording.parent)
    text, is_healthy = state_of(writer, time.time(), full=full)
    with writing():
        click.echo(plain(f"{source.recording}: {text}"))
    return exit_codes.HEALTHY if is_healthy else exit_codes.UNHEALTHY


def state_of(writer: Holder, now: float, *, full: bool) -> tuple[str, bool]:
    """Return the state of a recorder as a sentence, and True if it records.

    Args:
        writer: The recorder's process.
        now: Unix seconds.
        full: Whether the file system of the recording is full.
    """
    from gpuwatch.number_text import duration

    age_s = max(0.0, now - writer.beat)
    fresh = age_s < COMMIT_TIMEOUT_S and writer.alive(now) and not full
    who = f"{writer.words} is gone" if writer.gone else writer.words
    why = "its file system is full and data waits in memory; " if full and not writer.gone else ""
    return (
        f"{'recording' if fresh else 'NOT recording'}; {why}{who}, last written {duration(age_s)} ago",
        fresh,
    )


def is_full(folder: Path) -> bool:
    """Return True if less than `FULL_BYTES` are free in the file system of a folder; False if unknown."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    free = found.f_bfree if os.geteuid() == 0 else found.f_bavail  # a part is reserved for root
    return free * found.f_frsize < FULL_BYTES


def write_redacted(source: Source, path: Path | None) -> int:
    """Write a copy with other names of hosts, users, paths and addresses to `path`; return the exit status.

    Raises:
        click.UsageError: `path` is None.
        Refusal: SOURCE is not a recording, or the copy cannot be written.
    """
    from gpuwatch.link.recording.schema import RecordingError
    from gpuwatch.report.recording.redacted_copy import redact

    if path is None:
        raise click.UsageError("--redact needs -o FILE for the copy.")
    with opened(source, "--redact") as recording:
        try:
            redact(recording, path)
        except RecordingError as error:
            raise Refusal([str(error)]) from error
        parts = recording.damaged
    tell_unreadable(parts)
    size = megabytes(path.stat().st_size)
    click.echo(
        f"{plain(str(path))}: {size}; look through it before you share it: names of jobs and projects, "
        "folders without a leading / and unusual domains may remain",
        err=True,
    )
    return exit_codes.HEALTHY


def write_parquet(source: Source, folder: Path) -> int:
    """Write the recording as Parquet tables into `folder`; return the exit status.

    Raises:
        Refusal: SOURCE is not a recording, or the tables cannot be written.
    """
    from gpuwatch.report.recording.tables import TablesError, write_tables

    with opened(source, "--parquet") as recording:
        try:
            counts = write_tables(recording, folder)
        except TablesError as error:
            raise Refusal([str(error)]) from error
        parts = recording.damaged
    tell_unreadable(parts)
    rows = ", ".join(f"{name}.parquet {count:,}" for name, count in counts.items())
    click.echo(f"{plain(str(folder))}: rows of {rows}", err=True)
    return exit_codes.HEALTHY


def tell_unreadable(parts: int) -> None:
    """Print on stderr that this many parts of a recording are damaged, and missing in the copy.

    Prints nothing for 0.
    """
    if parts:
        from gpuwatch.diagnose.model.text import unreadable_text

        click.echo(f"gpuwatch: {unreadable_text(parts)}", err=True)


@contextlib.contextmanager
def opened(source: Source, option: str) -> Iterator[Recording]:
    """Open the recording named by SOURCE; close it at the end of the context.

    `option` is the option that error messages name.

    Raises:
        Refusal: SOURCE is not a recording.
    """
    from gpuwatch.link.recording.reader import Recording

    if source.recording is None:
        named = source.plan.source
        if named.endswith(".gpw") and not Path(named).exists():
            full = is_full(Path(named).absolute().parent)
            raise Refusal(
                [
                    f"{named}: no such file"
                    + ("; its file system is full, so none can be created" if full else "")
                ]
            )
        raise Refusal([f"{option} needs a recording as SOURCE"])
    with contextlib.closing(Recording(source.recording)) as recording:
        yield recording
