"""Lines as the ranks of healthy training jobs write them: made up, in the manner of the usual frameworks."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

RANKS = 512


def numeric_lines(seed: random.Random) -> Iterator[str]:
    """What the ranks of a training job say: numbers, mostly."""
    step = 0
    while True:
        step += 1
        clock = f"2025-06-01 {step // 3600 % 24:02}:{step // 60 % 60:02}:{step % 60:02}"
        for rank in range(RANKS):
            yield (
                f"[rank{rank}]:{clock},{rank:03} iteration {step:8}/ 500000 | samples: {step * 4096:12} | "
                f"elapsed time per iteration (ms): {seed.uniform(900, 1100):.1f} | "
                f"learning rate: {seed.random():.3E} | lm loss: {seed.uniform(1, 3):.6E} | "
                f"grad norm: {seed.random():.3f} | number of nan iterations:   0 |"
            )


def text_lines(seed: random.Random) -> Iterator[str]:
    """Several frameworks at once: steps, NCCL's chatter, bars, settings, warnings, what a model answers."""
    step = 0
    while True:
        step += 1
        clock = f"2025-06-01 {step // 3600 % 24:02}:{step // 60 % 60:02}:{step % 60:02}"
        for rank in range(0, RANKS, 8):
            yield from _stated(seed, step, rank, clock)


def source_lines(_seed: random.Random) -> Iterator[str]:
    """The hardest for the matcher: hardly two lines alike, and full of errors, signals and timeouts.

    The sources of whatever is installed here, again from the beginning once they are through.
    """
    lib = Path(os.__file__).parent
    while True:
        for file in sorted(lib.glob("**/*.py")):
            for line in file.read_text("utf-8", "replace").splitlines():
                if line.strip():
                    yield f"2025-06-01 12:00:00,123 INFO worker {line.strip()}"


def _stated(seed: random.Random, step: int, rank: int, clock: str) -> Iterator[str]:
    n = seed.random()
    kind = seed.randrange(9)
    if kind == 0:
        yield (
            f" [{clock}] iteration {step:8}/  250000 | consumed samples: {step * 1024:12} | elapsed time per "
            f"iteration (ms): {n * 9000:.1f} | learning rate: {n:.6E} | global batch size:  1024 | "
            f"lm loss: {2 + n:.6E} | loss scale: 1.0 | grad norm: {n:.3f} | "
            f"number of skipped iterations:   0 | number of nan iterations:   0 |"
        )
    elif kind == 1:
        yield f"{{'loss': {n:.4f}, 'grad_norm': {n * 3!r}, 'learning_rate': {n!r}, 'epoch': {step / 1e4}}}"
    elif kind == 2:
        yield (
            f"[rank{rank}]:[titan] {clock},{rank:03} - root - INFO - step: {step:2}  loss: {n * 9:8.5f}  "
            f"grad_norm: {n:7.4f}  memory: {60 + n:5.2f}GiB({75 + n:.2f}%)  "
            f"tps: {int(n * 9000):,}  tflops: {n * 400:.2f}  mfu: {n * 40:.2f}%"
        )
    elif kind == 3:
        head = f"[{clock},{rank:03}] [INFO]"
        yield (
            f"{head} [timer.py:{200 + rank % 9}:stop] epoch=0/micro_step={step * 8}/global_step={step}, "
            f"RunningAvgSamplesPerSec={n * 99!r}, CurrSamplesPerSec={n * 90!r}, MemAllocated={n * 40:.2f}GB"
        )
        yield f"{head} [config.py:1003:print]   {word(seed)}_{word(seed)} ...... {n:.4f}"
    elif kind == 4:
        yield from _nccl(seed, rank)
    elif kind == 5:
        yield _bar(step, rank, n)
    elif kind == 6:
        yield (
            f"W0601 12:{step % 60:02}:{rank % 60:02}.{rank:06} {4000 + rank} torch/{word(seed)}.py:{step}] "
            f"[{rank}/0] the {word(seed)} of {word(seed)} is deprecated, use {word(seed)} instead"
        )
    elif kind == 7:
        yield f"(trainer pid={9000 + rank}, ip=10.0.{rank % 8}.7) saved shard {rank} of {step} in {n:.2f} s"
    else:
        yield f"{rank:3}: sample {step}: " + " ".join(word(seed) for _ in range(18))


def _bar(step: int, rank: int, n: float) -> str:
    done = int(n * 40)
    return (
        f"Epoch {step % 7}: {done * 100 // 40:3}%|{'#' * done}{' ' * (40 - done)}| {step}/250000 "
        f"[{step % 60:02}:{rank % 60:02}<{step % 9}:{rank % 60:02}:07, {n * 9:.2f}it/s, loss={n:.3f}]"
    )


def _nccl(seed: random.Random, rank: int) -> Iterator[str]:
    near = rank % 8
    head = f"node-{rank // 8:03}:{20000 + rank}:{21000 + rank} [{near}] NCCL INFO"
    for channel in range(6):
        pair = f"Channel {channel:02}/0 : {rank}[{near}] -> {rank + 1}[{near}]"
        yield f"{head} {pair} [send] via NET/IB/{channel}/GDRDMA"
        yield f"{head} {pair} via P2P/CUMEM/read"
    yield f"{head} Trees [0] {rank + 1}/-1/-1->{rank}->{rank - 1} [1] {rank + 1}/-1/-1->{rank}->{rank - 1}"
    place = f"rank {rank} nranks {RANKS} cudaDev {near} busId {near}b000"
    yield f"{head} comm 0x{seed.getrandbits(48):x} {place} - Init COMPLETE"
    yield f"{head} Connected all rings, use ring PXN 0 GDR 1"


_STEMS = [
    "gra",
    "tor",
    "lin",
    "mod",
    "opt",
    "sam",
    "ten",
    "bat",
    "con",
    "lay",
    "fra",
    "ker",
    "ste",
    "pro",
    "lat",
]
_ENDS = ["ed", "ing", "er", "ion", "al", "ly", "ment", "ate", "ure", "ix", "or", "ant", "ile"]


def word(seed: random.Random) -> str:
    return seed.choice(_STEMS) + seed.choice(_STEMS) + seed.choice(_ENDS)
