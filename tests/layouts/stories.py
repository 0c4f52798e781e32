"""One job as each layout writes it: its processes start, log steps, one fails, and the others lose it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random

CAUSES = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of"
    " 79.11 GiB of which 1.12 GiB is free.",
    "KeyError: 'input_ids'",
    "torch.AcceleratorError: CUDA error: uncorrectable ECC error encountered",
    "OSError: [Errno 28] No space left on device: '/scratch/ckpt/step_300'",
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x768 and 1024x512)",
    "ZeroDivisionError: float division by zero",
)
FRAMES = (
    "Traceback (most recent call last):",
    '  File "/opt/app/loop.py", line 88, in fit',
    "    out = model(batch)",
)
LOST = (
    "RuntimeError: Connection closed by peer [10.0.0.7]:40123",
    "torch.distributed.DistBackendError: NCCL error: remote process exited or there was a network error",
    "",
)
STEPS = (
    "step {i}/9000 loss {loss:.4f}",
    "iter {i} | loss {loss:.3f} | lr 1.0e-04",
    "[{i}/9000] loss: {loss:.4f}",
    "Step {i}: train_loss {loss:.4f}",
)
HELLO = ("model built, 7B parameters", "loading tokenizer", "dataset has 120,331 samples")
WORLD = ("world_size={}", "WORLD_SIZE: {}", "initialized process group, world size {}")
HOSTS = ("gpu-{:03}", "node{}", "dgx{}", "ip-10-0-3-{}", "cn{:04}")


@dataclass(frozen=True)
class Line:
    """A line of one process."""

    at: datetime
    rank: int
    level: str
    text: str


@dataclass
class Job:
    """A job of `world` processes, of which `failed` raises an exception."""

    draw: Random
    per_node: int
    nodes: int
    failed: int = 0
    hosts: list[str] = field(default_factory=list)

    @classmethod
    def drawn(cls, draw: Random) -> Job:
        """Return a job of any shape."""
        per_node = draw.choice((1, 2, 4, 8))
        nodes = draw.choice((1, 2, 3)) if per_node > 1 else draw.choice((2, 4, 8))
        name, first = draw.choice(HOSTS), draw.choice((0, 1, 17))
        hosts = [name.format(first + node) for node in range(nodes)]
        return cls(draw, per_node, nodes, draw.randrange(1, per_node * nodes), hosts)

    @property
    def world(self) -> int:
        return self.per_node * self.nodes

    def host(self, rank: int) -> str:
        return self.hosts[rank // self.per_node]

    def local(self, rank: int) -> int:
        return rank % self.per_node

    def lines(self) -> Iterator[Line]:
        """Yield the lines of all processes in the order of their times."""
        draw = self.draw
        at = datetime(2026, draw.randint(1, 12), draw.randint(1, 28), 10, 0, 5)
        hello, step, lost = draw.choice(HELLO), draw.choice(STEPS), draw.choice(LOST)
        yield from (Line(at, rank, "INFO", hello) for rank in range(self.world))
        if draw.random() < 0.6:
            yield Line(at, 0, "INFO", draw.choice(WORLD).format(self.world))
        for number in range(1, draw.randint(12, 30)):
            at += timedelta(seconds=draw.randint(1, 4))
            text = step.format(i=number, loss=4 / number)
            yield from (Line(at, rank, "INFO", text) for rank in range(self.world))
        at += timedelta(seconds=2)
        yield from (Line(at, self.failed, "ERROR", text) for text in (*FRAMES, draw.choice(CAUSES)))
        at += timedelta(seconds=draw.randint(1, 9))
        others = (rank for rank in range(self.world) if rank != self.failed)
        yield from (Line(at, rank, "ERROR", lost) for rank in others if lost)
