"""Looks for the logs of ended jobs at the start and now and then, and puts them into the catalog."""

import time

from .start_folders import start_folders, written_by_others
from .tail import Tail
from .walk import WINDOW_S, Walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator  # noqa: F401 - used in type comments

    from ..catalog import Catalog  # noqa: F401 - used in type comments
    from ..crumbs import Crumbs  # noqa: F401 - used in type comments
    from ..ruleset import RuleSet  # noqa: F401 - used in type comments
    from ..sieve import Sieve  # noqa: F401 - used in type comments
    from .walk import Candidate  # noqa: F401 - used in type comments

AGAIN_S = 60.0
"""Between two looks: a job that dies within seconds of its start is met by no look at the processes."""
STEP_S = 0.02
BUDGET_S = 2.0
"""So long one look takes in all."""
MAX_TAILS = 128
"""So many files are opened, the newest first."""


class Discovery(object):
    """Call `step` when nothing else waits; nothing is done where `discover` of the config is not true."""

    def __init__(self, config, catalog, crumbs, ruleset, sieve):
        # type: (dict[str, Any], Catalog, Crumbs, RuleSet, Sieve) -> None
        self._on = bool(config.get("discover"))
        self._proc = str(config.get("proc", "/proc"))
        self._earlier = [str(folder) for folder in config.get("earlier_folders", ())]
        self._catalog = catalog
        self._crumbs = crumbs
        self._ruleset = ruleset
        self._sieve = sieve
        self._work = None  # type: Iterator[None] | None
        self._due = 0.0
        self._spent = 0.0
        self._known = {}  # type: dict[str, tuple[float, int]]
        """Path -> modification time and size of what was looked at and is no log of a training."""
        self.settled = not self._on
        """Whether it has looked once, or never will."""
        self.cut = False
        """Whether a bound ended the last look before it was through."""

    def step(self):
        # type: () -> bool
        """Go on for a moment; whether there is more to do now."""
        began = time.monotonic()
        if not self._on or (self._work is None and began < self._due):
            return False
        if self._work is None:
            self._work, self._spent, self.cut = self._look(), 0.0, False
        for _ in self._work:
            spent = time.monotonic() - began
            if self._spent + spent > BUDGET_S:
                self.cut = True
                break
            if spent > STEP_S:
                self._spent += spent
                return True
        self._work, self._due, self.settled = None, time.monotonic() + AGAIN_S, True
        return False

    def _look(self):
        # type: () -> Iterator[None]
        walk = Walk(start_folders(self._proc, self._earlier), time.time(), self._enter, self._is_blocked)
        for _ in walk.steps():
            yield
        self.cut = walk.cut
        new = [one for one in walk.found if self._is_new(one)]
        new = sorted(new, key=lambda one: -one.modified)[:MAX_TAILS]
        held = written_by_others(self._proc, frozenset(one.path for one in new))
        yield
        for one in new:
            if one.path not in held and not self._is_blocked(one.path):
                self._enter(one.path)
                self._take(one)
                yield

    def _is_new(self, one):
        # type: (Candidate) -> bool
        return one.path not in self._catalog.entries and self._known.get(one.path) != _state(one)

    def _take(self, one):
        # type: (Candidate) -> None
        """Put a file into the catalog if it is the log of a training that ended of late."""
        try:
            tail = Tail(one.path)
        except OSError:
            return
        last = one.modified if tail.at is None else tail.at
        if last < time.time() - WINDOW_S or not tail.is_training(self._ruleset, self._sieve):
            self._known[one.path] = _state(one)
            return
        self._catalog.add(one.path, "found")
        entry = self._catalog.entries.get(one.path)
        if entry is not None:
            entry.last_at, entry.last_lines = last, tail.lines

    def _enter(self, path):
        # type: (str) -> None
        self._crumbs.file(path)

    def _is_blocked(self, path):
        # type: (str) -> bool
        return path in self._catalog.blocked


def _state(one):
    # type: (Candidate) -> tuple[float, int]
    return one.modified, one.size
