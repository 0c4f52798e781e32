"""Many nodes over real ssh, each with a simulated agent; what is asked of all and of some of them."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.session import Session
from tests.bench.live import simulated_agent

LATE_S = 12.0
"""A frame each second on a machine four times slower than usual; a node that is lost is older."""
FORCED = f"ForceCommand {sys.executable} {Path(simulated_agent.__file__)}"
"""The line of sshd_config that starts the simulated agent in place of the real one."""


def all_live(names: Iterable[str], fleet: Fleet, now: float) -> bool:
    """Every one of these nodes is live."""
    return all(fleet.nodes[name].state(now) == "live" for name in names)


def all_lost(names: Iterable[str], fleet: Fleet, now: float) -> bool:
    """Every one of these nodes is lost."""
    return all(fleet.nodes[name].state(now) == "lost" for name in names)


def worst_age_s(session: Session, names: Sequence[str], seconds: float) -> float:
    """Poll for so long; the greatest age that one of these nodes had meanwhile."""
    worst, until = 0.0, time.monotonic() + seconds
    while time.monotonic() < until:
        session.poll()
        now = time.monotonic()
        worst = max(worst, *(session.fleet.nodes[name].age(now) or 0.0 for name in names))
        time.sleep(0.05)
    return worst


def reported(session: Session) -> set[str]:
    """The codes of all alerts, resolved ones included."""
    return {alert.code for alert in session.book.alerts.values()}
