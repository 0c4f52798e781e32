"""Sessions over folders of logs in tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from gpuwatch.fleet.logs.log_stream import LogStream
from gpuwatch.runs.files.files import gather
from gpuwatch.session.log_folder.session import FolderSession
from tests.corpus.score import packs

WAIT_S = 240.0


@contextmanager
def opened(*paths: Path) -> Iterator[FolderSession]:
    """A session over files and folders."""
    rules = packs()
    with FolderSession(paths, gather(paths, rules.column_words), rules) as session:
        yield session


@contextmanager
def judged_folder(*paths: Path) -> Iterator[FolderSession]:
    """The same, read and judged."""
    with opened(*paths) as session:
        wait_for(session, lambda: session.report.whole)
        yield session


def wait_for(session: FolderSession, come: Callable[[], object]) -> None:
    """Poll until something is there."""
    deadline = time.monotonic() + WAIT_S
    while not come():
        assert time.monotonic() < deadline
        session.poll()
        time.sleep(0.01)


def texts(session: FolderSession, stream: LogStream) -> list[str]:
    """The lines of an answer."""
    wait_for(session, lambda: stream.done or (stream.kind == "tail" and stream.lines))
    assert stream.error is None
    return [line.text for line in stream.lines]
