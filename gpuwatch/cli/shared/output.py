"""Standard streams that may be closed, full, or left by their reader."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator

import click

from gpuwatch.cli.shared import exit_codes

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
