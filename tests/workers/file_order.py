"""The order of the test files: those that wait for processes are spread among those that compute.

Files are dealt out in the order of collection. In alphabetical order all test processes wait at the same
time, and later all compute at the same time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import pytest

WAITING = ("chaos", "drills", "end_to_end", "cli", "session", "link", "agent", "probe", "telemetry", "gpu")
"""Folders of tests that run processes and wait for them, those with the longest files first."""
LONGEST = ("tests/tui/robustness/test_random_keys.py",)
"""Files of a minute or more in the other folders; one at the end would run alone."""


def by_share(items: Iterable[pytest.Item]) -> Callable[[pytest.Item], float]:
    """Return a sort key that merges both kinds of files, each in proportion to its number of tests.

    The tests of a file share one key, from 0 (first) to 1 (also for files that are not among `items`).
    """
    counts = Counter(item.nodeid.partition("::")[0] for item in items)
    places: dict[str, float] = {}
    for waiting in (True, False):
        files = sorted((file for file in counts if (_rank(file) < len(WAITING)) is waiting), key=_order)
        total, passed = sum(counts[file] for file in files), 0
        for file in files:
            places[file] = (passed + counts[file] / 2) / total
            passed += counts[file]
    return lambda item: places.get(item.nodeid.partition("::")[0], 1.0)


def _rank(file: str) -> int:
    folder = "".join(file.split("/")[1:2])
    return WAITING.index(folder) if folder in WAITING else len(WAITING)


def _order(file: str) -> tuple[bool, int, str]:
    return file not in LONGEST, _rank(file), file
