"""Sessions over a simulated Prometheus."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from gpuwatch.fleet.nodes.node import Node
from gpuwatch.link.prometheus.discovery import discover
from gpuwatch.session import Session
from tests.link.prometheus.simulated import SimulatedPrometheus

WAIT_S = 240.0


@contextlib.contextmanager
def session_of(
    known: SimulatedPrometheus, selector: str = "", interval_s: float | None = None
) -> Iterator[Session]:
    with Session(*discover(known.url, selector, interval_s)) as session:
        yield session


def until(session: Session, holds: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end
        session.poll()
        time.sleep(0.01)


def live(session: Session, count: int) -> Callable[[], bool]:
    """Whether so many nodes are live and their GPUs have values: these come after the link's state."""

    def holds() -> bool:
        now = time.monotonic()
        found = [node for node in session.fleet.nodes.values() if node.state(now) == "live"]
        return len(found) == count and all(
            gpus and all(gpu.fast is not None for gpu in gpus) for gpus in map(Node.gpu_list, found)
        )

    return holds
