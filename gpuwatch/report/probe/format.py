"""Formats a probe's numbers, ranks and back end."""

from __future__ import annotations

from gpuwatch.blocks.model import Style
from gpuwatch.plain import plain
from gpuwatch.probe.judging.links.links import Grade
from gpuwatch.probe.judging.text.grade_symbols import ASCII, UNICODE, Marks
from gpuwatch.probe.results import RankSlot, Results

NOT_THE_FABRIC = "CPU ranks over TCP, not the training fabric"
GIGA = 1e9

GRAVITY: tuple[Grade, ...] = ("dead", "bad", "low", "noisy", "ok")
STYLES: dict[Grade, Style] = {
    "dead": "critical",
    "bad": "critical",
    "low": "warning",
    "noisy": "warning",
    "ok": "plain",
}


def marks_for(encoding: str | None) -> Marks:
    """Return the link marks that this encoding can represent."""
    return UNICODE if (encoding or "").lower().replace("-", "").startswith("utf") else ASCII


def gb_per_s(bytes_per_s: float | None) -> float | None:
    """Return bytes per second as GB/s (10**9 bytes); None stays None."""
    return None if bytes_per_s is None else bytes_per_s / GIGA


def backend_text(results: Results) -> str:
    """Return the backend, else the planned or requested one, with version and transports; empty: unknown."""
    backend = results.backend or (results.estimate.backend if results.estimate else results.request.backend)
    if backend is None:
        return ""
    if backend == "gloo":
        return f"gloo ({NOT_THE_FABRIC})"
    version = f" {plain(results.nccl)}" if results.nccl else ""
    over = (
        f" over {', '.join(sorted(plain(each) for each in results.transports))}" if results.transports else ""
    )
    return f"NCCL{version}, GPU ranks{over}"


def rank_name(rank: int, slots: dict[int, RankSlot]) -> str:
    """Return the name of the rank's slot; `rank 12` if that is unknown."""
    slot = slots.get(rank)
    return f"rank {rank}" if slot is None else slot.name
