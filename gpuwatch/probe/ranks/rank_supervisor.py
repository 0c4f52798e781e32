"""Supervises the ranks of one node: forks them, passes orders and messages on, and reports their end."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import selectors
import signal
import sys
import threading
import traceback
import warnings
from collections import deque
from typing import BinaryIO, Callable, Deque, Dict, List, Set

from gpuwatch.probe.ranks.rank import NOT_CONNECTED, OWN_REASON
from gpuwatch.probe.ranks.shared import words
from gpuwatch.probe.ranks.shared.orders import Raw, SlotFields, part_of

_PR_SET_PDEATHSIG = 1
_READ_BYTES = 1 << 16
_KEPT_WORDS = 8
_MAX_STDERR_LINE_BYTES = 1 << 16
"""Maximum number of bytes of a stderr line that are kept."""
_MAX_WARNINGS = 5


class RankProcess:
    """One rank's process, and the pipes to it."""

    def __init__(self, slot: SlotFields) -> None:
        self.rank = slot.rank
        self.pid = 0
        self.orders_in, self.orders = os.pipe()
        self.message, self.written_out = os.pipe()
        self.stderr, self.stderr_out = os.pipe()
        self.transports: Set[str] = set()
        self.warned = 0
        self.tail: Deque[str] = deque(maxlen=_KEPT_WORDS)
        self.unread: Dict[int, bytes] = {self.message: b"", self.stderr: b""}
        """For every open pipe from the rank: the incomplete line."""

    def ours(self) -> List[int]:
        """Return the parent's ends of the pipes."""
        return [self.orders, self.message, self.stderr]

    def theirs(self) -> List[int]:
        """Return the rank's ends of the pipes."""
        return [self.orders_in, self.written_out, self.stderr_out]


class RankSupervisor:
    """Forks one rank per slot and passes messages on.

    Args:
        out: Receives the messages of the ranks, whole lines only.
        foreign: Descriptors that no rank may keep: the parent's stdin, stdout, the store's socket.
    """

    def __init__(self, out: BinaryIO, foreign: List[int]) -> None:
        self._out, self._foreign = out, foreign
        self._places: List[RankProcess] = []
        self._stopping = False
        self._writing = threading.Lock()
        self._funnel = threading.Thread(target=self._pass_on, name="funnel", daemon=True)

    def fork(self, slot: SlotFields, enter: Callable[[int, int], int]) -> None:
        """Fork one rank; call this before `listen`, which starts a thread.

        Args:
            slot: The node-local rank and GPU of the rank.
            enter: Called in the child with its ends of the pipes for orders and messages; returns its exit
                status.
        """
        place = RankProcess(slot)
        self._out.flush()
        parent = os.getpid()
        with warnings.catch_warnings():
            # torch has threads of its own after the import; they hold nothing that a rank needs
            warnings.simplefilter("ignore", DeprecationWarning)
            place.pid = os.fork()
        if place.pid == 0:
            self._become(place, parent, enter)
        for fd in place.theirs():
            os.close(fd)
        self._places.append(place)

    def listen(self) -> None:
        """Start a thread that passes on the ranks' messages, and reports their end."""
        self._funnel.start()

    def send(self, order: Raw) -> None:
        """Send every rank its part of an order."""
        self._stopping = self._stopping or order.get("do") == "stop"
        for place in self._places:
            part = part_of(place.rank, order)
            if part is not None:
                try:
                    os.write(place.orders, json.dumps(part).encode() + b"\n")
                except BrokenPipeError:
                    continue  # it has died; the funnel states it

    def emit(self, message: Raw) -> None:
        """Write a message of this process, not of a rank, to the launcher."""
        self._write(json.dumps(message).encode() + b"\n")

    def leave(self, within_s: float) -> None:
        """Wait up to `within_s` seconds for the ranks to end, then kill the rest."""
        self._stopping = True
        self._funnel.join(within_s)
        left = [place for place in self._places if place.pid]
        for place in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(place.pid, signal.SIGKILL)
        if left and within_s:
            stuck = words.ranks([place.rank for place in left])
            self.emit(
                {"kind": "note", "text": f"{stuck} did not end within {words.seconds(within_s)}: killed"}
            )
        self._funnel.join(1.0)

    def _become(self, place: RankProcess, parent: int, enter: Callable[[int, int], int]) -> None:
        """Run the rank in the child process, without other pipes; the kernel kills it with its parent.

        It never returns.
        """
        status = 1
        try:
            if sys.platform == "linux":
                ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)
            for fd in self._foreign + place.ours() + [fd for other in self._places for fd in other.ours()]:
                os.close(fd)
            null = os.open(os.devnull, os.O_RDONLY)
            os.dup2(null, 0)
            os.dup2(place.stderr_out, 1)
            os.dup2(place.stderr_out, 2)
            for fd in (null, place.stderr_out):
                os.close(fd)
            status = enter(place.orders_in, place.written_out)
        except BaseException:  # the last words of this process
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)

    def _pass_on(self) -> None:
        with selectors.DefaultSelector() as selector:
            for place in self._places:
                for fd in place.unread:
                    selector.register(fd, selectors.EVENT_READ, place)
            while selector.get_map():
                for key, _ in selector.select():
                    place, fd = key.data, key.fd
                    piece = os.read(fd, _READ_BYTES)
                    if piece:
                        self._receive(place, fd, piece)
                        continue
                    selector.unregister(fd)
                    del place.unread[fd]
                    if not place.unread:
                        self._reap(place)

    def _receive(self, place: RankProcess, fd: int, piece: bytes) -> None:
        *lines, rest = (place.unread[fd] + piece).split(b"\n")
        place.unread[fd] = rest
        if fd == place.message:
            if lines:
                self._write(b"".join(line + b"\n" for line in lines))
            return
        place.unread[fd] = rest[-_MAX_STDERR_LINE_BYTES:]  # a rank may write without ever ending a line
        known = len(place.transports)
        for raw in lines:
            line = raw.decode("utf-8", "replace")
            over = words.transport(line)
            if over is not None:
                place.transports.add(over)
            elif "NCCL WARN" in line and place.warned < _MAX_WARNINGS:
                place.warned += 1
                self.emit({"kind": "note", "text": words.plain(line), "rank": place.rank})
            if not words.is_noise(line):
                place.tail.append(line)
        if len(place.transports) > known:
            self.emit({"kind": "transport", "rank": place.rank, "transports": sorted(place.transports)})

    def _reap(self, place: RankProcess) -> None:
        """Read the status of a rank that has ended, and report why if the end is unexpected."""
        _, status = os.waitpid(place.pid, 0)
        place.pid = 0
        if self._stopping:
            return
        reported = words.last_words(place.tail)
        cause = {OWN_REASON: "own", NOT_CONNECTED: "connections"}.get(status >> 8)
        if cause is not None:
            reason = words.last_words(list(place.tail)[-1:])
        else:
            reason = words.ending(status) + (f": {reported}" if reported else "")
        self.emit({"kind": "died", "rank": place.rank, "reason": reason, "cause": cause})

    def _write(self, lines: bytes) -> None:
        with self._writing:
            self._out.write(lines)
            self._out.flush()
