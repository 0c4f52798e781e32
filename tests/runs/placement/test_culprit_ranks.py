"""The culprit's rank from whole folders of logs: named where the lines tell it, and nobody where they do not.

Each job is written for any culprit `n`: the same words with another number must give the other rank.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.runs.placement.culprits import OOM, Job, culprit, first_incident

WORLD = 8
TRACE = 'Traceback (most recent call last):\n  File "/w/fit.py", line 8, in step\n    loss.backward()\n'


def lines(head: str, count: int = 3, world: int = WORLD) -> str:
    return "".join(head.format(n=rank) + f"lr 0.{step}1\n" for step in range(count) for rank in range(world))


def headed(head: str) -> Callable[[int], Job]:
    """All ranks write to one file with this head; the culprit's error has it, too."""
    return lambda n: {"job.out": lines(head) + head.format(n=n) + OOM + "\n"}


def tasks_of_slurm(n: int) -> Job:
    below = "".join(f"{n}: {line}\n" for line in (TRACE + OOM).splitlines())
    return {"91.out": lines("{n}: ") + below}


def task_that_srun_names(n: int) -> Job:
    others = ",".join(str(rank) for rank in range(WORLD) if rank != n)
    last = f"srun: error: old7: task {n}: Illegal instruction (core dumped)\n"
    last += f"srun: error: new1: tasks {others}: Terminated\n"
    return {"92.out": lines("rank {n}: ") + last}


def mpirun_names_the_process(n: int) -> Job:
    stated = f"mpirun noticed that process rank {n} with PID 71 on node k4 exited on signal 6 (Aborted).\n"
    return {"run.log": "step 1 done\nCUDA error: an illegal memory access was encountered\n" + stated}


def open_mpi_box(n: int) -> Job:
    box = f"The first process to do so was:\n\n  Process name: [[4411,1],{n}]\n  Exit code:    1\n"
    return {"run.log": TRACE + OOM + "\n" + box}


def pals(n: int) -> Job:
    other = (n + 1) % WORLD
    ends = f"x3.example: rank {n} died from signal 6\nx3.example: rank {other} died from signal 15\n"
    return {"pals.out": lines("[rank={n}]: ") + OOM + "\n" + ends}


def banner_of_one_process(n: int) -> Job:
    return {"workerlog.0": f"this process is rank: {n}\nsteps 1\n" + TRACE + OOM + "\n"}


def file_per_rank(n: int) -> Job:
    return {f"out/r{rank}.txt": f"begin\n{TRACE + OOM if rank == n else 'lr 0.1'}\n" for rank in range(WORLD)}


def logged_traceback(n: int) -> Job:
    head = "2025-03-04 10:11:12,345 | ERROR | rank {n}/8 | step failed\n"
    return {
        "job.out": lines("2025-03-04 10:11:02,345 | INFO | rank {n}/8 | ")
        + head.format(n=n)
        + TRACE
        + OOM
        + "\n"
    }


def json_records(n: int) -> Job:
    info = '{{"level": "info", "worker": {n}, "message": "'
    text = "".join(info.format(n=rank) + 'lr 0.1"}\n' for rank in range(WORLD))
    return {"run.log": text + f'{{"level": "error", "worker": {n}, "message": "{OOM}"}}\n'}


def pid_of_the_rank(n: int) -> Job:
    start = "".join(f"rank {rank}: started, pid={4000 + rank}\n" for rank in range(WORLD))
    killed = f"Out of memory: Killed process {4000 + n} (python3) total-vm:9kB, anon-rss:9kB"
    kernel = f"Mar  4 10:11:12 k4 kernel: {killed}\n"
    return {"job.out": start, "dmesg.txt": kernel}


def coordinator(n: int) -> Job:
    return {
        "host1.log": f"UNAVAILABLE: Task /job:jax_worker/replica:0/task:{n} heartbeat timeout.\n"
        "Fatal Python error: Aborted\n"
    }


def stall(n: int) -> Job:
    stated = "[W stall_inspector.cc:107] One or more tensors were submitted to be reduced, gathered or "
    stated += "broadcasted by subset of ranks\n"
    return {
        "mpi.log": lines("[1,{n}]<stdout>:")
        + f"[1,0]<stderr>:{stated}[1,0]<stderr>:Stalled ranks:\n[1,0]<stderr>:{n}: [grad.1, grad.2]\n"
    }


def other_size(n: int) -> Job:
    stated = "[E ProcessGroupNCCL.cpp:467] [Rank {rank}] Watchdog caught collective operation timeout: "
    stated += "WorkNCCL(SeqNum=9, OpType=_ALLGATHER_BASE, NumelIn={size}, NumelOut=800, Timeout(ms)=600000) "
    stated += "ran for 600061 milliseconds before timing out.\n"
    return {
        "job.out": "".join(stated.format(rank=rank, size=7 if rank == n else 100) for rank in range(WORLD))
    }


def ray_actor(n: int) -> Job:
    start = "".join(f"(Fit pid={4400 + rank}, ip=10.0.0.7) [rank {rank}] starts\n" for rank in range(WORLD))
    return {"driver.log": start + f"(Fit pid={4400 + n}, ip=10.0.0.7) {OOM}\n"}


def ray_list_of_workers(n: int) -> Job:
    start = "".join(
        f"(T pid=1) - (ip=10.0.0.{rank}, pid={4400 + rank}) world_rank={rank}\n" for rank in range(WORLD)
    )
    return {"driver.log": start + f"(Fit pid={4400 + n}, ip=10.0.0.{n}) {OOM}\n"}


def address_of_the_gpu(n: int) -> Job:
    start = "".join(f"rank {rank}: GPU at 0000:{16 + rank:02x}:00.0\n" for rank in range(WORLD))
    xid = f"NVRM: Xid (PCI:0000:{16 + n:02x}:00): 79, pid=44, GPU has fallen off the bus."
    return {"job.out": start, "dmesg.txt": f"Mar  4 10:11:12 k4 kernel: {xid}\n"}


def only_rank_of_the_host(n: int) -> Job:
    start = "".join(f"rank {rank} on k{rank}: started\n" for rank in range(WORLD))
    trap = "traps: fit[99] trap invalid opcode ip:55 sp:7f error:0 in fit[55+1b]"
    return {"job.out": start, f"dmesg-k{n}.txt": f"Mar  4 10:11:12 k{n} kernel: {trap}\n"}


def file_of_a_pod(n: int) -> Job:
    return {f"trainer-{rank}.log": TRACE + OOM + "\n" if rank == n else "lr 0.1\n" for rank in range(WORLD)}


def workerlog(n: int) -> Job:
    return {f"log/workerlog.{rank}": TRACE + OOM + "\n" if rank == n else "lr 0.1\n" for rank in range(WORLD)}


def fatal_line_that_names_a_rank(n: int) -> Job:
    fatal = (
        f"F1003 10:11:12.345678 70{n} pool.cc:15] Check failed: a == b (2 vs. 0) rank {n} device 1: no room\n"
    )
    return {"fit.INFO": lines("I1003 10:11:02.345678 7 fit.cc:1] rank {n} batch 1 ") + fatal + "Aborted\n"}


def one_of_those_that_warned_ended_of_it(n: int) -> Job:
    head = "[2026-04-18 15:55:05] {level:9}[hub:30, rank={rank}] "
    stated = "429 Client Error: Too Many Requests for url: https://hub.example/api\n"
    warned = [head.format(level="WARNING", rank=rank) + stated for rank in (1, n, 7)]
    return {
        "job.log": "".join(warned) + head.format(level="CRITICAL", rank=n) + "Uncaught HTTPError: " + stated
    }


def table_below_the_only_exception(n: int) -> Job:
    table = (
        "Root Cause (first observed failure):\n[0]:\n  time      : 2026-05-21_11:58:06\n  host      : at-2\n"
    )
    table += f"  rank      : {n} (local_rank: {n})\n  exitcode  : 1 (pid: 927)\n"
    return {"job.log": TRACE + "RuntimeError: the bridge said no\n" + table}


def address_on_one_of_four_hosts(n: int) -> Job:
    start = "".join(f"[{r}] pci 0000:{16 + r % 2:02x}:00.0 host k{r // 2}\n" for r in range(WORLD))
    xid = f"NVRM: Xid (PCI:0000:{16 + n % 2:02x}:00): 79, pid=44, GPU has fallen off the bus."
    return {"job.out": start, f"k{n // 2}.kern": f"Mar  4 10:11:12 k{n // 2} kernel: {xid}\n"}


def thread_of_nccl(n: int) -> Job:
    init = "k1:{pid}:9{pid} [{r}] NCCL INFO comm 0x1 rank {r} nranks 8 cudaDev {r} busId {bus:x} - Init\n"
    start = "".join(init.format(pid=100 + r, r=r, bus=0x1B000 + r * 0x10000) for r in range(WORLD))
    return {"job.out": start + f"k1:{100 + n}:33 [{n}] {OOM}\n"}


def process_index_of_each_file(n: int) -> Job:
    start = "I0304 10:11:02.345678 1 distributed.py:1] process_index={r} of 8\n"
    return {f"host{r}.txt": start.format(r=r) + (TRACE + OOM + "\n" if r == n else "") for r in range(WORLD)}


def local_rank_of_a_node(n: int) -> Job:
    logs = {
        f"k{node}.log": "".join(f"[default{local}]:[rank{4 * node + local}]: lr 0.1\n" for local in range(4))
        for node in range(2)
    }
    logs[f"k{n // 4}.log"] += f"[default{n % 4}]:{OOM}\n"
    return logs


def pids_that_repeat_on_each_node(n: int) -> Job:
    table = "rank {rank} -> cuda:{local} pid {pid} bus 0000:{bus:02x}:00.0\n"
    logs = {
        f"node_rank_{node}.log": f"hostname: k{node} node_rank={node}\n"
        + "".join(
            table.format(rank=4 * node + local, local=local, pid=8400 + local, bus=16 + local)
            for local in range(4)
        )
        for node in range(2)
    }
    xid = f"NVRM: Xid (PCI:0000:{16 + n % 4:02x}:00): 79, pid=44, GPU has fallen off the bus."
    return logs | {f"k{n // 4}.kern": f"Mar  4 10:11:12 k{n // 4} kernel: {xid}\n"}


def table_of_pids(n: int) -> Job:
    table = ", ".join(f"pid {700 + rank} -> rank {rank}" for rank in range(WORLD))
    xid = f"NVRM: Xid (PCI:0000:c1:00): 79, pid={700 + n}, GPU has fallen off the bus."
    return {
        "job.out": f"Hostname k3\nrank mapping: {table}\n",
        "k3.kern": f"Mar  4 10:11:12 k3 kernel: {xid}\n",
    }


def first_on_the_node_that_lost_its_storage(n: int) -> Job:
    stated = (
        "2025-03-04 10:11:{at} [rank {rank}@k{node}] ERROR fetch: OSError: [Errno {code}] I/O went wrong\n"
    )
    start = "".join(f"2025-03-04 10:01:02 [rank {rank}@k{rank // 4}] INFO lr 0.1\n" for rank in range(WORLD))
    other = n + 1 if n % 4 < 3 else n - 1
    reported = stated.format(at=20, rank=n, node=n // 4, code=116) + stated.format(
        at=24, rank=other, node=n // 4, code=108
    )
    kernel = (
        "Mar  4 10:11:12 k{node} kernel: LustreError: 167-0: scr-OST1: This client was evicted by scr-OST1; "
    )
    kernel += "in progress operations using this service will fail.\n"
    return {"job.out": start + reported, f"k{n // 4}.messages": kernel.format(node=n // 4)}


def box_of_mpich(n: int) -> Job:
    start = "".join(f"[{rank} / 8] Using GPU {rank}\n" for rank in range(WORLD))
    box = f"=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK {n} PID 44{n} RUNNING AT k-a\n"
    return {
        "job.out": start
        + "signal (11): Segmentation fault\n\n"
        + box
        + "=   KILLED BY SIGNAL: 11 (Segmentation fault)\n"
    }


def only_rank_that_suffers(n: int) -> Job:
    kernel = "/pytorch/Indexing.cu:1308: indexSelect: block: [201,0,0], thread: [87,0,0] "
    kernel += "Assertion `srcIndex < size` failed.\n"
    return {
        "job.out": lines("[rank{n}]: ")
        + kernel
        + f"[rank{n}]: RuntimeError: CUDA error: device-side assert triggered\n"
    }


def device_of_torch_xla(n: int) -> Job:
    above = "Exception in device=TPU:{n}: {why}\n" + TRACE
    echo = "RuntimeError: mesh_service.cc:377 : Failed to meet rendezvous 'save': Socket closed (14)\n"
    reported = above.format(n=n, why="'answer'") + "KeyError: 'answer'\n"
    return {
        "job.out": reported + "".join(above.format(n=r, why="rendezvous") + echo for r in (7, 0, 3) if r != n)
    }


TOLD: dict[str, Callable[[int], Job]] = {
    **{
        head: headed(head)
        for head in (
            "[rank {n}] ", "rank:  {n} | ", "RANK={n} ", "(rank {n}) ", "rank{n} | ", "[Rank {n}/8] ",
            "R{n}: ", "[{n}] ",
            "[worker-{n}] ", "worker {n}: ", "proc {n} | ", "[PE {n}] ", "trainer-{n}: ", "task {n}: ",
            "2025-03-04 10:11:12,345 - lab - ERROR - rank {n} - ", "[PID:7{n}] [RANK:{n}] ",
            "process_index={n} ", "SLURM_PROCID={n} ", "process {n} of 8: ", "[进程 {n}] ",
            "E0304 10:11:12.345678 4411 fit.cc:88] rank {n}: ", "2025-03-04 10:11:12 rank-{n} ERROR lab ",
            "[dp0 tp1 rank {n}] ",
        )
    },
    **{
        job.__name__: job
        for job in (
            tasks_of_slurm, task_that_srun_names, mpirun_names_the_process, open_mpi_box, pals,
            banner_of_one_process,
            file_per_rank, logged_traceback, json_records, pid_of_the_rank, coordinator,
            other_size, stall, ray_actor, ray_list_of_workers, address_of_the_gpu, only_rank_of_the_host,
            file_of_a_pod, workerlog, local_rank_of_a_node, fatal_line_that_names_a_rank,
            address_on_one_of_four_hosts, thread_of_nccl, process_index_of_each_file,
            one_of_those_that_warned_ended_of_it, table_below_the_only_exception,
            pids_that_repeat_on_each_node, table_of_pids, first_on_the_node_that_lost_its_storage,
            box_of_mpich, only_rank_that_suffers, device_of_torch_xla,
        )
    },
}  # fmt: skip


@pytest.mark.sampled(len(TOLD) + 1)
@pytest.mark.parametrize("number", [2, 5])
@pytest.mark.parametrize("job", TOLD.values(), ids=TOLD.keys())
def test_the_rank_that_the_lines_tell(job: Callable[[int], Job], number: int, tmp_path: Path) -> None:
    assert culprit(tmp_path, job(number)) == number


TAGS = (
    "R{n}/{host}: ", "<{n:02}@{host}> ", "[rank {n}@{host}] ", "[{host} | worker {n}] ", "{host}/r{n}: ",
    "({host}, rank {n}) ", "rank {n} on {host}: ", "[rang {n}@{host}] ", "10:11:12 <{n:02}@{host}> ",
    "[{n}/8 {host}] ", "[rang {n}/8][{host}] ", "[1,mpirank:{n},{host}]<stderr>:",
    "<2025-03-04 10:11:12.250> r{n:02}@{host} | ",
    "run7 rank {n} ({host}) says: ",
)  # fmt: skip
"""Heads that name a rank and its host."""


def tagged(tag: str, n: int, per_host: int) -> Job:
    """Two hosts; ranks count through, or from 0 on each host where `per_host` is 4."""
    heads = [tag.format(n=rank % per_host, host=f"zs{rank // 4:02}") for rank in range(WORLD)]
    below = "".join(f"{heads[n]}{line}\n" for line in (TRACE + OOM).splitlines())
    return {"job.out": "".join(f"{head}lr 0.{step}1\n" for step in range(3) for head in heads) + below}


@pytest.mark.parametrize("number", [2, 5])
@pytest.mark.parametrize("tag", TAGS)
def test_a_tag_names_rank_and_host(tag: str, number: int, tmp_path: Path) -> None:
    found = first_incident(tmp_path, tagged(tag, number, WORLD))
    assert (found.rank, found.node) == (number, f"zs{number // 4:02}")


@pytest.mark.parametrize("tag", ["<{n}@{host}> ", "[{host} | worker {n}] ", "{host}/w{n}: "])
def test_numbers_that_begin_anew_on_each_host_are_no_ranks(tag: str, tmp_path: Path) -> None:
    found = first_incident(tmp_path, tagged(tag, 5, 4))
    assert (found.rank, found.node) == (None, "zs01")


EVICTED = "LustreError: 167-0: scr-OST1: This client was evicted by scr-OST1; in progress operations"
EVICTED = f"Mar  4 10:11:12 k1 kernel: {EVICTED} using this service will fail.\n"

NOT_TOLD: dict[str, Job] = {
    "two in one moment after the storage of their node failed": {
        f"k1/rank{rank}.log": f"2025-03-04 10:11:20 [rank{rank}]: OSError: [Errno 5] I/O went wrong\n"
        for rank in (2, 3)
    }
    | {"k1/k1.messages": EVICTED},
    "two that a failed assertion ended": {
        "job.out": "A.cu:1: f: block: [2,0,0], thread: [8,0,0] Assertion `srcIndex < size` failed.\n"
        + "".join(f"[rank{n}]: RuntimeError: CUDA error: device-side assert triggered\n" for n in (2, 3))
    },
    "no rank at all": {"job.out": "lr 0.1\n" + OOM + "\n"},
    "tasks that start several ranks": {
        "93.out": "".join(f"{rank // 4}: [rank{rank}]: lr 0.1\n" for rank in range(8)) + f"1: {OOM}\n"
    },
    "workers of a data loader": {
        "job.out": f"world size: 8\n{lines('[loader worker {n}] ', world=4)}loader worker 2: {OOM}\n"
    },
    "fewer workers than ranks": {
        "job.out": f"world_size=32\n{lines('worker {n}: ', world=4)}worker 2: {OOM}\n"
    },
    "one lonely number": {"job.out": "lr 0.1\n[3] " + OOM + "\n"},
    "a shared log of rank 0": {"job.out": "world size: 8\n[Rank 0] lr 0.1\n" + TRACE + OOM + "\n"},
    "one log of each node": {
        "k1.log": "world size: 16\n[Rank 0] lr 0.1\n", "k2.log": "[Rank 8] lr 0.1\n" + TRACE + OOM + "\n"
    },
    "another rank in the sentence": {"job.out": "lr 0.1\n" + OOM + " while waiting for rank 5\n"},
    "the rank of a tensor": {"job.out": "lr 0.1\n" + OOM + " for a tensor of rank 4\n"},
    "the rank of an adapter": {"job.out": "lora rank: 16\nlr 0.1\n" + OOM + "\n"},
    "some ranks of each host": {
        "job.out": "rank 0 on k0: started\nrank 4 on k1: started\n",
        "dmesg-k1.txt": "Mar  4 10:11:12 k1 kernel: f[9] trap invalid opcode ip:5\n",
    },
    "one file of many": {"log/workerlog.3": TRACE + OOM + "\n"},
    "two that ended alike": {
        "run.log": OOM + "\nk1: rank 2 died from signal 6\nk1: rank 3 died from signal 6\n"
    },
}  # fmt: skip


@pytest.mark.parametrize("job", NOT_TOLD.values(), ids=NOT_TOLD.keys())
def test_nobody_is_named_where_the_lines_do_not_tell(job: Job, tmp_path: Path) -> None:
    assert culprit(tmp_path, job) is None
