"""Polling a session as a screen does, and what an operator sees meanwhile: ages and conditions."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable

import psutil

from gpuwatch.report.once.problems.health import placed_conditions
from gpuwatch.session import Session

EVERY_S = 0.1
NUMBER = re.compile(r"(?<=\s)\d+\.?\d*(?= )")
"""An age or a count in a text, not the number of a node."""
LIMIT_S = 180.0
"""Long enough for a loaded machine: what must come, comes much earlier."""


class Polling:
    """Polls a session ten times a second; what it saw of the named nodes since `forget`."""

    def __init__(self, session: Session, names: Iterable[str], more: Callable[[], list[str]] = list) -> None:
        """`more`: what is shown besides the conditions of nodes and GPUs."""
        self.session, self.names, self._more = session, tuple(names), more
        self.now = time.monotonic()
        self._process = psutil.Process(os.getpid())
        self._usual: set[str] = set()
        self.forget()

    def forget(self) -> None:
        """Begin anew: what is shown now is usual."""
        self._ages = dict.fromkeys(self.names, 0.0)
        self.since = time.monotonic()
        self.signs: list[tuple[float, str]] = []
        """Seconds after `since`, and what is first shown then; texts differ by more than a number."""
        self.peak_bytes = self._process.memory_info().rss
        self._usual = set(self._shown())
        self._present: set[str] = set()

    def once(self) -> None:
        """Poll, and wait a moment; ages are those just before the poll, as the screen last had them."""
        self._note_ages()
        self.session.poll()
        self.now = time.monotonic()
        shown = set(self._shown()) - self._usual
        known = {NUMBER.sub("", sign) for _, sign in self.signs}
        new = [sign for sign in sorted(shown) if NUMBER.sub("", sign) not in known]
        self.signs += [(self.now - self.since, sign) for sign in new]
        self._present = shown
        self.peak_bytes = max(self.peak_bytes, self._process.memory_info().rss)
        time.sleep(EVERY_S)

    def _note_ages(self) -> None:
        now = time.monotonic()
        for name in self.names:
            self._ages[name] = max(self._ages[name], self.session.fleet.nodes[name].age(now) or 0.0)

    def _shown(self) -> list[str]:
        fleet, now = self.session.fleet, time.monotonic()
        conditions = [
            f"{each.place} {each.condition.code}: {each.condition.text}"
            for each in placed_conditions(fleet, now)
        ]
        return [*conditions, *self._more()]

    def worst_age_s(self, name: str) -> float:
        """The greatest age of a node since `forget`."""
        return self._ages[name]

    def until(self, true: Callable[[], object], what: str, seconds: float = LIMIT_S) -> float:
        """Poll until it is true; the seconds since `forget`.

        Raises:
            AssertionError: it never was; with what is shown.
        """
        deadline = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < deadline, f"never: {what}; shown: {self.signs} {self._shown()}"
            self.once()
        return time.monotonic() - self.since

    def wait(self, seconds: float) -> None:
        """Poll for so long."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.once()

    def shows(self, text: str) -> bool:
        """Whether a sign with this text was there since `forget`."""
        return any(text in sign for _, sign in self.signs)

    def has_gone(self, text: str) -> bool:
        """Whether no sign with this text is there now."""
        return not any(text in sign for sign in self._present)

    def live(self, names: Iterable[str] | None = None) -> bool:
        """Whether the nodes (all) are live."""
        nodes = self.session.fleet.nodes
        return all(nodes[name].state(self.now) == "live" for name in names or self.names)
