"""Finds the folders of several jobs: steps of the same rank are in each. Pure.

Example: `job-1/node-1` and `job-2/node-1` have steps of ranks 0 and 1, `job-1/node-2` and `job-2/node-2`
those of ranks 2 and 3. The folders of the jobs are `job-1` and `job-2`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import PurePath

MAX_JOBS = 32
"""Most folders that are compared with each other and judged separately: the time is quadratic."""


def job_folders(ranks: Mapping[str, Iterable[int | None]]) -> dict[str, set[str]]:
    """Return folder -> its files for the deepest folders that all have steps of a common rank; else {}.

    `ranks`: file -> the ranks whose steps it has; None: a rank is unknown, and so are the jobs.
    """
    parts = {file: PurePath(file).parts[:-1] for file in ranks}
    for depth in range(min(map(len, parts.values()), default=0), 0, -1):
        folders: dict[str, set[str]] = defaultdict(set)
        for file, above in parts.items():
            folders[str(PurePath(*above[:depth]))].add(file)
        own = [{rank for file in files for rank in ranks[file]} for files in folders.values()]
        if len(own) > 1 and set.intersection(*own) and None not in set.union(*own):
            return dict(folders)
    return {}


def folder_of(file: str, folders: Iterable[str]) -> str | None:
    """Return the one of `folders` that a file is in or below; None: it is in none of them."""
    return next((folder for folder in folders if PurePath(file).is_relative_to(folder)), None)
