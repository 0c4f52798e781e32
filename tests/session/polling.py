"""Waiting for a session until something holds."""

from __future__ import annotations

import time
from collections.abc import Callable

from gpuwatch.session import Session


def until(session: Session, holds: Callable[[], object], seconds: float = 240.0) -> None:
    """Poll the session until something is true; the error of a wait in vain states the nodes' links."""
    deadline = time.monotonic() + seconds
    while not holds():
        nodes = session.fleet.nodes.values()
        assert time.monotonic() < deadline, [(each.link, each.hello) for each in nodes]
        session.poll()
        time.sleep(0.01)
