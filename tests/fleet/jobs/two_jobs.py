"""Fleets in which several jobs run at once, reported by frames as agents send them."""

from __future__ import annotations

from typing import Any

from gpuwatch import wire
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.stream.inbox import Arrival, ClockReading, Content, LinkStatus

WALL = 1_750_000_000.0


def rank(number: int, pid: int, world: int = 4, **more: Any) -> wire.Process:
    """A rank with a log of its own in /runs/PID's hundred; `more`: keys of `wire.Process`."""
    facts: dict[str, Any] = {
        "launcher": pid // 100 * 100,
        "start": WALL + pid,
        "logs": [f"/runs/{pid // 100}/rank_{number}.log"],
        **more,
    }
    return wire.Process(pid, "python", rank=number, local_rank=number, world_size=world, **facts)


class Several:
    """Nodes n1, n2, ... whose processes and log files a test tells."""

    def __init__(self, nodes: int = 1) -> None:
        names = [f"n{number + 1}" for number in range(nodes)]
        self.fleet = Fleet(Plan(tuple(NodeSpec(name) for name in names)))
        self.ids = 0
        for name in names:
            hello = wire.Hello(
                t=WALL, seq=0, host=name, agent="1", python="3", pid=1, interval_s=1.0, gpus=[]
            )
            self.report(name, LinkStatus("live"), ClockReading(0.0, 0.01), hello)

    def report(self, node: str, *what: Content, at: float = 1.0) -> None:
        for each in what:
            reported = wire.decode(wire.encode(each)) if isinstance(each, wire.Frame) else each
            self.fleet.apply(Arrival(node, at, reported))

    def run(self, node: str, *processes: wire.Process, at: float = 1.0) -> None:
        self.report(node, wire.Ranks(t=WALL + at, seq=1, processes=list(processes)), at=at)

    def list_files(self, node: str, *files: wire.LogFile) -> None:
        self.report(node, wire.Logs(t=WALL, seq=2, files=list(files)))

    def find(self, node: str, file: str, rule: str = "oom.cuda", at: float = 0.0, **more: Any) -> None:
        self.ids += 1
        facts: dict[str, Any] = {"severity": "error", "role": "root", "lines": [f"{rule} {file}"], **more}
        self.report(
            node,
            wire.Finding(
                t=WALL, seq=3, id=self.ids, rule=rule, file=file, offset=10 * self.ids, at=WALL + at,
                timed=True, **facts,
            ),
            at=max(1.0, at),
        )  # fmt: skip

    def step(self, node: str, file: str, step: int) -> None:
        """Rank 0 tells a step."""
        progress = wire.Progress(
            t=WALL,
            seq=4,
            file=file,
            offset=0,
            at=WALL,
            dialect="progress.common",
            rank=0,
            fields={"step": step},
        )
        self.report(node, progress)

    def jobs(self, node: str) -> dict[int, str | None]:
        """Pid -> job."""
        return {process.pid: process.job for process in self.fleet.nodes[node].processes}

    def files(self, node: str) -> dict[str, str | None]:
        """Path -> job, of the log files."""
        return {file.path: file.job for file in self.fleet.nodes[node].logs}

    def found(self) -> list[str | None]:
        """The jobs of the findings, in the order in which they were reported."""
        return [each.finding.job for each in self.fleet.findings.values()]
