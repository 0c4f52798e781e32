"""Writing to standard streams that may be closed, full, or without a reader, and to output files."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from gpuwatch.cli.shared import exit_codes
from gpuwatch.plain import plain

STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


class OutputError(click.ClickException):
    """Raised if the output cannot be written, for example on a full disk."""

    exit_code = exit_codes.OUTPUT


def open_closed_streams() -> None:
    """Open the null device for each closed standard stream (`>&-`), before a socket gets its number."""
    for descriptor, (name, mode) in enumerate(STREAMS):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(descriptor, mode, closefd=False))


def write_any_character() -> None:
    """Make stdout and stderr write characters that their encoding lacks as escapes, instead of raising."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


@contextlib.contextmanager
def writing() -> Iterator[None]:
    """The context for all writing to stdout; flushes it at the end.

    If the reader closes the pipe early (`| head`), the block ends without an error. Python's flush at exit
    then goes to the null device, instead of failing again.

    Raises:
        OutputError: The output cannot be written.
    """
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        _write_nowhere()
    except OSError as error:
        _write_nowhere()
        raise OutputError(f"cannot write the output: {error.strerror}") from error


def drop_unwritable_output() -> None:
    """Flush stdout; discard its content if that fails because the terminal is gone.

    Python would otherwise exit with status 120, because it cannot flush stdout.
    """
    try:
        sys.stdout.flush()
    except OSError:
        _write_nowhere()


def _write_nowhere() -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def write_output(path: Path, data: bytes) -> None:
    """Write a file atomically with mode 0600, as reports contain settings; `-` is stdout.

    Devices are written in place. The path is printed on stderr if that is a terminal.

    Raises:
        OutputError: The file cannot be written, or is another user's link.
    """
    from gpuwatch.whole_file import open_in_place, own_target, write_whole  # noqa: PLC0415 - only where it writes

    try:
        if str(path) == "-":
            with writing():
                sys.stdout.buffer.write(data)
        elif path.exists() and not path.is_file():
            with os.fdopen(open_in_place(path), "wb") as file:
                file.write(data)
        else:
            write_whole(own_target(path), data)
    except OSError as error:
        raise OutputError(f"{plain(str(path))}: cannot be written: {error.strerror}") from error
    if str(path) != "-" and sys.stderr.isatty():
        click.echo(f"gpuwatch: wrote {plain(str(path))}", err=True)
