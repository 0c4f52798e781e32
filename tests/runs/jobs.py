"""Folders of logs as jobs leave them, in the tests' own words, and a small pack that reads them."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

RANKS = 16
PER_NODE = 8
VICTIM = 11
"""The rank that fails: GPU 3 of gpu-002."""

PACK = """
- id: oom.cuda
  severity: critical
  title: CUDA out of memory
  match: 'CUDA out of memory\\. Tried to allocate (?P<tried>[\\d.]+ \\w+)'
  explain: The GPU had no room left.
  do: [Make the batch smaller.]
  examples: ["RuntimeError: CUDA out of memory. Tried to allocate 1.00 GiB"]
- id: gpu.xid.fell_off
  severity: critical
  title: GPU fell off the bus
  match: 'NVRM: Xid \\(PCI:(?P<pci>[0-9a-fA-F:.]+)\\): (?P<xid>79),'
  explain: The GPU does not answer on PCI Express any more.
  do: [Drain the node.]
  examples: ["NVRM: Xid (PCI:0000:13:00): 79, pid='<unknown>', GPU has fallen off the bus."]
- id: nccl.watchdog_timeout
  severity: critical
  role: first
  title: collective timed out
  match: 'Watchdog caught collective operation timeout: WorkNCCL\\(SeqNum=(?P<seq>\\d+),
    OpType=(?P<op>\\w+).*? Timeout\\(ms\\)=(?P<timeout_ms>\\d+)\\) ran for (?P<ran_ms>\\d+) milliseconds'
  explain: A rank did not take part.
  do: [Look at the rank that is silent.]
  examples:
    - "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=BROADCAST, NumelIn=4,
      Timeout(ms)=600000) ran for 600123 milliseconds before timing out."
- id: num.overflow_skip
  severity: warning
  role: hint
  title: overflow, step skipped
  match: 'OVERFLOW! Skipping step'
  explain: The loss scale was too high.
  do: [Wait.]
  examples: ["OVERFLOW! Skipping step"]
"""


def pack(folder: Path) -> Path:
    """The pack as a file."""
    path = folder / "pack.yaml"
    path.write_text(PACK)
    return path


def node_of(rank: int) -> str:
    return f"gpu-{1 + rank // PER_NODE:03}"


def nccl_lines(rank: int) -> str:
    """What NCCL_DEBUG=INFO prints where a communicator begins."""
    gpu, pid = rank % PER_NODE, 4000 + rank
    head = f"{node_of(rank)}:{pid}:{pid + 900} [{gpu}] NCCL INFO"
    return (
        f"{head} Bootstrap : Using eth0:10.7.0.{1 + rank // PER_NODE}<0>\n"
        f"{head} comm 0x7f10c0 rank {rank} nranks {RANKS} cudaDev {gpu} nvmlDev {gpu} "
        f"busId {(0x10 + gpu) << 12:x} commId 0xabc - Init COMPLETE\n"
        f"{head} comm 0x7f20c0 rank {gpu} nranks {PER_NODE} cudaDev {gpu} nvmlDev {gpu} "
        f"busId {(0x10 + gpu) << 12:x} commId 0xdef - Init COMPLETE\n"
    )


def steps(count: int = 30) -> str:
    return "".join(
        f"2025-03-02 11:{minute:02}:00,000 INFO step {minute} loss 2.1\n" for minute in range(count)
    )


def oom() -> str:
    return (
        "Traceback (most recent call last):\n"
        '  File "pretrain.py", line 88, in <module>\n'
        "    loss.backward()\n"
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 6.50 GiB. GPU 3 is full.\n"
    )


def timed_out(rank: int) -> str:
    return (
        f"[rank{rank}]:[E0302 11:39:40.250000000 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught "
        "collective operation timeout: WorkNCCL(SeqNum=512, OpType=ALLREDUCE, NumelIn=8192, NumelOut=8192, "
        "Timeout(ms)=600000) ran for 600090 milliseconds before timing out.\n"
    )


def xid(stamp: str = "[Sun Mar  2 11:29:38 2025]") -> str:
    return (
        f"{stamp} nvidia 0000:13:00.0: link check\n"
        f"{stamp} NVRM: Xid (PCI:0000:13:00): 79, pid=4011, name=python, GPU has fallen off the bus.\n"
    )


def rank_text(rank: int, *, nccl: bool = True) -> str:
    """The log of one rank of a job in which the victim runs out of memory and the others wait for it."""
    return (nccl_lines(rank) if nccl else "") + steps() + (oom() if rank == VICTIM else timed_out(rank))


def flat(folder: Path) -> None:
    """`rank_3.log`."""
    for rank in range(RANKS):
        (folder / f"rank_{rank}.log").write_text(rank_text(rank))


def by_node(folder: Path) -> None:
    """`gpu-001/rank_3.log`, and no line that names a host."""
    for rank in range(RANKS):
        (folder / node_of(rank)).mkdir(exist_ok=True)
        (folder / node_of(rank) / f"rank_{rank}.log").write_text(rank_text(rank, nccl=False))


def torchrun(folder: Path) -> None:
    """A `--log-dir` tree a node: the folders are local ranks."""
    for rank in range(RANKS):
        inner = folder / node_of(rank) / "none_x7" / "attempt_0" / str(rank % PER_NODE)
        inner.mkdir(parents=True)
        (inner / "stdout.log").write_text(nccl_lines(rank) + steps())
        (inner / "stderr.log").write_text(oom() if rank == VICTIM else timed_out(rank))


def packed(folder: Path) -> None:
    """`rank_3.log.gz`."""
    for rank in range(RANKS):
        (folder / f"rank_{rank}.log.gz").write_bytes(gzip.compress(rank_text(rank).encode()))


def merged(folder: Path) -> None:
    """All ranks in one file, as srun without -l and torch's own prefixes leave it."""
    lines = [line for rank in range(RANKS) for line in nccl_lines(rank).splitlines()]
    lines += steps().splitlines()
    lines += [f"[rank{VICTIM}]: {line}" for line in oom().splitlines()]
    lines += [timed_out(rank).rstrip() for rank in range(RANKS) if rank != VICTIM]
    (folder / "slurm-77120.out").write_text("\n".join(lines) + "\n")


LAYOUTS: tuple[Callable[[Path], None], ...] = (flat, by_node, torchrun, packed, merged)
