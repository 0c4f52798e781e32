"""Findings as an agent tells them, for the alerts' and the judge's tests: short to write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpuwatch import wire
from gpuwatch.diagnose.alerts.from_findings import alerts_of
from gpuwatch.diagnose.alerts.placement.finding_place import LocatedFinding
from gpuwatch.diagnose.incidents.builder import incidents
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.fleet.jobs.places import Places, RankPlace
from gpuwatch.rules.model.rule import Rule

T0 = 1_790_000_000.0
OWN = set(wire.Finding.__struct_fields__) - {"t", "seq", "v"}


def rule(name: str, severity: wire.Severity = "critical", role: wire.Role = "root", title: str = "") -> Rule:
    return Rule(
        id=name,
        severity=severity,
        title=title or name,
        match=("x",),
        explain=f"{name} on {{node}}",
        do=("ssh {node} nvidia-smi -i {gpu}",),
        examples=("x",),
        role=role,
    )


@dataclass(frozen=True)
class Pack:
    rules: tuple[Rule, ...]

    @property
    def by_id(self) -> Mapping[str, Rule]:
        return {each.id: each for each in self.rules}


PACK = Pack(
    (
        rule("gpu.xid.fell_off", title="GPU has fallen off the bus"),
        rule("gpu.xid.ecc", title="Uncorrectable memory error"),
        rule("gpu.lost", title="GPU is lost"),
        rule("oom.cuda", "error", title="CUDA out of memory"),
        rule("oom.host.kernel", title="Killed by the kernel: host out of memory"),
        rule("nccl.watchdog_timeout", role="first", title="Collective timed out"),
        rule("nccl.desync_report", title="Ranks out of step"),
        rule("rank.killed", title="Rank was killed (SIGKILL)"),
        rule("rank.abort", "error", role="echo", title="Rank aborted"),
        rule("rank.terminated", "info", role="echo", title="A rank was ended (SIGTERM)"),
        rule("launch.siblings_killed", "info", role="echo", title="Launcher ended the other ranks"),
        rule("rank.exit_error", role="first", title="Rank ended with an error"),
        rule("peer.connection_lost", "error", role="echo", title="Connection to a peer lost"),
        rule("rdma.transport_retry", role="first", title="Transport retries exceeded"),
        rule("elastic.worker_restart", "warning", role="echo", title="Workers are started again"),
        rule("data.loader_crash", "error", role="first", title="Data loader worker died"),
        rule("python.exception", "error", role="first", title="Python exception"),
        rule("hub.network", "error", title="Hub not reachable"),
        rule("storage.full", "error", title="No space left on device"),
        rule("ckpt.write_fail", "error", title="Checkpoint not written"),
        rule("data.loader_timeout", "error", title="Data loader timed out"),
        rule("gpu.xid.remap", "warning", title="Memory row remapped"),
        rule("slurm.time_limit", "error", title="Slurm time limit reached"),
        rule("slurm.node_failure", title="Slurm: node failed"),
        rule("ray.node_dead", title="Ray declared a node dead"),
        rule("launch.ssh_unreachable", title="The launcher cannot reach a node over ssh"),
        rule("launch.siblings_killed", "info", role="echo", title="Launcher ends the other ranks"),
        rule("launch.agent_signalled", "error", title="Launcher got a stop signal"),
        rule("oom.host.cgroup", title="Memory limit hit"),
        rule("cuda.launch_failure", "error", role="first", title="GPU kernel failed"),
    )
)


def places(ranks: int, per_node: int = 8, job: str | None = "4711", first: int = 1) -> Places:
    """Ranks of one job on gpu-001, gpu-002, ...; 10.0.0.N is the address of gpu-00N."""
    nodes = {rank: f"gpu-{first + rank // per_node:03d}" for rank in range(ranks)}
    return Places(
        tuple(
            RankPlace(rank, nodes[rank], job, rank % per_node, f"GPU-{rank}",
                      f"00000000:{rank % per_node:02X}:00.0", 1000 + rank, rank % per_node, ranks,
                      (f"/logs/rank_{rank}.log",))
            for rank in range(ranks)
        ),
        {f"10.0.0.{first + index}": f"gpu-{first + index:03d}" for index in range(ranks // per_node + 1)},
    )  # fmt: skip


@dataclass
class Reporter:
    """Collects findings; every one gets an offset of its own in its file."""

    places: Places
    pack: Pack = PACK
    found: list[LocatedFinding] = field(default_factory=list)
    skew: dict[str, float] = field(default_factory=dict)
    """Node -> its clock minus ours."""

    def emit(
        self, name: str, at: float, rank: int | None = None, node: str | None = None, **more: object
    ) -> None:
        """A line that this rule matches, `at` seconds after T0 of the true clock."""
        known = self.pack.by_id[name]
        place = None if rank is None else next((p for p in self.places.ranks if p.rank == rank), None)
        node = node or (place.node if place is not None else "gpu-001")
        fields = {key: value for key, value in more.items() if key not in OWN}
        keys = {key: value for key, value in more.items() if key in OWN}
        facts: dict[str, object] = {
            "t": 0.0, "seq": 0, "id": len(self.found), "rule": name,
            "severity": known.severity, "role": known.role,
            "file": f"/logs/rank_{rank}.log",
            "offset": 100 * len(self.found), "timed": True, "rank": rank,
            "at": T0 + at + self.skew.get(node, 0.0), "lines": [f"{name} {rank} {fields}"], "fields": fields,
        }  # fmt: skip
        finding = wire.Finding(**{**facts, **keys})  # type: ignore[arg-type]
        self.found.append(LocatedFinding(node, finding, self.skew.get(node, 0.0)))

    def kernel(self, name: str, at: float, node: str, **more: object) -> None:
        self.emit(name, at, None, node, file=wire.KERNEL_LOG, **more)

    def timeouts(
        self, ranks: Sequence[int], at: float, seq: int = 2381, ran_s: float = 600.0, **more: object
    ) -> None:
        """Watchdogs that give up `ran_s` after the hang began at `at`."""
        for rank in ranks:
            fields = {"op": "ALLREDUCE", "seq": seq, "ran_ms": int(ran_s * 1000)}
            stated = {name: value for name, value in more.items() if name not in OWN}
            own = {name: value for name, value in more.items() if name in OWN}
            self.emit(
                "nccl.watchdog_timeout",
                at + ran_s + 0.01 * rank,
                rank,
                None,
                fields={**fields, **stated},
                **own,
            )

    def alerts(self) -> list[Alert]:
        return alerts_of(self.found, self.pack, self.places)

    def judged(self, extra: Sequence[Alert] = ()) -> list[Incident]:
        return incidents([*self.alerts(), *extra], self.places, self.pack, T0 + 3600)
