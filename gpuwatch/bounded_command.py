"""Runs a local command with limits on time and output."""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from functools import partial

from msgspec import Struct

MAX_WORDS_BYTES = 65_536
"""Bytes kept of the end of stderr."""
_PIECE_BYTES = 65_536
_POLL_S = 0.2


class OutputTooLongError(Exception):
    """Raised if the command printed more than allowed; it was killed."""


class CommandEnd(Struct, frozen=True):
    """The exit status of a command, its stdout, and the end of its stderr."""

    status: int
    """Exit status; negative: the signal that ended it."""
    stdout: bytes
    stderr: bytes
    """The last `MAX_WORDS_BYTES` bytes."""


def run_bounded(
    argv: Sequence[str],
    seconds: float,
    most: int,
    *,
    data: bytes = b"",
    env: Mapping[str, str] | None = None,
    new_session: bool = False,
) -> CommandEnd:
    """Run a command and return its exit status and output; its background processes are not waited for.

    Args:
        argv: The command.
        seconds: It is killed after this time.
        most: Maximum bytes of stdout; 0: stdout is discarded.
        data: Its stdin.
        env: Its environment; by default ours.
        new_session: Start it without our terminal, and kill its children with it.

    Raises:
        OSError: it cannot be started.
        subprocess.TimeoutExpired: it took longer.
        OutputTooLongError: it printed more than `most` bytes.
    """
    try:
        process = subprocess.Popen(
            argv,
            bufsize=0,
            stdin=subprocess.PIPE if data else subprocess.DEVNULL,
            stdout=subprocess.PIPE if most else subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=env,
            start_new_session=new_session,
        )
    except ValueError as error:  # a NUL in a word
        raise OSError(errno.EINVAL, str(error)) from None
    until = time.monotonic() + seconds
    with process:
        try:
            stdout, stderr = _exchange(process, data, until, most)
            return CommandEnd(process.wait(max(0.0, until - time.monotonic())), stdout, stderr)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL) if new_session else process.kill()
            raise


def _exchange(process: subprocess.Popen[bytes], data: bytes, until: float, most: int) -> tuple[bytes, bytes]:
    """Write `data` to stdin and return (stdout, end of stderr), once both streams or the process have ended.

    Raises:
        subprocess.TimeoutExpired: the monotonic time `until` has passed.
        OutputTooLongError: stdout exceeds `most` bytes.
    """
    output, words, left = bytearray(), bytearray(), bytearray(data)
    with selectors.DefaultSelector() as selector:
        if (pipe := process.stdin) is not None:
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe, selectors.EVENT_WRITE, partial(_write, pipe.fileno(), left))
        if (pipe := process.stdout) is not None:
            selector.register(pipe, selectors.EVENT_READ, partial(_read, pipe.fileno(), output, most))
        if (pipe := process.stderr) is not None:
            selector.register(pipe, selectors.EVENT_READ, partial(_read_end, pipe.fileno(), words))
        while selector.get_map():
            has_ended = process.poll() is not None
            wait_s = until - time.monotonic()
            if wait_s <= 0:
                raise subprocess.TimeoutExpired(process.args, 0.0)
            ready = selector.select(min(wait_s, _POLL_S))
            if has_ended and not ready:
                break  # only its background processes hold a pipe open
            for key, _ in ready:
                if not key.data():
                    selector.unregister(key.fileobj)
                    if key.fileobj is process.stdin:
                        process.stdin.close()
    return bytes(output), bytes(words)


def _write(pipe: int, left: bytearray) -> bool:
    """Write a piece of `left` to a pipe and remove it from `left`.

    Return False once all is written or the reader is gone.
    """
    try:
        del left[: os.write(pipe, left[:_PIECE_BYTES])]
    except BlockingIOError:
        return True
    except BrokenPipeError:
        left.clear()
    return bool(left)


def _read(pipe: int, output: bytearray, most: int) -> bool:
    """Append the available bytes of a pipe to `output`; return False at the end of the stream.

    Raises:
        OutputTooLongError: the output exceeds `most` bytes.
    """
    piece = os.read(pipe, _PIECE_BYTES)
    output += piece
    if len(output) > most:
        raise OutputTooLongError
    return bool(piece)


def _read_end(pipe: int, words: bytearray) -> bool:
    """Append the available bytes of a pipe to `words`, keeping only the last `MAX_WORDS_BYTES`.

    Return False at the end of the stream.
    """
    piece = os.read(pipe, _PIECE_BYTES)
    words += piece
    del words[: max(0, len(words) - MAX_WORDS_BYTES)]
    return bool(piece)
