"""The options of `gpuwatch probe` that define the measurement, as one decorator."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import click

from gpuwatch.cli.shared.renamed_option import RenamedOption
from gpuwatch.cli.shared.source_flags import Decorator
from gpuwatch.hosts.validation.nearest_word import nearest
from gpuwatch.probe.probe_request import COLLECTIVES, MIB, SIZES, Collective, ProbeRequest

UNITS = {"B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
SIZE_FACTOR = 4
"""Factor between two sizes of a range, as in the default table."""
MAX_BYTES = 64 << 30
MAX_SIZES = 32
SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([BKMG]?)I?B?", re.IGNORECASE)
SIZES_HELP = (
    "Sizes of the whole buffer, in M (2^20 bytes) unless followed by B, K, M or G: 1,4,16 or 64K,1G; "
    "1M..1G multiplies by 4."
)

REQUEST_OPTIONS = (
    "collectives",
    "sizes",
    "pairs",
    "ranks_per_node",
    "iface",
    "backend",
    "budget_s",
    "busy_too",
    "gpu_checks",
    "iterations",
    "warmup",
)
"""Fields of `ProbeRequest` that an option sets."""


def request_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add a probe's options to a command; it receives them as one parameter `request: ProbeRequest`."""

    @functools.wraps(command)
    def with_request(*args: object, **given: Any) -> int:  # noqa: ANN401  what click parsed, of any type
        return command(
            *args, request=ProbeRequest(**{name: given.pop(name) for name in REQUEST_OPTIONS}), **given
        )

    made: Callable[..., int] = with_request
    for decorate in reversed((*SWEEP, *PAIRS, *RANKS)):
        made = decorate(made)
    return made


SWEEP: tuple[Decorator, ...] = (
    click.option(
        "--collectives",
        default=",".join(COLLECTIVES),
        show_default="all of them",
        callback=lambda _ctx, _param, text: read_collectives(text),
        help=f"Comma-separated list of {', '.join(COLLECTIVES)}; or none.",
    ),
    click.option(
        "--sizes",
        default=",".join(str(size // MIB) for size in SIZES),
        show_default=True,
        callback=lambda _ctx, _param, text: read_sizes(text),
        help=SIZES_HELP,
    ),
    click.option(
        "--iterations",
        type=click.IntRange(1, 10_000),
        show_default="as many as fit into a second, 3 to 50",
        help="Timed iterations of every collective and size.",
    ),
    click.option(
        "--warmup",
        type=click.IntRange(0, 1_000),
        default=10,
        show_default=True,
        help="Iterations before the timed ones, with --iterations.",
    ),
)
PAIRS: tuple[Decorator, ...] = (
    click.option(
        "--pairs",
        "pairs",
        flag_value="full",
        default="full",
        help="Measure every pair of nodes, and every pair of ranks inside a node (default).",
    ),
    click.option(
        "--quick",
        "pairs",
        flag_value="quick",
        help="Measure two rounds of pairs only: finds slow nodes, not single links.",
    ),
    click.option("--no-pairs", "pairs", flag_value="none", help="Measure collectives only."),
    click.option("--gpu-checks/--no-gpu-checks", default=True, help="Also test each GPU (matmul, copies)."),
)
RANKS: tuple[Decorator, ...] = (
    click.option(
        "--ranks-per-node",
        type=click.IntRange(1, 64),
        show_default="one per GPU; without GPUs one per core, at most 4",
        help="Number of ranks per node.",
    ),
    click.option(
        "--interface",
        "--iface",
        "iface",
        cls=RenamedOption,
        metavar="NAME",
        help="Network interface on every node (default: the one of their common subnet).",
    ),
    click.option(
        "--backend",
        type=click.Choice(["nccl", "gloo"]),
        show_default="nccl if every rank has a GPU",
        help="gloo: CPU ranks over TCP, not the training fabric.",
    ),
    click.option(
        "--time-limit",
        "--budget",
        "budget_s",
        cls=RenamedOption,
        metavar="S",
        type=click.FloatRange(1, 3600),
        default=180.0,
        show_default=True,
        help="Stop measuring after this many seconds and judge the results so far.",
    ),
    click.option(
        "--allow-busy",
        "--busy-too",
        "busy_too",
        cls=RenamedOption,
        is_flag=True,
        help="Run even if GPUs are in use (this slows the running jobs).",
    ),
)


def read_collectives(text: str) -> tuple[Collective, ...]:
    """Return the collectives in a comma-separated list, each once, in the given order; empty for `none`.

    Raises:
        click.BadParameter: A name is unknown.
    """
    if text == "none":
        return ()
    known: dict[str, Collective] = {name: name for name in COLLECTIVES}
    chosen: dict[Collective, None] = {}
    for word in re.split(r"[,\s]+", text.strip(", ")):
        name = known.get(word.lower().replace("-", "_"))
        if name is None:
            close = nearest(word, COLLECTIVES)
            meant = f"; did you mean {close}?" if close else f"; choose from {', '.join(COLLECTIVES)}"
            raise click.BadParameter(f"unknown collective {word!r}{meant}")
        chosen[name] = None
    return tuple(chosen)


def read_sizes(text: str) -> tuple[int, ...]:
    """Return the sizes in bytes of a list such as `1,4,64K` or `1M..1G` (factor 4), ascending.

    Raises:
        click.BadParameter: A size is invalid, a range is descending, or there are more than 32.
    """
    sizes: set[int] = set()
    for part in re.split(r"[,\s]+", text.strip(", ")):
        first, dots, last = part.partition("..")
        start = read_size(first)
        sizes.add(start)
        if dots:
            end = read_size(last)
            if end < start:
                raise click.BadParameter(f"{part}: {last} is smaller than {first}")
            while start * SIZE_FACTOR <= end:
                start *= SIZE_FACTOR
                sizes.add(start)
    if len(sizes) > MAX_SIZES:
        raise click.BadParameter(f"{len(sizes)} sizes; at most {MAX_SIZES}")
    return tuple(sorted(sizes))


def read_size(text: str) -> int:
    """Return the bytes of `64K`, `16`, `16M`, `1.5G` or `512B`; without a unit the number is in MiB.

    Raises:
        click.BadParameter: The text is not a size, or not from 1 B to 64 GiB.
    """
    match = SIZE.fullmatch(text)
    if match is None:
        raise click.BadParameter(f"{text!r} is not a size; examples: 64K, 16M, 1G")
    size = round(float(match[1]) * UNITS[match[2].upper() or "M"])
    if not 1 <= size <= MAX_BYTES:
        raise click.BadParameter(f"{text}: a size must be from 1B to {MAX_BYTES >> 30}G")
    return size
