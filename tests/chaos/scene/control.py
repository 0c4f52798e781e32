"""What the machine alone delays: a second cockpit, in its own process, over one node without faults."""

from __future__ import annotations

import multiprocessing
import os
import sys
from multiprocessing.connection import Connection
from pathlib import Path

from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.session import Session
from tests.bench.live import simulated_agent
from tests.chaos.scene.polling import Polling

NODE = "control"


def _watch(line: Connection) -> None:
    command = (sys.executable, str(Path(simulated_agent.__file__)))
    plan = Plan((NodeSpec(NODE, link="command", command=command),), interval_s=1.0, source="control")
    with Session(plan) as session:
        polling = Polling(session, [NODE])
        polling.until(lambda: session.fleet.nodes[NODE].age(polling.now) is not None, "the control's node")
        while True:
            polling.forget()
            while not line.poll():
                polling.once()
            if line.recv():
                return
            line.send(polling.worst_age_s(NODE))
    os._exit(0)


class Control:
    """Start it before any thread of this process; `worst_age_s` is since the last call."""

    def __init__(self) -> None:
        self._line, other = multiprocessing.Pipe()
        fork = multiprocessing.get_context("fork")
        self._process = fork.Process(target=_watch, args=(other,), daemon=True)
        self._process.start()
        self.pid = self._process.pid
        other.close()

    def worst_age_s(self) -> float:
        """The greatest age of its node since the last call, as polled at the same pace."""
        self._line.send(False)
        worst: float = self._line.recv()
        return worst

    def close(self) -> None:
        """End it."""
        self._line.send(True)
        self._process.join()
        self._line.close()
