"""All nodes of a probe: they are opened together, feed one queue, and are ended together."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from msgspec import Struct

from gpuwatch.probe.orchestration.nodes.node_line import Lost, NodeLine, Received
from gpuwatch.probe.protocol import AnyOrder

CLOSE_S = 2.0


class CancelledError(Exception):
    """Raised after the user has cancelled."""


class Confirmed(Struct, frozen=True):
    """The user has confirmed the plan."""


class RetestAsked(Struct, frozen=True):
    """The user wants these pairs measured again, alone."""

    pairs: tuple[tuple[int, int], ...]


UserAnswer: TypeAlias = Confirmed | RetestAsked


class NodePool:
    """All nodes of a probe. Used by the conductor's thread.

    Only `ask` and `cancel` may be called from others.
    """

    def __init__(self, lines: Sequence[NodeLine], clock: Callable[[], float] = time.monotonic) -> None:
        self._lines = {line.node: line for line in lines}
        self._clock = clock
        self._received: queue.SimpleQueue[tuple[str, Received] | UserAnswer | None] = queue.SimpleQueue()
        self._asked: list[UserAnswer] = []
        self._cancelled = threading.Event()
        self.present: dict[str, None] = dict.fromkeys(self._lines)
        """Nodes that take part, in the order of the plan."""

    def open(self) -> None:
        """Start to connect all nodes; return at once."""
        for line in self._lines.values():
            line.open(lambda node, message: self._received.put((node, message)))

    def send(self, nodes: Iterable[str], order: AnyOrder) -> None:
        """Send these nodes the same order; a node that is gone reports `Lost` by itself."""
        for node in nodes:
            self._lines[node].send(order)

    def receive(self, until: float) -> tuple[str, Received] | None:
        """Return the next message of a node that takes part; None at `until` (conductor's clock).

        After `Lost` the node takes part no more. Requests of the user are kept for `wait_for_user`.

        Raises:
            CancelledError: the user has cancelled.
        """
        while (item := self._next(until)) is not None:
            if not isinstance(item, tuple):
                self._asked.append(item)
                continue
            node, message = item
            if node in self.present:
                if isinstance(message, Lost):
                    del self.present[node]
                return node, message
        return None

    def wait_for_user(self, until: float) -> UserAnswer | tuple[str, Received] | None:
        """Return the user's request, or (node, message) if a node sends one before it; None at `until`.

        Raises:
            CancelledError: the user has cancelled.
        """
        if self._asked:
            return self._asked.pop(0)
        while (item := self._next(until)) is not None:
            if not isinstance(item, tuple):
                return item
            node, message = item
            if node in self.present:  # who was dismissed still states that it was closed
                if isinstance(message, Lost):
                    del self.present[node]
                return item
        return None

    def asked_retests(self) -> list[RetestAsked]:
        """Return and remove the retests that were requested during something else."""
        found = [each for each in self._asked if isinstance(each, RetestAsked)]
        self._asked = [each for each in self._asked if not isinstance(each, RetestAsked)]
        return found

    def await_end(self, until: float) -> None:
        """Wait until every node that takes part has sent its last message, or `until`."""
        while self.present and self.receive(until) is not None:
            pass

    def ask(self, what: UserAnswer) -> None:
        """Queue a request of the user."""
        self._received.put(what)

    def cancel(self) -> None:
        """Make `receive` and `wait_for_user` raise CancelledError."""
        self._cancelled.set()
        self._received.put(None)

    def dismiss(self, nodes: Iterable[str]) -> None:
        """Close the connections to these nodes; the others continue. Returns at once."""
        for node in list(nodes):
            self.present.pop(node, None)
            threading.Thread(target=self._lines[node].close, name="probe closing", daemon=True).start()

    def close(self) -> None:
        """Close all connections at once, within 2 s."""
        threads = [
            threading.Thread(target=line.close, name="probe closing", daemon=True)
            for line in self._lines.values()
        ]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + CLOSE_S
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _next(self, until: float) -> tuple[str, Received] | UserAnswer | None:
        while True:
            if self._cancelled.is_set():
                raise CancelledError
            wait_s = until - self._clock()
            try:
                item = self._received.get(block=wait_s > 0, timeout=max(wait_s, 0.0) or None)
            except queue.Empty:
                return None
            if item is not None:
                return item
