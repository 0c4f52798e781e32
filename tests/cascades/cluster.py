"""A job whose logs are written as text, read by the real scanner with the real packs, and judged."""

from __future__ import annotations

import itertools
import os
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path

import msgspec

from gpuwatch import wire
from gpuwatch.agent.logs.matching.prefilter import Prefilter
from gpuwatch.agent.logs.scanning.scanner import Scanner
from gpuwatch.diagnose.alerts.from_findings import alerts_of
from gpuwatch.diagnose.alerts.placement.finding_place import LocatedFinding
from gpuwatch.diagnose.incidents.builder import incidents
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.fleet.jobs.places import Places, RankPlace
from gpuwatch.report.scan.report import judged
from gpuwatch.rules.load import Packs, load_packs
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.scan.scan import scan
from tests.packs import built_in_rules

EPOCH = datetime(2026, 11, 3, 2, 0, 0).astimezone().timestamp()
"""True time 0 of every story."""
JOB = "774411"
SLURM = f"/scratch/slurm-{JOB}.out"


@cache
def packs() -> Packs:
    return load_packs()


@cache
def prefilter() -> Prefilter:
    return Prefilter(built_in_rules())


@dataclass
class Cluster:
    """Nodes, ranks and their log files. Times are of the true clock; lines show their node's own one."""

    ranks: int
    per_node: int = 8
    job: str = JOB
    first_node: int = 1
    skew: bool = True
    seed: int = 7
    folder: Path | None = None
    """Where the logs are put as files for `scan`; None: they are followed as an agent does."""
    lines: dict[tuple[str, str], list[tuple[float, str]]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        chance = random.Random(self.seed)
        self.chance = chance
        self.skews = {name: chance.uniform(-40, 40) if self.skew else 0.0 for name in self.nodes}
        for rank in range(self.ranks):
            for step in range(3):
                self.rank(
                    rank, -30.0 + 10 * step, f"step {1000 + step} loss {2.5 - step / 100:.3f} lr 3.0e-4"
                )

    @property
    def nodes(self) -> list[str]:
        count = -(-self.ranks // self.per_node)
        return [f"gpu-{self.first_node + index:03d}" for index in range(count)]

    def node_of(self, rank: int) -> str:
        return self.nodes[rank // self.per_node]

    def pid(self, rank: int) -> int:
        return 30_000 + rank

    def bus(self, rank: int) -> str:
        return f"0000:{0x10 + 0x10 * (rank % self.per_node):02x}:00"

    def address(self, rank: int) -> str:
        return f"10.20.0.{self.first_node + rank // self.per_node}"

    @property
    def places(self) -> Places:
        return Places(
            tuple(
                RankPlace(
                    rank, self.node_of(rank), self.job, rank % self.per_node, f"GPU-{self.job}-{rank}",
                    f"0000{self.bus(rank)}.0", self.pid(rank), rank % self.per_node, self.ranks,
                    (self.log(rank),),
                )
                for rank in range(self.ranks)
            ),
            {self.address(rank): self.node_of(rank) for rank in range(0, self.ranks, self.per_node)},
        )  # fmt: skip

    def log(self, rank: int) -> str:
        return f"/runs/{self.job}/rank_{rank}.log"

    def clock(self, node: str, t: float) -> datetime:
        return datetime.fromtimestamp(EPOCH + t + self.skews.get(node, 0.0)).astimezone()

    # what writes lines

    def write(self, node: str, path: str, t: float, text: str) -> None:
        self.lines[node, path].append((t, text))

    def rank(self, rank: int, t: float, *texts: str) -> None:
        for text in texts:
            self.write(self.node_of(rank), self.log(rank), t, text)

    def raised(self, rank: int, t: float, error: str, source: str = "train.py") -> None:
        """A Python traceback with torch's rank prefix; it carries no time."""
        trace = (
            "Traceback (most recent call last):",
            f'  File "/opt/job/{source}", line 210, in <module>',
            "    main()",
        )
        self.rank(rank, t, *(f"[rank{rank}]: {text}" for text in (*trace, error)))

    def kernel(self, node: str, t: float, text: str) -> None:
        stamp = self.clock(node, t).strftime("%a %b %e %H:%M:%S %Y")
        self.write(node, wire.KERNEL_LOG, t, f"[{stamp}] {text}")

    def launcher(self, node: str, t: float, level: str, where: str, text: str) -> None:
        stamp = self.clock(node, t).strftime("%m%d %H:%M:%S.%f")
        self.write(
            node, f"/runs/{self.job}/launcher_{node}.log", t,
            f"{level}{stamp} 29999 torch/distributed/elastic/{where}] {text}",
        )  # fmt: skip

    def slurm(self, t: float, text: str) -> None:
        self.write(self.nodes[0], SLURM, t, text)

    def glog(
        self, rank: int, t: float, level: str, text: str, source: str = "ProcessGroupNCCL.cpp:633"
    ) -> None:
        stamp = self.clock(self.node_of(rank), t).strftime("%m%d %H:%M:%S.%f") + "123"
        self.rank(rank, t, f"[rank{rank}]:[{level}{stamp} {source}] {text}")

    def timeout(
        self, rank: int, t: float, op: str = "ALLREDUCE", seq: int = 2381, ran_s: float = 600.0
    ) -> None:
        """The watchdog of a rank gives up at `t`, and takes the process down."""
        group = f"[PG ID 0 PG GUID 0(default_pg) Rank {rank}]"
        self.glog(
            rank, t, "E",
            f"{group} Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, "
            f"NumelIn=8388608, NumelOut=8388608, Timeout(ms)=600000) ran for {int(ran_s * 1000) + rank % 90} "
            "milliseconds before timing out.",
        )  # fmt: skip
        self.glog(
            rank, t + 0.2, "E",
            f"{group} Timeout at NCCL work: {seq}, last enqueued NCCL work: {seq + 2}, "
            f"last completed NCCL work: {seq - 1}.",
        )  # fmt: skip
        self.glog(
            rank, t + 0.3, "E",
            f"{group} Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA "
            "kernels, subsequent GPU operations might run on corrupted/incomplete data.",
        )  # fmt: skip

    def hang(self, at: float, but: Sequence[int] = (), ran_s: float = 600.0, **how: object) -> None:
        """Every rank but these entered a collective at about `at`; its watchdog gives up `ran_s` later."""
        for rank in range(self.ranks):
            if rank not in but:
                late = self.chance.uniform(0.0, 2.0)
                self.timeout(rank, at + ran_s + late, ran_s=ran_s, **how)  # type: ignore[arg-type]

    def closes(self, node: str, t: float, failed: int, exitcode: int, reported: bool = True) -> None:
        """A node's launcher sees that a rank's process has ended, ends the others and sums up."""
        mine = [rank for rank in range(self.ranks) if self.node_of(rank) == node and rank != failed]
        for rank in mine:
            text = f"Sending process {self.pid(rank)} closing signal SIGTERM"
            self.launcher(node, t, "W", "multiprocessing/api.py:900", text)
        if not reported:
            return
        local = failed % self.per_node
        self.launcher(
            node, t + 1, "E", "multiprocessing/api.py:874",
            f"failed (exitcode: {exitcode}) local_rank: {local} (pid: {self.pid(failed)}) of binary: "
            "/usr/bin/python3",
        )  # fmt: skip
        signal = {
            -9: "Signal 9 (SIGKILL)",
            -7: "Signal 7 (SIGBUS)",
            -11: "Signal 11 (SIGSEGV)",
            -6: "Signal 6 (SIGABRT)",
        }
        stamp = self.clock(node, t).strftime("%Y-%m-%d_%H:%M:%S")
        table = [
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ", "=" * 60,
            "train.py FAILED",
            "-" * 60, "Root Cause (first observed failure):", "[0]:", f"  time      : {stamp}",
            f"  host      : {node}", f"  rank      : {failed} (local_rank: {local})",
            f"  exitcode  : {exitcode} (pid: {self.pid(failed)})",
            "  error_file: <N/A>",
            f"  traceback : {signal[exitcode]} received by PID {self.pid(failed)}" if exitcode in signal
            else "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html",
            "=" * 60,
        ]  # fmt: skip
        for text in table:
            self.write(node, f"/runs/{self.job}/launcher_{node}.log", t + 1.1, text)

    # what reads them

    def found(self, *, backlog: bool = False) -> list[LocatedFinding]:
        """Everything that the scanners tell; the files grow together, in pieces of any size."""
        ids = itertools.count(1).__next__
        pieces: list[tuple[float, str, Scanner, bytes, int]] = []
        scanners: list[tuple[str, Scanner]] = []
        for (node, path), lines in self.lines.items():
            scanner = Scanner(built_in_rules(), path, ids, self._speaker(path), prefilter())
            scanners.append((node, scanner))
            offset = 0
            for t, text in sorted(lines, key=lambda line: line[0]):
                data = text.encode() + b"\n"
                pieces.append((t + self.chance.uniform(0.0, 0.4), node, scanner, data, offset))
                offset += len(data)
        found: list[LocatedFinding] = []
        last = max(piece[0] for piece in pieces) + 60.0
        fed: dict[int, float] = {}
        for t, node, scanner, data, offset in pieces:
            fed[id(scanner)] = max(t, fed.get(id(scanner), t))
            arrived = EPOCH + (last if backlog else fed[id(scanner)]) + self.skews[node]
            self._keep(found, node, scanner.feed(data, offset, arrived, backlog=backlog))
        for node, scanner in scanners:
            self._keep(found, node, scanner.end())
        return found

    def _speaker(self, path: str) -> object:
        rank = next((rank for rank in range(self.ranks) if self.log(rank) == path), None)
        facts: dict[str, object] = {"job": self.job} if path != wire.KERNEL_LOG else {}
        if rank is not None:
            facts.update(rank=rank, rank_from="process", local_rank=rank % self.per_node)
        return lambda: facts

    def _keep(self, found: list[LocatedFinding], node: str, reported: list[dict[str, object]]) -> None:
        for each in reported:
            finding = msgspec.convert({**each, "kind": "finding", "t": 0.0, "seq": 0}, wire.Finding)
            found.append(LocatedFinding(node, finding, self.skews[node], 0.01))

    def alerts(self, *, backlog: bool = False) -> list[Alert]:
        return alerts_of(self.found(backlog=backlog), packs(), self.places)

    def scanned(self, folder: Path) -> list[Incident]:
        """What `gpuwatch scan` says of the same lines, collected in one folder for each node."""
        for (node, path), lines in self.lines.items():
            name = "dmesg.log" if path == wire.KERNEL_LOG else Path(path).name
            file = folder / node / name
            file.parent.mkdir(parents=True, exist_ok=True)
            ordered = sorted(lines, key=lambda line: line[0])
            file.write_text("".join(f"{text}\n" for _, text in ordered))
            os.utime(file, (EPOCH + ordered[-1][0],) * 2)
        report = judged(scan(gather([folder]), packs().all, cores=1), packs(), EPOCH + 3600, 0.0)
        return list(report.incidents)

    def judged(self, extra: Sequence[Alert] = (), backlog: bool = False) -> list[Incident]:
        if self.folder is not None:
            return self.scanned(self.folder)
        alerts = [*self.alerts(backlog=backlog), *extra]
        return incidents(alerts, self.places, packs(), EPOCH + 3600)
