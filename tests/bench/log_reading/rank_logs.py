"""Logs of the ranks of one training job, and dense text: made up, with a fixed seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

from tests.bench.log_reading.log_lines import word

BEGIN = datetime(2025, 6, 1, 8, 0, 0)
STEP_S = 1.7
SAVE_EVERY = 200
WORLD = 16
LEVELS = ("DEBUG", "INFO", "INFO", "INFO", "WARNING")


def write(path: Path, lines: Iterator[str], size: int) -> None:
    """Write whole lines up to about this many bytes; a line that begins with a carriage return overwrites."""
    written = 0
    with path.open("w", encoding="utf-8") as out:
        for line in lines:
            out.write(line)
            written += len(line)
            if written >= size:
                return


def rank_log(rank: int, seed: int = 1) -> Iterator[str]:
    """Yield the lines of one rank, with their line ends: the start, then steps without end."""
    chance = random.Random(f"{seed}/{rank}")
    yield from _start(rank, chance)
    step = 0
    while True:
        step += 1
        yield from _step(rank, step, chance)


def failure(rank: int, step: int) -> list[str]:
    """Return the last lines of a rank: rank 3 runs out of memory, the others wait for it."""
    at = _stamp(step)
    if rank == 3:
        frame = '  File "/opt/train/model/block.py", line 214, in forward\n    x = self.mlp(x)\n'
        return [
            f"[rank{rank}]: Traceback (most recent call last):\n",
            f"[rank{rank}]: {frame.splitlines()[0]}\n",
            f"[rank{rank}]: {frame.splitlines()[1]}\n",
            f"[rank{rank}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. "
            f"GPU {rank % 8} has a total capacity of 79.10 GiB of which 1.12 GiB is free.\n",
        ]
    return [
        f"[rank{rank}]:[E601 {at[11:19]}.123456789 ProcessGroupNCCL.cpp:629] [Rank {rank}] "
        f"Watchdog caught collective operation timeout: WorkNCCL(SeqNum={step * 12}, OpType=ALLREDUCE, "
        "NumelIn=4096, NumelOut=4096, Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n"
    ]


def _stamp(step: int, milliseconds: int = 0) -> str:
    at = BEGIN + timedelta(seconds=step * STEP_S, milliseconds=milliseconds)
    return f"{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03}"


def _start(rank: int, chance: random.Random) -> Iterator[str]:
    at = _stamp(0)
    yield f"W0601 08:00:00.000000 {4000 + rank} torch/distributed/run.py:793] Setting OMP_NUM_THREADS\n"
    for _ in range(120):
        yield f"{at} - config - INFO - {word(chance)}.{word(chance)}_{word(chance)}: {chance.random():.5f}\n"
    node, near = rank // 8, rank % 8
    head = f"node-{node:03}:{20000 + rank}:{21000 + rank} [{near}] NCCL INFO"
    yield f"{head} Bootstrap: Using eth0:10.0.{node}.7<0>\n"
    yield f"{head} NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [RO]; OOB eth0:10.0.{node}.7<0>\n"
    yield f"{head} NCCL_SOCKET_TIMEOUT set by environment to 600.\n"
    for channel in range(32):
        yield f"{head} Channel {channel:02}/32 : 0 1 2 3 4 5 6 7\n"
        pair = f"{rank}[{near}] -> {(rank + 1) % WORLD}[{near}]"
        yield f"{head} Channel {channel:02}/0 : {pair} via P2P/CUMEM/read\n"
    comm = f"comm 0x{chance.getrandbits(48):x} rank {rank} nranks {WORLD} cudaDev {near}"
    yield f"{head} {comm} - Init COMPLETE\n"
    yield f"{at} - root - INFO - resuming from no checkpoint, starting at step 0\n"


def _step(rank: int, step: int, chance: random.Random) -> Iterator[str]:
    at, n = _stamp(step, rank), chance.random()
    yield (
        f"[rank{rank}]: {at} - trainer - INFO - step: {step:6d}  loss: {11 / (1 + step / 900) + n / 9:8.5f}  "
        f"grad_norm: {n * 3:7.4f}  lr: {3e-4 * n:.6e}  memory: {60 + n:5.2f}GiB({75 + n:.2f}%)  "
        f"tps: {9000 + int(n * 500):,}  mfu: {38 + n:.2f}%\n"
    )
    for _ in range(3):
        yield (
            f"{at} - data.loader - {chance.choice(LEVELS)} - worker {chance.randrange(8)} read shard "
            f"s3://corpus/{word(chance)}/part-{chance.randrange(99999):05}-{chance.getrandbits(32):08x}.tar "
            f"({n * 900:.1f} MB, retries=0) in {n:.3f} s\n"
        )
    yield (
        f"\rTraining:  {step % 100:3d}%|{'#' * (step % 40)}{' ' * (40 - step % 40)}| {step}/250000 "
        f"[{step // 60:02}:{step % 60:02}<68:{step % 60:02}:07,  {n + 1:.2f}s/it, loss={n * 2:.4f}]\n"
    )
    if step % 5 == 0:
        yield (
            f"[{at}] [INFO] [timer.py:{200 + step % 9}:stop] epoch=0/micro_step={step * 8}/global_step={step}"
            f", RunningAvgSamplesPerSec={n * 99!r}, CurrSamplesPerSec={n * 90!r}, "
            f"MemAllocated={n * 40:.2f}GB\n"
        )
    if step % 7 == 0:
        text = " ".join(word(chance) for _ in range(14))
        yield f"{at} - data.filter - DEBUG - dropped sample {chance.getrandbits(40)}: {text}\n"
    if step % 10 == 0:
        yield (
            f'{{"time": "{at}", "rank": {rank}, "step": {step}, "loss": {n:.6f}, "phase": "train", '
            f'"tokens": {step * 4194304}, "exception": null, "error_count": 0}}\n'
        )
    if step % 25 == 0:
        yield (
            f"node-{rank // 8:03}:{20000 + rank}:{21000 + rank} [{rank % 8}] NCCL INFO AllReduce: "
            f"opCount {step * 12:x} sendbuff 0x{chance.getrandbits(44):x} count {chance.randrange(9999999)}\n"
        )
    if step % 40 == 0:
        name = word(chance)
        yield f"/opt/train/data/{name}.py:{chance.randrange(900)}: UserWarning: {name} is slow\n"
        yield "  warnings.warn(\n"
    if step % SAVE_EVERY == 0:
        folder = f"/ckpt/run7/step_{step:08}"
        yield f"{at} - checkpoint - INFO - saving checkpoint of step {step} to {folder}\n"
        yield f"{at} - checkpoint - INFO - saved {folder}/__{rank}_0.distcp in {n * 20:.1f} s, 0 failed\n"
        for name in ("train", "eval", "checkpoint"):
            yield f"{at} - timers - INFO -     {name:.<40} ({n * 900:.2f}, {n * 1000:.2f}) ms\n"


def prose(seed: random.Random) -> Iterator[str]:
    """Yield sentences as models answer and people write: hardly two lines are alike."""
    while True:
        words = [_any_word(seed) for _ in range(seed.randrange(9, 22))]
        words[0] = words[0].capitalize()
        yield " ".join(words) + seed.choice(".?!,") + "\n"


def json_records(seed: random.Random) -> Iterator[str]:
    """Yield structured records, as loggers and collectors write them: one JSON object a line."""
    step = 0
    while True:
        step += 1
        text = " ".join(_any_word(seed) for _ in range(9))
        yield (
            f'{{"timestamp": "{_stamp(step)}", "level": "{seed.choice(LEVELS)}", "logger": "{word(seed)}", '
            f'"rank": {step % 64}, "message": "{text}", "path": "/{word(seed)}/{seed.getrandbits(32):x}", '
            f'"duration_ms": {seed.random() * 900:.2f}, "error": null}}\n'
        )


def _any_word(seed: random.Random) -> str:
    n = seed.random()
    return seed.choice(_OF_FAULTS) if n < 0.005 else word(seed) if n < 0.35 else seed.choice(_COMMON)


_COMMON = [
    "the",
    "of",
    "and",
    "to",
    "in",
    "is",
    "that",
    "it",
    "for",
    "was",
    "on",
    "are",
    "as",
    "with",
    "they",
    "be",
    "at",
    "this",
    "have",
    "from",
    "or",
    "had",
    "by",
    "but",
    "some",
    "what",
    "there",
    "we",
    "can",
    "out",
    "other",
    "were",
    "all",
    "your",
    "when",
    "up",
    "use",
    "how",
    "said",
    "an",
    "each",
    "which",
    "their",
    "time",
    "if",
    "will",
    "way",
    "about",
    "many",
    "then",
    "them",
    "would",
    "write",
    "like",
    "so",
    "these",
    "long",
    "make",
    "item",
    "see",
    "him",
    "two",
    "has",
    "look",
    "more",
    "day",
    "could",
    "go",
    "come",
    "did",
    "number",
    "no",
    "most",
    "people",
    "my",
    "over",
    "know",
    "than",
    "call",
    "first",
    "who",
    "may",
    "down",
    "side",
    "been",
    "now",
    "find",
    "any",
    "new",
    "work",
    "part",
    "take",
    "get",
    "place",
    "made",
    "live",
    "where",
    "after",
    "back",
    "little",
    "only",
    "round",
    "man",
    "year",
    "came",
    "show",
    "every",
    "good",
    "me",
    "give",
    "our",
    "under",
    "name",
    "very",
    "through",
    "just",
    "form",
    "much",
    "great",
    "think",
    "say",
    "help",
    "low",
    "line",
    "before",
    "turn",
    "cause",
    "same",
    "mean",
    "differ",
    "move",
    "right",
    "boy",
    "old",
    "too",
    "does",
    "tell",
    "sentence",
    "set",
    "three",
    "want",
    "air",
    "well",
    "also",
    "play",
    "small",
    "end",
    "put",
    "home",
    "read",
    "hand",
    "port",
    "large",
    "spell",
    "add",
    "even",
    "land",
    "here",
    "must",
    "big",
    "high",
    "such",
    "follow",
    "act",
    "why",
    "ask",
    "men",
    "change",
    "went",
    "light",
    "kind",
    "off",
    "need",
    "house",
    "picture",
    "try",
    "us",
    "again",
    "animal",
    "point",
    "mother",
    "world",
    "near",
    "build",
    "self",
    "earth",
    "father",
]
_OF_FAULTS = ("error", "failed", "lost", "memory", "process", "device", "crashed", "timeout")

DENSE: dict[str, Callable[[random.Random], Iterator[str]]] = {"prose": prose, "json": json_records}
