"""Passes bytes and signals between our terminal and the command until it ends, without adding a byte."""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import signal
import termios
import time
import tty
from collections.abc import Callable, Iterator
from types import FrameType

from gpuwatch.cli.run.child import RunChild, copy_size

CHUNK = 65_536
FORWARDED = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT)
DRAIN_S = 2.0
"""Maximum seconds to pass on the remaining output after the command's end."""
PAUSE_S, FEW_BYTES = 0.02, 2_048
"""Seconds for which output waits for more after recent output, and the bytes above which it does not wait.

A command that logs a thousand lines per second then wakes this process only a hundred times.
"""
MAX_UNREAD_KEYS = 65_536
"""Bytes typed, pasted or answered by the terminal that wait for the command, before no more are read."""
POLL_S = 1.0
"""Seconds between two checks of the command's state and calls of `on_idle` without a signal."""


class Relay:
    """Relays terminal input, output and signals of the command.

    Runs in the main thread, which gets the signals.
    """

    def __init__(
        self, child: RunChild, on_output: Callable[[bytes], None], on_idle: Callable[[], None]
    ) -> None:
        """Prepare to pass on the bytes of a child.

        Args:
            child: The command.
            on_output: Called with every byte that the command wrote, in the order in which it was passed on.
            on_idle: Called between bytes about once per second, and after each signal.
        """
        self._child = child
        self._on_output = on_output
        self._on_idle = on_idle
        self._selector = selectors.DefaultSelector()
        self._urgent = selectors.DefaultSelector()
        """Signals and keys, which end a pause of output."""
        self._pause_until = 0.0
        self._received: list[int] = []
        """Received signals, in order."""
        self._was_woken = False
        """True after a signal, also SIGCHLD."""
        if child.master is not None:
            os.set_blocking(child.master, False)
        self.interrupted_by: int | None = None
        """The first received SIGINT, SIGTERM or SIGHUP."""
        self._unread = b""
        """Keys that the command's pty has not taken yet."""
        self._deaf: set[int] = set()
        """Our streams whose reader is gone."""

    def run(self) -> None:
        """Relay until the command has ended; remaining output is passed on for at most 2 s."""
        child = self._child
        sources = dict(child.outputs)
        if child.master is not None:
            sources[child.master] = 1 if os.isatty(1) else 2
        for number in sources:
            self._selector.register(number, selectors.EVENT_READ)
        with self._signals(), self._raw_terminal() as reads_keys:
            if reads_keys:
                self._listen(0)
            poll_at = 0.0
            while not child.has_ended:
                self._wait(sources, POLL_S)
                if not self._was_woken and time.monotonic() < poll_at:
                    continue
                self._was_woken, poll_at = False, time.monotonic() + POLL_S
                self._pass_signals()
                if child.poll():
                    self._stop_with_child()
                self._on_idle()
            self._drain(sources)

    def _wait(self, sources: dict[int, int], timeout: float) -> bool:
        """Wait up to `timeout` seconds and handle what came; return False if nothing did.

        It passes on received bytes, and reads wake-ups by signals.
        """
        events = self._selector.select(timeout)
        pause_s = self._pause_until - time.monotonic()
        if (
            timeout
            and pause_s > 0
            and any(key.fd in sources and ready & selectors.EVENT_READ for key, ready in events)
        ):
            self._urgent.select(pause_s)
        for key, ready in events:
            if ready & selectors.EVENT_WRITE:
                self._send_keys(key.fd, b"")
            if not ready & selectors.EVENT_READ:
                continue
            if key.fd == 0:
                self._pass_keys()
            elif key.fd in sources:
                self._pass_output(key.fd, sources)
            else:
                with contextlib.suppress(BlockingIOError):
                    os.read(key.fd, 4096)  # signals: their handlers have noted them
                self._was_woken = True
        return bool(events)

    def _listen(self, number: int) -> None:
        """Wake the loop when this descriptor is readable, even during a pause of output."""
        for selector in (self._selector, self._urgent):
            selector.register(number, selectors.EVENT_READ)

    def _unlisten(self, number: int) -> None:
        for selector in (self._selector, self._urgent):
            with contextlib.suppress(KeyError, ValueError):
                selector.unregister(number)

    def _pass_output(self, number: int, sources: dict[int, int]) -> None:
        try:
            data = os.read(number, CHUNK)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno != errno.EIO:  # of a pty that no process has open
                raise
            data = b""
        if not data:
            self._selector.unregister(number)
            return
        self._write(sources[number], data)
        self._on_output(data)
        self._pause_until = time.monotonic() + PAUSE_S if len(data) < FEW_BYTES else 0.0

    def _write(self, stream: int, data: bytes) -> None:
        """Write all data to our stream. If its reader is gone, send the command SIGPIPE (or SIGHUP), once."""
        if stream in self._deaf:
            return
        left = memoryview(data)
        while left:
            try:
                left = left[os.write(stream, left) :]
            except BlockingIOError:  # noqa: PERF203 - a try a write
                time.sleep(0.005)
            except OSError as error:
                self._deaf.add(stream)
                self._child.send(signal.SIGPIPE if error.errno == errno.EPIPE else signal.SIGHUP)
                return

    def _pass_keys(self) -> None:
        master = self._child.master
        try:
            data = os.read(0, 4096)
        except OSError:
            data = b""
        if not data or master is None:
            self._unlisten(0)
            return
        if self.interrupted_by is None and self._interrupts(master, data):
            self.interrupted_by = signal.SIGINT
        if self._unread and self._interrupts(master, data):  # the pty takes the key only after all others
            self._unread, data = b"", b""
            self._child.send_to_group(signal.SIGINT)
        before, suspends, data = self._suspension(master, data)
        self._send_keys(master, before)
        if suspends:
            self._child.send_to_group(signal.SIGSTOP)  # SIGTSTP does nothing in an orphaned process group
            self._stop_with_child()
        self._send_keys(master, data)

    def _send_keys(self, master: int, data: bytes) -> None:
        """Write keys to the command's pty; those that it does not take wait, without holding output up."""
        was_full = len(self._unread) >= MAX_UNREAD_KEYS
        self._unread += data
        try:
            while self._unread:
                self._unread = self._unread[os.write(master, self._unread) :]
        except BlockingIOError:
            pass
        except OSError:  # no process has it open
            self._unread = b""
        is_full = len(self._unread) >= MAX_UNREAD_KEYS
        if is_full != was_full:
            (self._unlisten if is_full else self._listen)(0)
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unread else 0)
        with contextlib.suppress(KeyError):
            self._selector.modify(master, events)

    def _interrupts(self, master: int, data: bytes) -> bool:
        """Return True if the keys contain Ctrl-C, and the command's pty turns it into a signal."""
        with contextlib.suppress(termios.error):
            settings = termios.tcgetattr(master)
            return bool(settings[3] & termios.ISIG) and settings[6][termios.VINTR] in data
        return False

    def _suspension(self, master: int, data: bytes) -> tuple[bytes, bool, bytes]:
        """Return the keys split at the suspend character (Ctrl-Z): (before, True, after).

        (data, False, b"") if there is no such character, or if the pty does not interpret it.
        """
        with contextlib.suppress(termios.error):
            settings = termios.tcgetattr(master)
            key = settings[6][termios.VSUSP]
            if settings[3] & termios.ISIG and isinstance(key, bytes) and key != b"\0" and key in data:
                before, _, behind = data.partition(key)
                return before, True, behind
        return data, False, b""

    def _stop_with_child(self) -> None:
        """Stop this process because the command was stopped; when it is continued, continue the command."""
        with self._cooked_terminal():
            os.kill(os.getpid(), signal.SIGSTOP)
        if self._child.master is not None:
            copy_size(self._child.master)
        self._child.send_to_group(signal.SIGCONT)
        self._child.send(signal.SIGCONT)

    def _pass_signals(self) -> None:
        while self._received:
            number = self._received.pop(0)
            if number == signal.SIGWINCH:
                if self._child.master is not None:
                    copy_size(self._child.master)
                continue
            if number in {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}:
                self.interrupted_by = self.interrupted_by or number
            if not (number in {signal.SIGINT, signal.SIGQUIT} and self._has_keyboard_signal()):
                self._child.send(number)

    def _has_keyboard_signal(self) -> bool:
        """Return True if the command gets keyboard signals itself, in the terminal's foreground group."""
        if self._child.master is not None:
            return False
        try:
            number = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            return os.tcgetpgrp(number) == os.getpgrp()
        except OSError:
            return False
        finally:
            os.close(number)

    def _drain(self, sources: dict[int, int]) -> None:
        """Pass on what the command has written, for at most 2 s, without waiting for leftover processes."""
        until = time.monotonic() + DRAIN_S
        self._unlisten(0)
        while time.monotonic() < until and self._wait(sources, 0.0):
            pass

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Within this context, record signals in `_received` instead of ending this process.

        SIGCHLD only wakes the loop and is not recorded. Signals that were ignored at the start (`nohup`) stay
        ignored: the command, which has inherited that, does not get them either.
        """

        def note(number: int, _frame: FrameType | None) -> None:
            if number != signal.SIGCHLD:
                self._received.append(number)

        reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._listen(reading)
        forwarded = [each for each in FORWARDED if signal.getsignal(each) is not signal.SIG_IGN]
        numbers = (*forwarded, signal.SIGWINCH, signal.SIGCHLD)
        before = {number: signal.signal(number, note) for number in numbers}
        wakeup = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(wakeup)
            for number, handler in before.items():
                signal.signal(number, handler)
            self._unlisten(reading)
            os.close(reading)
            os.close(writing)

    @contextlib.contextmanager
    def _raw_terminal(self) -> Iterator[bool]:
        """Put our terminal into raw mode, so that the pty interprets the keys.

        Yields False, and changes nothing, if stdin is no terminal or the command has no pty.
        """
        self._cooked = None
        if self._child.master is None or not os.isatty(0):
            yield False
            return
        self._cooked = termios.tcgetattr(0)
        tty.setraw(0, termios.TCSADRAIN)
        try:
            yield True
        finally:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(0, termios.TCSADRAIN, self._cooked)

    @contextlib.contextmanager
    def _cooked_terminal(self) -> Iterator[None]:
        """Within this context, our terminal has its original mode, for the shell while we are stopped."""
        cooked = self._cooked
        if cooked is None:
            yield
            return
        termios.tcsetattr(0, termios.TCSADRAIN, cooked)
        yield
        self._cooked = termios.tcgetattr(0)
        tty.setraw(0, termios.TCSADRAIN)
