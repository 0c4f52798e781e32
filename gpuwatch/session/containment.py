"""Which nodes' facts an exception comes from, when judging all nodes together has raised one."""

from __future__ import annotations

from collections.abc import Callable

from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.fleet.fleet import Fleet

LATER_S = (0.0, 3.0, 30.0)
"""Each node is judged alone at these times from now, in seconds: some checks want a while."""
MOST_UPDATES = 50


def culprits(fleet: Fleet, new_book: Callable[[], AlertBook], now: float, wall: float) -> list[str]:
    """The nodes of which each, judged alone by a new book, raises an exception."""
    return [name for name in fleet.nodes if _raises(fleet.only(name), new_book(), now, wall)]


def _raises(fleet: Fleet, book: AlertBook, now: float, wall: float) -> bool:
    try:
        for later in LATER_S:
            for _ in range(MOST_UPDATES):
                book.update(fleet, now + later, wall + later)
                if not book.behind:
                    break
    except Exception:  # the same one, in all likelihood: it is counted where it came first
        return True
    return False
