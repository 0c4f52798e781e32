"""The number of seconds for which a silent job may still be healthy, from its signs and earlier pauses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TypeAlias

from gpuwatch.diagnose.hang.classifier import SilentHang, computes
from gpuwatch.diagnose.hang.rank_signs import RankSigns
from gpuwatch.fleet.fleet import Fleet

HangPattern: TypeAlias = tuple[str, tuple[int, ...]]
"""What identifies a kind of silence: its `Reading` (such as `spin`), and the ranks of its suspects."""

TRAINED_S = 600.0
POWER_POINTS = 60
WORKED_PCT = 50.0
PAUSE_WINDOWS = 5.0
"""Windows to wait where the idle GPUs may wait for a checkpoint, or a single busy GPU may evaluate.

Where all GPUs are idle, the time is also at least twice the longest pause so far.
"""
GUESSED_WINDOWS = 2.0
"""Number of windows to wait where waiting GPUs are inferred from their power limit alone."""
BLIND_WINDOWS = 10.0
"""Number of windows to wait where nothing shows what the busy GPUs do."""
COMPUTING_FACTOR = 4.0
"""Factor on the threshold where the ranks of idle GPUs use the CPU (a compiler, a tokeniser)."""
KNOWN_PAUSE, MAX_KNOWN_S = 1.5, 600.0
"""Factor on an earlier pause with the same signs that ended by itself, and the most seconds that it gives."""


def pattern_of(hang: SilentHang) -> HangPattern:
    """Return the reading and the suspects of a verdict, which identify a kind of silence."""
    return hang.reading, tuple(rank.rank for rank in hang.suspects)


def known_pause(hang: SilentHang, pauses: Mapping[HangPattern, float]) -> float:
    """Return how many seconds a silence of this kind may last: KNOWN_PAUSE times the longest earlier one.

    0.0 if no earlier one ended by itself. `pauses`: kind -> the longest such silence (seconds).
    """
    return KNOWN_PAUSE * pauses.get(pattern_of(hang), 0.0)


def hang_threshold(
    hang: SilentHang,
    ranks: Sequence[RankSigns],
    window_s: float,
    longest_s: float,
    known_s: float,
    *,
    pauses: bool = False,
) -> float:
    """Return the seconds of silence after which a job with these signs counts as hung.

    Args:
        hang: The verdict on the signs.
        ranks: The ranks of the job.
        window_s: One window: `Thresholds.hang_s` of the hosts file (60 s by default), or longer for a job of
            slow steps.
        longest_s: The longest silence of the job that ended by itself.
        known_s: The result of `known_pause`.
        pauses: Whether the rank that the others wait for saves or evaluates, by its stack or last line.
    """
    if hang.reading == "host":
        computing = 2 * sum(map(computes, ranks)) > len(ranks)
        return max(
            (COMPUTING_FACTOR if computing else 1.0) * PAUSE_WINDOWS * window_s, 2 * longest_s, known_s
        )
    if hang.reading == "busy":
        return max(BLIND_WINDOWS * window_s, known_s)
    works_alone = hang.reading == "spin" and hang.suspects
    if pauses or works_alone or (hang.reading == "waiting_for_one" and any(map(computes, hang.suspects))):
        return max(
            PAUSE_WINDOWS * window_s, known_s
        )  # such as the rank that evaluates, or saves the model, for all
    return max((GUESSED_WINDOWS if hang.guessed else 1.0) * window_s, known_s)


def trained(fleet: Fleet, now: float, ranks: Sequence[RankSigns], quiet_s: float) -> dict[str, float]:
    """Return UUID -> median watts of each GPU while it was busy, in the ten minutes before the silence.

    GPUs that were busy for less than a tenth of that time are left out.
    """
    found: dict[str, float] = {}
    until = now - quiet_s
    for rank in ranks:
        node = fleet.nodes.get(rank.node)
        gpu = None if node is None or rank.uuid is None else node.gpus.get(rank.uuid)
        if gpu is None:
            continue
        power = gpu.history.series("power", TRAINED_S, POWER_POINTS, until)
        busy = gpu.history.series("util", TRAINED_S, POWER_POINTS, until)
        known = power[(busy >= WORKED_PCT) & (power > 0)]
        if len(known) >= POWER_POINTS // 10:
            found[gpu.info.uuid] = median(known.tolist())
    return found
