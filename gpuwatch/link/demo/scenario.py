"""The demo scenario as a pure function of seed, node, GPU and second.

One training job on every GPU. From second 14 one GPU heats up; it throttles from second 22 on. From second
25 every step takes half as long again, since all others wait for that GPU. At second 45 another GPU falls
off the bus: its rank hangs in the driver, all others spin in a collective that cannot complete, until
NCCL's watchdogs time out half a minute later and end them, node by node. The launcher kills the hung rank
another half a minute later. Then nothing runs.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

from msgspec import Struct

Phase: TypeAlias = Literal["training", "spinning", "stopped", "lost"]

GPUS_PER_NODE = 8
STRAGGLER = (5, 2)
"""(node, GPU), counted from 0: gpu-006 GPU 2, rank 42."""
LOST_GPU = (10, 5)
"""gpu-011 GPU 5, rank 85."""
HEAT_AT = 14.0
"""Second from which the straggler heats up; at second 22 it reaches the temperature at which it throttles."""
STRAGGLE_AT, STRAGGLE_FULL_AT = 25.4, 25.6
"""Seconds between which steps slow down, at the end of a step: all later ones take `SLOW_STEP_S`."""
FALL_AT = 45.0
TIMEOUT_S = 30.0
"""Timeout of the process group in seconds; short, so that the demo takes less than ten minutes."""
REPORT_SPREAD_S = 0.4
"""Seconds within which all ranks' watchdogs fire."""
DEATH_AT, DEATH_SPREAD_S, SIBLINGS_S = 75.6, 3.2, 0.2
"""End of the first node's ranks; delay of the last node; and spread of the ranks within a node (seconds)."""
KILL_AFTER_S = 30.0
"""Seconds between a launcher's SIGTERM and SIGKILL."""

STEP_S, SLOW_STEP_S = 3.2, 4.8
COMPUTE_S, ALLREDUCE_S = 2.6, 0.4
STEPS_BEFORE = 2_368
"""Steps done at second 0: the job has run for two hours."""
LAST_STEP = STEPS_BEFORE + 12
"""The last step that completes; the next all-reduce never does."""
SLOWDOWN_C, SHUTDOWN_C, MEMORY_MAX_C = 87, 92, 95
POWER_LIMIT_W, IDLE_W, SPIN_W = 700.0, 72.0, 131.0
CLOCK_MAX_MHZ, CLOCK_LOADED_MHZ, CLOCK_HOT_MHZ, CLOCK_IDLE_MHZ = 1980, 1845, 1095, 345
MEMORY_TOTAL = 81_559 << 20
MEMORY_IDLE = 531 << 20
HEATING_S, COOLING_S = 7.0, 25.0


class SimulatedReading(Struct, frozen=True):
    """The values of one GPU at one second; those of a lost GPU are meaningless."""

    phase: Phase
    power_w: float
    temperature_c: float
    clock_mhz: int
    memory_bytes: int
    utilization_pct: float = 0.0
    tensor_pct: float = 0.0
    sm_pct: float = 0.0
    dram_pct: float = 0.0
    slowdown_pct: float = 0.0
    nvlink_bps: float = 0.0
    pcie_bps: float = 0.0


def noise(*keys: int) -> float:
    """Return a number in [-1, 1) that depends only on the keys (an integer hash as in MurmurHash3)."""
    state = 0x9E3779B9
    for key in keys:
        state = ((state ^ (key & 0xFFFFFFFF)) * 0x85EBCA6B + 0x27D4EB2F) & 0xFFFFFFFF
        state ^= state >> 15
    state = (state ^ (state >> 13)) * 0xC2B2AE35 & 0xFFFFFFFF
    return (state ^ (state >> 16)) / 2**31 - 1.0


def step_seconds(t: float) -> float:
    """Return the duration of a training step at second `t`, set by the slowest rank."""
    share = (t - STRAGGLE_AT) / (STRAGGLE_FULL_AT - STRAGGLE_AT)
    return STEP_S + (SLOW_STEP_S - STEP_S) * min(1.0, max(0.0, share))


def steps_done(t: float) -> float:
    """Return the number of steps since second 0, with fractions: the integral of 1 / `step_seconds`."""
    t = min(t, FALL_AT)
    done = min(t, STRAGGLE_AT) / STEP_S
    if t > STRAGGLE_AT:
        slope = (SLOW_STEP_S - STEP_S) / (STRAGGLE_FULL_AT - STRAGGLE_AT)
        done += math.log(step_seconds(t) / STEP_S) / slope
    return done + max(0.0, t - STRAGGLE_FULL_AT) / SLOW_STEP_S


def step_at(t: float) -> int:
    """Return the number of the newest completed step at second `t`, which may be negative."""
    return STEPS_BEFORE + math.floor(steps_done(t))


def second_of(step: int) -> float:
    """Return the second in which a step completes: the inverse of `steps_done`."""
    done, slope = step - STEPS_BEFORE, (SLOW_STEP_S - STEP_S) / (STRAGGLE_FULL_AT - STRAGGLE_AT)
    before = STRAGGLE_AT / STEP_S
    while_slowing = math.log(SLOW_STEP_S / STEP_S) / slope
    if done <= before:
        return done * STEP_S
    if done <= before + while_slowing:
        return STRAGGLE_AT + STEP_S * (math.exp((done - before) * slope) - 1.0) / slope
    return STRAGGLE_FULL_AT + (done - before - while_slowing) * SLOW_STEP_S


def share_of_last_second(t: float, begin: float, end: float) -> float:
    """Return the share of the second before `t` in which a training step was in one of its parts.

    The part is between the fractions `begin` and `end` of the step (0 to 1). Only the time in which steps
    advance counts.
    """

    def covered(x: float) -> float:
        return math.floor(x) * (end - begin) + min(end, max(begin, x % 1.0)) - begin

    first, last = steps_done(t - 1.0), steps_done(t)
    return 0.0 if last <= first else (covered(last) - covered(first)) / (last - first)


def _share(*keys: int) -> float:
    """Return a number in [0, 1) that depends only on the keys."""
    return (noise(*keys) + 1.0) / 2.0


def waits_from(seed: int, node: int, gpu: int) -> float:
    """Return the second in which a rank enters the collective that never completes."""
    return FALL_AT + 0.1 * _share(seed, node, gpu, 8)


def reports_at(seed: int, node: int, gpu: int) -> float:
    """Return the second in which a rank's watchdog logs the timeout."""
    return waits_from(seed, node, gpu) + TIMEOUT_S + 0.7 * REPORT_SPREAD_S * _share(seed, node, gpu, 9)


def ends_at(seed: int, node: int, gpu: int) -> float:
    """Return the second in which a rank's process ends: by its watchdog, or by SIGKILL on the lost GPU."""
    end = DEATH_AT + DEATH_SPREAD_S * _share(seed, node, 7)
    return end + (KILL_AFTER_S if (node, gpu) == LOST_GPU else SIBLINGS_S * _share(seed, node, gpu, 7))


def phase(seed: int, node: int, gpu: int, t: float) -> Phase:
    """Return what a GPU does at second `t`: training, lost, spinning or stopped."""
    if t < FALL_AT:
        return "training"
    if (node, gpu) == LOST_GPU:
        return "lost"
    return "spinning" if t < ends_at(seed, node, gpu) else "stopped"


def temperature(seed: int, node: int, gpu: int, t: float) -> float:
    """Return a GPU's temperature at second `t` (Celsius): it approaches that of its phase.

    It falls more slowly than it rises.
    """
    loaded = 63.0 + 5.0 * noise(seed, node, gpu, 1) + 0.9 * (gpu % 4)
    changed = (HEAT_AT, 86.3) if (node, gpu) == STRAGGLER else (STRAGGLE_AT, loaded - 4.0)
    legs = (changed, (FALL_AT, 46.0), (ends_at(seed, node, gpu), 33.0))
    now, since, target = loaded, -math.inf, loaded
    for begin, next_target in (*legs, (math.inf, 0.0)):
        until = min(t, begin)
        pace = HEATING_S if target > now else COOLING_S
        now = target + (now - target) * math.exp(-(until - since) / pace) if since > -math.inf else now
        if t <= begin:
            break
        since, target = begin, next_target
    return now + 0.4 * noise(seed, node, gpu, 2, math.floor(t))


def reading(seed: int, node: int, gpu: int, t: float) -> SimulatedReading:
    """Return the values of one GPU at second `t`; rates are means over the preceding second."""
    doing = phase(seed, node, gpu, t)
    second = math.floor(t)
    degrees = temperature(seed, node, gpu, t)
    memory = (72_300 << 20) + int((900 << 20) * noise(seed, node, gpu, 4))
    if doing == "training":
        return _training(t, (node, gpu) == STRAGGLER, noise(seed, node, gpu, second, 5), degrees, memory)
    power = (SPIN_W if doing == "spinning" else IDLE_W) + 4.0 * noise(seed, node, gpu, second, 3)
    if doing == "spinning":
        busy = 11.5 + noise(seed, node, gpu, second, 6)
        return SimulatedReading(
            doing, power, degrees, CLOCK_MAX_MHZ, memory, utilization_pct=100.0, sm_pct=busy, dram_pct=0.4
        )
    return SimulatedReading(doing, power, degrees, CLOCK_IDLE_MHZ, MEMORY_IDLE)


def _training(t: float, straggler: bool, jitter: float, degrees: float, memory: int) -> SimulatedReading:
    """Return the values of a GPU in training, at second `t`.

    A step is compute, waiting for the slowest rank, and all-reduce.
    """
    step_s = step_seconds(t)
    reduce_from = 1.0 - ALLREDUCE_S / step_s
    compute_until = reduce_from - 0.02 if straggler else COMPUTE_S / step_s
    compute = share_of_last_second(t, 0.0, compute_until)
    allreduce = share_of_last_second(t, reduce_from, 1.0)
    # the same work spread over a longer time: a slowed GPU shows less activity while it computes
    intensity = COMPUTE_S / step_s / compute_until
    slowdown = min(1.0, max(0.0, (degrees - 80.0) / 6.0)) if straggler else 0.0
    clock = CLOCK_LOADED_MHZ - slowdown * (CLOCK_LOADED_MHZ - CLOCK_HOT_MHZ) + 14.0 * jitter
    power = 158.0 + compute * intensity * 505.0 + allreduce * 70.0 + 9.0 * jitter
    return SimulatedReading(
        "training",
        power * (1.0 - 0.18 * slowdown),
        degrees,
        int(clock) // 15 * 15,
        memory,
        utilization_pct=min(100.0, 98.5 + 1.5 * jitter),
        tensor_pct=max(0.0, 61.0 * compute * intensity + 2.0 * jitter),
        sm_pct=88.0 * compute * intensity + 14.0 * (1.0 - compute) + jitter,
        dram_pct=max(0.0, 44.0 * compute * intensity + 9.0 * allreduce + jitter),
        slowdown_pct=92.0 * slowdown,
        nvlink_bps=4.6e10 * compute * intensity + 1.9e11 * allreduce,
        pcie_bps=1.1e9 * compute + 9.0e9 * allreduce,
    )
