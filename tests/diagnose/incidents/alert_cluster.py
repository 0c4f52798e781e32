"""A fleet whose alerts are kept in a book."""

from __future__ import annotations

from msgspec import structs

from gpuwatch import wire
from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import RulePacks
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.plan import NodeSpec, Plan, Thresholds
from gpuwatch.link.stream.inbox import Arrival, ClockReading, Content, LinkStatus
from tests.diagnose.finding import PACK
from tests.diagnose.story import EPOCH, FINE, MEDIUM, NOW, SLOW
from tests.report.fleets import hello, plan

LIMITS = Thresholds(hold_s=10, clear_s=20)
BUSY_TURNS = 100

TIMED_OUT: dict[str, str | int | float] = {"op": "ALLREDUCE", "seq": 7, "ran_ms": 600_000}


class Cluster:
    """Nodes of eight GPUs with one rank each, watched by a book whose clock is moved by hand."""

    def __init__(self, nodes: int = 2, skew: float = 0.0, packs: RulePacks = PACK) -> None:
        self.names = [f"gpu-{index + 1:03d}" for index in range(nodes)]
        self.fleet = Fleet(Plan(tuple(NodeSpec(name) for name in self.names)))
        self.packs, self.book = packs, AlertBook(packs, LIMITS)
        self.now, self.skew, self.ids = NOW, skew, 0
        self.lost: set[str] = set()
        for index, name in enumerate(self.names):
            self.greet(index, name)
        self.step(1)

    @property
    def t(self) -> float:
        """The nodes' clock."""
        return EPOCH + self.now - NOW + self.skew

    def report(self, node: str, *what: Content) -> None:
        for each in what:
            reported = wire.decode(wire.encode(each)) if isinstance(each, wire.Frame) else each
            self.fleet.apply(Arrival(node, self.now, reported))

    def greet(self, index: int, name: str) -> None:
        gpus = [
            wire.GpuInfo(
                f"GPU-{index}-{gpu}", gpu, "H100", f"00000000:{gpu:02X}:00.0", temperature_slowdown_c=87
            )
            for gpu in range(8)
        ]
        ranks = [
            wire.Process(
                pid=100 + gpu, name="python", rank=index * 8 + gpu, local_rank=gpu, job="4711",
                world_size=len(self.names) * 8, gpus=[wire.ProcessGpu(f"GPU-{index}-{gpu}", 40 << 30)],
                logs=[f"/logs/rank_{index * 8 + gpu}.log"],
            )
            for gpu in range(8)
        ]  # fmt: skip
        self.report(name, LinkStatus("live"), ClockReading(self.skew, 0.01))
        hello = wire.Hello(
            t=self.t, seq=0, host=name, agent="1", python="3", pid=1, interval_s=1.0, gpus=gpus
        )
        self.report(name, hello, wire.Ranks(t=self.t, seq=1, processes=ranks))

    def step(
        self,
        seconds: float = 1.0,
        hot: dict[str, float] | None = None,
        silent: str = "",
        odd: dict[str, wire.GpuFast] | None = None,
    ) -> bool:
        """Seconds pass with a sample of every node each; `hot`: UUID -> degrees, `odd`: UUID -> values."""
        moved = False
        for _ in range(int(seconds)):
            self.now += 1
            for index, name in enumerate(self.names):
                if name == silent:
                    continue
                readings = [
                    wire.GpuSample(
                        uuid := f"GPU-{index}-{gpu}",
                        fast=structs.replace(
                            (odd or {}).get(uuid, FINE), t=self.t, temperature_c=(hot or {}).get(uuid, 60)
                        ),
                        medium=structs.replace(MEDIUM, t=self.t),
                        slow=structs.replace(SLOW, t=self.t),
                    )
                    for gpu in range(8)
                    if f"GPU-{index}-{gpu}" not in self.lost
                ]
                self.report(name, wire.Sample(t=self.t, seq=2, gpus=readings))
            moved |= self.book.update(self.fleet, self.now, EPOCH + self.now - NOW)
        for _ in range(BUSY_TURNS):  # on a busy machine a judgement is not through in one turn
            if not self.book.behind:
                break
            moved |= self.book.update(self.fleet, self.now, EPOCH + self.now - NOW)
        return moved

    def find(self, rule: str, rank: int | None = None, node: str = "gpu-001", **more: object) -> wire.Finding:
        known = self.packs.by_id[rule]
        if "id" not in more:
            self.ids += 1
        facts: dict[str, object] = {
            "t": self.t, "seq": 3, "id": self.ids, "rule": rule,
            "severity": known.severity, "role": known.role,
            "file": f"/logs/rank_{rank}.log", "offset": self.ids * 50, "at": self.t, "timed": True,
            "rank": rank, "lines": [f"{rule} {rank}"],
        }  # fmt: skip
        finding = wire.Finding(**{**facts, **more})  # type: ignore[arg-type]
        self.report(node, finding)
        return finding

    def states(self, code: str) -> list[str]:
        return [alert.state for alert in self.book.alerts.values() if alert.code == code]


class Watched(Cluster):
    """Two nodes that list processes, log files and the kernel log; rank 9 is process 101 of gpu-002."""

    def __init__(self, *, kernel: bool = True, packs: RulePacks = PACK) -> None:
        self.kernel = kernel
        super().__init__(packs=packs)

    def greet(self, index: int, name: str) -> None:
        super().greet(index, name)
        node = self.fleet.nodes[name]
        assert node.hello is not None
        own = structs.replace(node.hello, kernel_log="/dev/kmsg" if self.kernel else None)
        files = [wire.LogFile(f"/logs/rank_{index * 8 + gpu}.log") for gpu in range(8)]
        self.report(name, own, wire.Logs(t=self.t, seq=2, files=files, complete=True))
        self.list(name)

    def list(self, name: str) -> None:
        """The node lists its processes again."""
        started = [structs.replace(each, start=self.t - 3600) for each in self.fleet.nodes[name].processes]
        self.report(name, wire.Ranks(t=self.t, seq=4, processes=started))

    def wait(self) -> None:
        """Half a minute, in which the nodes go on listing their processes."""
        for _ in range(15):
            self.step(2)
            for name in self.names:
                node = self.fleet.nodes[name]
                self.report(name, wire.Ranks(t=self.t, seq=5, processes=node.processes))

    def alert(self, code: str) -> Alert:
        (alert,) = (each for each in self.book.alerts.values() if each.code == code)
        return alert

    def incident(self) -> Incident:
        (incident,) = self.book.incidents
        return incident


def idle(cluster: Watched, name: str) -> None:
    """Add a node that runs no rank."""
    added = Fleet(plan(name)).nodes[name]
    cluster.fleet.nodes[name] = added
    cluster.names.append(name)
    cluster.report(name, LinkStatus("live"), hello(8, host=name, boot_id=name, kernel_log="/dev/kmsg"))
    cluster.report(name, wire.Ranks(t=cluster.t, seq=1))
