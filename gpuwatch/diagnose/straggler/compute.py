"""GPUs that compute differently from their peers: lower clock, pauses, or other power.

In synchronous training every rank steps as often as the slowest one, so step times are equal and the waiting
shows elsewhere: a rank that waits spins in a collective at 100 % utilization, a high clock and low power. The
rank that waits least is therefore the suspect. Pure functions over the ranks of one job that have the same
GPU model.

Example: 8 GPUs at 99 % utilization, seven of them at 1,980 MHz and 300 W, GPU 5 at 1,410 MHz and 520 W.
`slow_clocks` yields GPU 5 (71 % of the median clock; the limit is `peer_clock_pct`, 90), and so does `power`
(1.7 times the median): it works while the others wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from gpuwatch.diagnose.health.peer_comparison import EQUAL_PCT, MIN_PEERS, WORKING_PCT, works_alone
from gpuwatch.diagnose.straggler.gpu_load import GpuLoad, middle
from gpuwatch.diagnose.straggler.outliers import Outlier, equally_busy, lowest, max_outliers

FULL_PCT, FULL_EQUAL_PCT = 90.0, 5.0
"""Least utilization of peers whose power is compared, and most points by which they may differ (percent).

Ranks that compute or wait in collectives are almost always busy.
"""


def slow_clocks(group: Sequence[GpuLoad], clock_pct: float) -> Iterator[Outlier]:
    """Yield the GPUs with a clock below `clock_pct` percent of the median, at about equal utilization."""
    known = [
        (each, each.clock_mhz, each.busy_pct)
        for each in group
        if each.clock_mhz and each.busy_pct is not None and each.busy_pct >= WORKING_PCT
    ]
    if len(known) < MIN_PEERS:
        return
    usual, usual_busy = median(clock for _, clock, _ in known), median(busy for _, _, busy in known)
    usual_w = middle(each.power_w for each, _, _ in known)
    slow = [
        (each, clock)
        for each, clock, busy in known
        if clock < usual * clock_pct / 100.0
        and abs(busy - usual_busy) <= EQUAL_PCT
        and not works_alone(each.fast, each.power_w, usual_w)
    ]
    for each, clock in slow:
        share = clock / usual
        yield Outlier(
            "clock", each.rank, len(known) - 1, "SM clock", f"{clock:.0f} MHz", f"{usual:.0f} MHz",
            f"at {share:.2f}x clock", 1 - share, load=each, alike=len(slow),
        )  # fmt: skip


def idle(group: Sequence[GpuLoad], busy_pct: float) -> Iterator[Outlier]:
    """Yield the GPUs below `busy_pct` % of the median utilization while the others are busy.

    The host side of these is slow: data, code or storage.
    """
    known = [(each, each.busy_pct) for each in group if each.busy_pct is not None]
    if len(known) < MIN_PEERS:
        return
    usual = median(busy for _, busy in known)
    low = [(each, busy) for each, busy in known if busy < usual * busy_pct / 100.0]
    if usual < FULL_PCT or len(low) > max_outliers(len(known)):
        return
    for each, busy in low:
        yield Outlier(
            "busy", each.rank, len(known) - 1, "utilization", f"{busy:.0f} %", f"{usual:.0f} %",
            f"busy only {busy:.0f} % of the time (its peers: {usual:.0f} %)", 1 - busy / usual,
            "its host side is slow (data, code or storage)", each, len(low),
        )  # fmt: skip


def power(group: Sequence[GpuLoad], power_pct: float) -> Iterator[Outlier]:
    """Yield the only GPU whose power is far above the others' at full utilization, and the only one below.

    A GPU above works while the others wait; a GPU below waits. `power_pct`: percent of the median (or of its
    inverse).
    """
    equal = equally_busy(group, FULL_PCT, FULL_EQUAL_PCT)
    low = lowest(equal, lambda each: each.power_w, power_pct / 100.0)
    if low is not None:
        each, own, usual = low
        yield Outlier(
            "spins", each.rank, len(equal) - 1, "power", f"{own:.0f} W", f"{usual:.0f} W",
            f"at {own / usual:.2f}x its peers' power at full utilization", None,
            "it spins in a collective: it waits or has less work, and does not slow the others", each,
        )  # fmt: skip
    high = lowest(equal, lambda each: 1.0 / each.power_w if each.power_w else None, power_pct / 100.0)
    if high is not None:
        each, own, usual = high[0], 1.0 / high[1], 1.0 / high[2]
        yield Outlier(
            "works_alone", each.rank, len(equal) - 1, "power", f"{own:.0f} W", f"{usual:.0f} W",
            f"at {own / usual:.1f}x its peers' power", None,
            "it computes while the others wait in a collective", each,
        )  # fmt: skip
