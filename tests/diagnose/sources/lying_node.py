"""Stories of honest nodes, and one node that says anything about the others."""

from __future__ import annotations

import random
from collections.abc import Callable

from msgspec import structs

from gpuwatch import wire
from gpuwatch.diagnose.model.failure_classes import TIMEOUTS
from gpuwatch.rules.load import load_packs
from tests.diagnose.incidents.alert_cluster import Watched, idle

PACKS = load_packs()
JOB, LIAR, HONEST, CULPRIT = "4711", "gpu-003", ("gpu-001", "gpu-002"), 9
RULES = (
    "oom.cuda", "oom.host.kernel", "python.exception", "rank.killed", "rank.exit_error", "rank.segfault",
    "rank.abort", "cuda.ecc", "cuda.illegal_access", "gpu.xid.fell_off", "slurm.time_limit",
    "slurm.cancelled", "slurm.node_failure", "nccl.watchdog_timeout", "peer.connection_lost",
    "storage.full", "job.finished", "elastic.worker_restart", "c10d.monitored_barrier", "nccl.desync_report",
    "launch.ssh_unreachable",
)  # fmt: skip
TABLE = (
    "  host      : {host}",
    "  rank      : {rank} (local_rank: {local})",
    "  exitcode  : -9 (pid: {pid})",
)


class LyingNode(Watched):
    """gpu-001 and gpu-002 run ranks 0 to 15 of a job; gpu-003 runs none, or 16 to 23 of it, and lies."""

    def __init__(self, seed: int, *, member: bool) -> None:
        self.random = random.Random(seed)
        self.member = member
        super().__init__(packs=PACKS)
        if member:
            world = [
                structs.replace(each, world_size=24)
                for name in HONEST
                for each in self.fleet.nodes[name].processes
            ]
            for index, name in enumerate(HONEST):
                self.report(name, wire.Ranks(t=self.t, seq=4, processes=world[index * 8 : index * 8 + 8]))
        idle(self, LIAR)
        if member:
            self.report(LIAR, wire.Ranks(t=self.t, seq=4, processes=self.own_ranks()))
        for _ in range(3):
            self.step(2)
            self.relist()

    def own_ranks(self) -> list[wire.Process]:
        return [
            wire.Process(
                pid=100 + gpu, name="python", rank=16 + gpu, local_rank=gpu, job=JOB, world_size=24,
                start=self.t - 3600, logs=[f"/logs/rank_{16 + gpu}.log"],
            )
            for gpu in range(8)
        ]  # fmt: skip

    def relist(self) -> None:
        for name in HONEST:
            self.report(name, wire.Ranks(t=self.t, seq=5, processes=self.fleet.nodes[name].processes))

    def rest(self, rounds: int = 4) -> None:
        for _ in range(rounds):
            self.step(3)
            self.relist()

    def end(self, *ranks: int) -> None:
        """The processes of these ranks are gone; of none: of all honest nodes."""
        for name in HONEST:
            left = [each for each in self.fleet.nodes[name].processes if ranks and each.rank not in ranks]
            self.report(name, wire.Ranks(t=self.t, seq=6, processes=left))

    # ------------------------------------------------------------------ lies

    def lie(self) -> None:
        about_others = (self.finding, self.files, self.progress)
        every = (*about_others, self.event)
        kinds, weights = (about_others, (8, 1, 1)) if self.member else (every, (8, 1, 1, 2))
        self.random.choices(kinds, weights)[0]()

    def finding(self) -> None:
        pick = self.random
        rules = [each for each in RULES if each in PACKS.by_id and not (self.member and each in TIMEOUTS)]
        rule = pick.choice(rules)  # that its own ranks waited a node of the job may say
        rank, host = pick.choice([None, *range(16)]), pick.choice([None, *HONEST, LIAR])
        fields: dict[str, str | int | float] = {}
        for name, value in (
            ("node", pick.choice(HONEST)), ("pid", 100 + pick.randrange(8)), ("rank", pick.randrange(16)),
            ("exitcode", pick.choice([1, -9])), ("ranks", f"{pick.randrange(16)}"),
            ("peer_rank", pick.randrange(16)),
            ("exception", "RuntimeError"), ("what", "lies"), ("gpu", pick.randrange(8)),
        ):  # fmt: skip
            if pick.random() < 0.3:
                fields.update({name: value})
        lines, key = [f"{rule} {rank}"], 0
        if pick.random() < 0.25:
            number = pick.randrange(16)
            form = {"host": pick.choice(HONEST), "rank": number, "local": number % 8, "pid": 100 + number % 8}
            lines, key, rank = [line.format(**form) for line in TABLE], 2, number
            rule = pick.choice(["rank.killed", "rank.exit_error"])
        self.find(
            rule, rank, LIAR, severity=pick.choice(["error", "critical"]),
            role=pick.choice(["root", "first", "echo"]),
            file=pick.choice([f"/logs/rank_{rank}.log", "/tmp/launcher.log", wire.KERNEL_LOG]),
            at=self.t + pick.choice([-40.0, -5.0, -1.0, 0.0, 3.0]), timed=pick.random() < 0.8,
            rank_from=None if rank is None else pick.choice(["line", "path", "process", "field", "index"]),
            host=host, job=pick.choice([JOB, JOB, None, "other"]), lines=lines, key=key, fields=fields,
        )  # fmt: skip

    def event(self) -> None:
        pick = self.random
        kind = pick.choice(["rank_ended", "xid"])
        code = pick.choice([-9, 1, -15]) if kind == "rank_ended" else 79
        gpu = pick.choice([None, f"GPU-{pick.randrange(2)}-{pick.randrange(8)}"])
        self.report(
            LIAR,
            wire.Event(t=self.t - pick.choice([0, 5, 40]), seq=8, event=kind, title="lies",
                       severity="critical", gpu=gpu, code=code, pid=100 + pick.randrange(8)),
        )  # fmt: skip

    def files(self) -> None:
        pick = self.random
        files = [
            wire.LogFile(f"/logs/rank_{rank}.log", ranks=[rank], rank_from="process", pids=[100 + rank % 8],
                         identity=pick.choice([None, "nfs:1"]), fingerprint=pick.choice([None, "1:2:3"]))
            for rank in range(16)
        ]  # fmt: skip
        self.report(LIAR, wire.Logs(t=self.t, seq=9, files=files, complete=True))

    def progress(self) -> None:
        pick = self.random
        rank = pick.randrange(16)
        for step in range(3):
            self.report(
                LIAR,
                wire.Progress(t=self.t, seq=10, file=f"/logs/rank_{rank}.log", offset=100 * step, at=self.t,
                              timed=True, dialect="progress.bar", rank=rank, rank_from="path", job=JOB,
                              fields={"step": 100 + step, "total_steps": 102, "loss": 1.0}),
            )  # fmt: skip


Story = Callable[[LyingNode], None]


def exception(cluster: LyingNode) -> None:
    cluster.find(
        "python.exception",
        9,
        "gpu-002",
        rank_from="process",
        fields={"exception": "ValueError", "what": "bad shard"},
    )
    cluster.step(1)
    cluster.end(9)
    cluster.find("rank.exit_error", 9, "gpu-002", rank_from="process", fields={"exitcode": 1, "pid": 101})
    for rank in (0, 5):
        cluster.find("peer.connection_lost", rank, rank_from="process")
    cluster.step(4)
    cluster.end()


def killed(cluster: LyingNode) -> None:
    event = wire.Event(t=cluster.t, seq=8, event="rank_ended", title="x", code=-9, pid=101)
    cluster.report("gpu-002", event)
    cluster.step(1)
    cluster.end(9)
    for rank in (0, 5):
        cluster.find("peer.connection_lost", rank, rank_from="process")
    cluster.step(4)
    cluster.end()


def out_of_memory(cluster: LyingNode) -> None:
    cluster.find("oom.cuda", 9, "gpu-002", rank_from="process")
    cluster.step(2)
    cluster.find("rank.exit_error", 9, "gpu-002", rank_from="process", fields={"exitcode": 1, "pid": 101})
    cluster.end(9)
    cluster.step(4)
    cluster.end()


def vanished(cluster: LyingNode) -> None:
    cluster.end(9)
    cluster.rest(12)


def xid(cluster: LyingNode) -> None:
    cluster.report(
        "gpu-002",
        wire.Event(t=cluster.t, seq=8, event="xid", title="x", severity="critical", gpu="GPU-1-1", code=79),
    )
    cluster.step(2)
    cluster.end()


STORIES: dict[str, Story] = {
    "exception": exception, "killed": killed, "out of memory": out_of_memory, "vanished": vanished,
    "xid": xid,
}  # fmt: skip


def lying_cluster(name: str, seed: int, *, member: bool, lies: int) -> LyingNode:
    """The story with lies before, in and after it."""
    cluster = LyingNode(seed, member=member)
    story = STORIES[name]
    when = [cluster.random.randrange(3) for _ in range(lies)]
    for moment in (0, 1, 2):
        if moment == 1:
            story(cluster)
        for _ in range(when.count(moment)):
            cluster.lie()
            if cluster.random.random() < 0.5:
                cluster.step(1)
        cluster.rest()
    return cluster


def is_named(cluster: LyingNode) -> bool:
    """Whether an open incident names rank 9 of gpu-002; or a liar of the job, which may accuse itself."""
    standing = [each for each in cluster.book.incidents if not each.over and each.severity != "warning"]
    honest = any((each.rank, each.node) == (CULPRIT, "gpu-002") for each in standing)
    return honest or (cluster.member and any(each.node == LIAR for each in standing))


def accused(cluster: LyingNode) -> list[str]:
    """Incidents that name an honest node or rank that is no culprit with high confidence."""
    return [
        each.headline
        for each in cluster.book.incidents
        if each.confidence == "high"
        and (each.node == "gpu-001" or (each.node == "gpu-002" and each.rank not in (CULPRIT, None)))
    ]
