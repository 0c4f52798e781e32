"""Formats for a probe's numbers, ranks and back end."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwatch.fleet.nodes.units import UNKNOWN
from gpuwatch.plain import plain
from gpuwatch.probe.judging.links.links import Grade
from gpuwatch.probe.judging.text import words
from gpuwatch.probe.judging.text.grade_symbols import ASCII, UNICODE, Marks
from gpuwatch.probe.results import Results, Seat

NOT_THE_FABRIC = "CPU ranks over TCP: not the training fabric"
GIGA = 1e9
SMALLEST_RATE = 0.0005
"""GB/s; smaller rates would round to 0.000."""

GRAVITY: tuple[Grade, ...] = ("dead", "bad", "low", "noisy", "ok")
STYLES: dict[Grade, str] = {
    "dead": "critical",
    "bad": "critical",
    "low": "warning",
    "noisy": "warning",
    "ok": "plain",
}


def marks_for(encoding: str | None) -> Marks:
    """The link marks that this encoding can represent."""
    return UNICODE if (encoding or "").lower().replace("-", "").startswith("utf") else ASCII


def rate_text(gb_per_s: float | None) -> str:
    """10^9 bytes per second in three digits: `392`, `48.7`, `4.87`, `0.024`."""
    if gb_per_s is None:
        return UNKNOWN
    if 0 < gb_per_s < SMALLEST_RATE:
        return "<.001"
    for limit, digits in ((0.9995, 3), (9.995, 2), (99.95, 1)):
        if gb_per_s < limit:
            return f"{gb_per_s:.{digits}f}"
    return f"{gb_per_s:.0f}"


def time_text(seconds: float | None) -> str:
    """Three digits: `845us`, `12.3ms`, `1.23s`."""
    return UNKNOWN if seconds is None else words.time_text(seconds)


def size_text(size: int) -> str:
    """Size of a message in powers of 2^10: `1M`, `256M`, `1.5G`."""
    value = float(size)
    for prefix in ("B", "K", "M", "G"):
        if value < 1024 or prefix == "G":
            break
        value /= 1024
    return f"{value:.0f}{prefix}" if value == int(value) else f"{value:.1f}{prefix}"


def percent_text(share: float | None) -> str:
    """`4%`."""
    return UNKNOWN if share is None else f"{share * 100:.0f}%"


def gb_per_s(bytes_per_s: float | None) -> float | None:
    """Bytes per second converted to 10^9 bytes per second."""
    return None if bytes_per_s is None else bytes_per_s / GIGA


def backend_text(results: Results) -> str:
    """The back end that ran, in unambiguous words; empty while unknown."""
    backend = results.backend or (results.estimate.backend if results.estimate else results.request.backend)
    if backend is None:
        return ""
    if backend == "gloo":
        return f"GLOO, {NOT_THE_FABRIC}"
    version = f" {plain(results.nccl)}" if results.nccl else ""
    over = (
        f" over {', '.join(sorted(plain(each) for each in results.transports))}" if results.transports else ""
    )
    return f"NCCL{version}, GPU ranks{over}"


def seats_by_rank(results: Results) -> dict[int, Seat]:
    """Rank -> its seat (node and GPU)."""
    return {seat.rank: seat for seat in results.seats}


def seat_name(seat: Seat) -> str:
    """`gpu-003 GPU 4`, or `gpu-003 rank 12` for a CPU rank."""
    return f"{seat.node} rank {seat.rank}" if seat.gpu is None else f"{seat.node} GPU {seat.gpu}"


def rank_name(rank: int, seats: dict[int, Seat]) -> str:
    """The seat's name by rank; `rank 12` if its seat is unknown."""
    seat = seats.get(rank)
    return f"rank {rank}" if seat is None else seat_name(seat)


def counted(number: int, one: str, many: str = "") -> str:
    """`1 node`, `4 nodes`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def listed(names: Sequence[str], most: int = 4) -> str:
    """`a, b, c and 5 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
