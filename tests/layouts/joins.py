"""Composes folders in which no line names the failed rank: only a join of two statements does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tests.layouts.grammar import Folder, merged
from tests.layouts.stories import Job

BANNERS = (
    "rank {n} pid {pid} cuda:{local}",
    "rank={n} local_rank={local} pid={pid}",
    "[{n}] pid {pid} started on {host}",
    "pid {pid} -> rank {n}",
    "INFO launched process {pid} (rank {n})",
    "worker rank {n}: pid: {pid}, device {local}",
)
HEADS = (
    "Process rank: {n}, device: cuda:0, n_gpu: 1",
    "jax.process_index() = {n}",
    "I am process {n} of {world}",
    "Prozess {n} von {world} gestartet",
    "trainer id {n} ready",
    "JOB_COMPLETION_INDEX={n}",
    "DMLC_WORKER_ID={n}",
    "process_index: {n}, process_count: {world}",
    "rendezvous done: global rank {n}",
    "member number {n} joined the ring",
)
CHILD = (
    "RuntimeError: DataLoader worker (pid {pid}) is killed by signal: Bus error. It is possible that"
    " dataloader's workers are out of shared memory.",
    "RuntimeError: DataLoader worker (pid {pid}) is killed by signal: Segmentation fault.",
    "RuntimeError: DataLoader worker (pid(s) {pid}) exited unexpectedly",
)
FRAMES = ("Traceback (most recent call last):", '  File "/opt/app/loop.py", line 88, in fit')
CAUSES = (
    "KeyError: 'input_ids'",
    "ValueError: cannot reshape array of size 9 into shape (2,2)",
    "IndexError: 7",
)
MARGINS: tuple[Callable[[int], str], ...] = (
    lambda line: f"{line + 1:6}\t",
    lambda line: f"{line + 1}:",
    lambda line: f"{line + 41:>7} ",
    lambda line: f"[{line * 1.3:8.2f}s] ",
    lambda line: f"{line * 0.7:.3f} ",
    lambda _: "> ",
)
CLOSE = (
    "Uncaught exception on rank {n}.",
    "ERROR: rank {n} raised an exception, aborting",
    "[ERROR] global rank {n} failed:",
)


@dataclass
class Processes:
    """The pids of a job's ranks and of what they started."""

    draw: Random
    job: Job
    pids: list[int] = field(default_factory=list)
    children: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        at = self.draw.randint(1200, 90_000)
        for _ in range(self.job.world):
            at += self.draw.randint(1, 9)
            self.pids.append(at)
        for _ in range(self.job.world):
            self.children.append([at := at + self.draw.randint(1, 9) for _ in range(3)])

    def banners(self) -> list[str]:
        """One line of each rank."""
        form = self.draw.choice(BANNERS)
        job = self.job
        return [
            form.format(n=rank, pid=self.pids[rank], local=job.local(rank), host=job.host(rank))
            for rank in range(job.world)
        ]

    def table(self) -> list[str]:
        """What a tool prints of the processes of the failed rank's node."""
        job, parent = self.job, self.pids[0] - 7
        here = [rank for rank in range(job.world) if job.host(rank) == job.host(job.failed)]
        return self.draw.choice((_ps_ef, _ps_o, _forest, _pstree, _status))(self, here, parent)


def _ps_ef(each: Processes, here: list[int], parent: int) -> list[str]:
    form = "ml       {:7} {:7}  0 10:00 ?        00:00:01 python train.py"
    rows = [form.format(each.pids[rank], parent) for rank in here]
    rows += [form.format(child, each.pids[rank]) for rank in here for child in each.children[rank]]
    return ["UID          PID    PPID  C STIME TTY          TIME CMD", *rows]


def _ps_o(each: Processes, here: list[int], parent: int) -> list[str]:
    rows = [f"{each.pids[rank]:7} {parent:7} Rl   python" for rank in here]
    rows += [
        f"{child:7} {each.pids[rank]:7} Sl   pt_data_worker" for rank in here for child in each.children[rank]
    ]
    return ["    PID    PPID STAT COMMAND", *rows]


def _forest(each: Processes, here: list[int], parent: int) -> list[str]:
    rows = [f"{parent:7} ?        Ss     0:00 torchrun train.py"]
    for rank in here:
        rows.append(f"{each.pids[rank]:7} ?        Rl     1:12  \\_ python train.py")
        rows += [f"{child:7} ?        Sl     0:01      \\_ python train.py" for child in each.children[rank]]
    return ["    PID TTY      STAT   TIME COMMAND", *rows]


def _pstree(each: Processes, here: list[int], parent: int) -> list[str]:
    head = f"torchrun({parent})"
    rows = []
    for number, rank in enumerate(here):
        sign = "-+-" if number == 0 else "`-" if number == len(here) - 1 else "|-"
        if len(here) == 1:
            sign = "---"
        begin = head + sign if number == 0 else " " * (len(head) + 1) + sign
        own = f"python({each.pids[rank]})"
        edge = " " if number == len(here) - 1 else "|"
        for at, child in enumerate(each.children[rank]):
            mark = "-+-" if at == 0 else "`-" if at == len(each.children[rank]) - 1 else "|-"
            left = begin + own if at == 0 else (" " * (len(head) + 1) + edge).ljust(len(begin + own) + 1)
            rows.append(f"{left}{mark}python({child})")
    return rows


def _status(each: Processes, here: list[int], _parent: int) -> list[str]:
    rows = []
    for rank in here:
        for child in each.children[rank]:
            rows += ["Name:\tpython", f"Pid:\t{child}", f"PPid:\t{each.pids[rank]}", "Threads:\t9"]
    return rows


def _steps(draw: Random) -> list[str]:
    return [f"step {i}/9000 loss {4 / i:.4f}" for i in range(1, draw.randint(20, 60))]


def family(draw: Random, job: Job) -> Folder:
    """The pid of a child; a table of processes beside."""
    known = Processes(draw, job)
    end = draw.choice(CHILD).format(pid=draw.choice(known.children[job.failed]))
    return {
        "train.log": [*known.banners(), *_steps(draw), *FRAMES, end],
        draw.choice(("ps.txt", "processes.out", "tree.log")): known.table(),
    }


def killed(draw: Random, job: Job) -> Folder:
    """The kernel's log names the pid."""
    known = Processes(draw, job)
    pid = known.pids[job.failed]
    row = (
        f"Out of memory: Killed process {pid} (python) total-vm:99999999kB, anon-rss:76021234kB, file-rss:0kB"
    )
    at = f"Nov  3 10:40:11 {job.host(job.failed)} kernel: "
    return {
        "train.log": [*known.banners(), *_steps(draw)],
        "kern.log": [f"{at}oom-kill: gfp_mask=0x1", at + row],
    }


def _files(draw: Random, job: Job, names: list[str], end: dict[int, list[str]]) -> Folder:
    head = draw.choice(HEADS)
    before = ["loading tokenizer", "dataset has 120,331 samples"][: draw.randint(0, 2)]
    steps = _steps(draw)
    return {
        names[rank]: [*before, head.format(n=rank, world=job.world), *steps, *end.get(rank, [])]
        for rank in range(job.world)
    }


def heads(draw: Random, job: Job) -> Folder:
    """Files with names that tell nothing; each process states its number once."""
    names = [f"out-{draw.randrange(1 << 20):05x}.log" for _ in range(job.world)]
    lost = ["RuntimeError: Connection closed by peer [10.0.0.7]:40123"]
    end = dict.fromkeys(range(job.world), lost) | {job.failed: [*FRAMES, draw.choice(CAUSES)]}
    return _files(draw, job, names, end)


def pods(draw: Random, job: Job) -> Folder:
    """A table names the pod whose container was killed; the pod's own log names its rank."""
    ordinals = draw.sample(range(job.world), job.world)
    pod = [f"llm-{draw.choice('abcdef')}x-worker-{number}" for number in ordinals]
    lost = ["RuntimeError: Connection closed by peer [10.0.0.7]:40123"]
    end = {rank: lost for rank in range(job.world) if rank != job.failed}
    found = _files(draw, job, [f"{name}.log" for name in pod], end)
    rows = ["NAME              READY   STATUS      RESTARTS   AGE    IP           NODE"]
    for rank in sorted(range(job.world), key=lambda rank: pod[rank]):
        state = "OOMKilled" if rank == job.failed else "Error    "
        rows.append(
            f"{pod[rank]:17} 0/1     {state}   0          2h1m   10.2.0.{rank:<3}     node-{rank + 30}"
        )
    return found | {"pods.txt": rows}


def margin(draw: Random, job: Job) -> Folder:
    """A tool put something before every line."""
    found = {}
    of_line = draw.choice(MARGINS)
    for name, lines in merged(Random(draw.choice((3, 6, 11, 12))), job).items():
        tagged = [f"[rank{line.rank}]: {line.text}" for line in job.lines()] or lines
        found[name] = [of_line(number) + text for number, text in enumerate(tagged)]
    return found


def near(draw: Random, job: Job) -> Folder:
    """A line above an exception without a tag names the rank."""
    above = draw.choice(CLOSE).format(n=job.failed)
    return {"train.log": [*_steps(draw), above, *FRAMES, draw.choice(CAUSES)]}


JOINS: tuple[Callable[[Random, Job], Folder], ...] = (family, killed, heads, pods, margin, near)


def joined(seed: int) -> tuple[Folder, int, str]:
    """Return a folder, the rank that failed, and the kind of its join."""
    draw = Random(seed)
    job = Job.drawn(draw)
    kind = draw.choice(JOINS)
    return kind(draw, job), job.failed, kind.__name__
