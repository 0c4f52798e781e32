"""Standard streams that may be closed, full, or left by their reader."""

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
    """The output cannot be written, as on a full disk."""

    exit_code = exit_codes.OUTPUT


def open_closed_streams() -> None:
    """A stream that was closed (`>&-`) becomes the null device, before a socket gets its number."""
    for descriptor, (name, mode) in enumerate(STREAMS):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(descriptor, mode, closefd=False))


def write_any_character() -> None:
    """A character that the encoding of a stream does not have is written as its escape, not as a fault."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


@contextlib.contextmanager
def writing() -> Iterator[None]:
    """Everything on stdout is written inside, and flushed at the end.

    A reader that goes away early (`| head`) ends the writing and is no error. What Python still flushes at
    exit then goes nowhere, instead of failing once more.

    Raises:
        OutputError: it cannot be written.
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
    """Give up what cannot be written any more: the terminal of a command that a signal ends may be gone.

    Python would end with status 120 where it cannot flush stdout at exit.
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
    """Write a file whole, for its owner only, as reports hold settings; `-` and devices are written to.

    Raises:
        OutputError: it cannot be written, or is another user's link.
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
