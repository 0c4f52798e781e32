"""Why a GPU is slower than its peers, from its own figures: heat, power, links."""

from __future__ import annotations

from collections.abc import Iterator

from gpuwatch.diagnose.straggler.gpu_load import GpuLoad, Usual
from gpuwatch.wire import GpuFast

REASONS = {
    "hw_thermal": "its own thermal protection",
    "sw_thermal": "heat",
    "power_brake": "the power brake",
    "hw_slowdown": "a hardware slowdown",
    "power_cap": "its power limit",
}
"""Clock-event reason -> description, most severe first."""
THERMAL = frozenset(("hw_thermal", "sw_thermal"))
MIN_SHARE_PCT = 1.0
LOWER_LIMIT = 0.95
"""A power limit below this share of the peers' median is configured differently."""


def causes(load: GpuLoad, usual: Usual, hotter_c: float, *, capped: bool) -> Iterator[str]:
    """Yield possible reasons for a slow GPU, most certain first.

    Args:
        load: The load of the slow GPU.
        usual: The medians of its group.
        hotter_c: Degrees over the median of its peers from which the GPU is hot.
        capped: Whether its clock is below the peers': only then throttling by the power limit counts as a
            reason. A limit lower than the peers' always does.
    """
    reason, words = throttled(load.fast, capped=capped)
    usual_c, own_c = usual.temperature_c, load.temperature_c
    warm = "" if own_c is None or usual_c is None else f"{own_c:.0f} C (its peers: {usual_c:.0f} C)"
    hot = own_c is not None and usual_c is not None and own_c - usual_c >= hotter_c
    if words:
        yield words
    if warm and (hot or reason in THERMAL):
        yield warm
    yield from _settings(load, usual)


def throttled(fast: GpuFast, *, capped: bool) -> tuple[str, str]:
    """Return the most severe throttle reason that the GPU reports (a key of `REASONS`) and its description.

    ("", "") without one. `capped`: whether throttling by the power limit counts as a reason.
    """
    shares = fast.throttle_pct or {}
    reasons = {name: words for name, words in REASONS.items() if capped or name != "power_cap"}
    for name, words in reasons.items():
        if shares.get(name, 0.0) > MIN_SHARE_PCT:
            return name, f"throttled by {words} {shares[name]:.0f} % of the time"
    for name, words in reasons.items():
        if name in (fast.throttle or ()):
            return name, f"throttled by {words}"
    return "", ""


def _settings(load: GpuLoad, usual: Usual) -> Iterator[str]:
    """Yield possible reasons in settings or defects: power limit, PCIe link, NVLinks."""
    own_w, usual_w = load.power_limit_w, usual.power_limit_w
    if own_w is not None and usual_w is not None and own_w < LOWER_LIMIT * usual_w:
        yield f"its power limit is {own_w:.0f} W, its peers' {usual_w:.0f} W"
    own_rate, usual_rate = load.pcie_rate, usual.pcie_rate
    if own_rate is not None and usual_rate is not None and own_rate < usual_rate:
        yield f"its PCIe link is {load.pcie}, slower than its peers'"
    active, most = None if load.slow is None else load.slow.nvlink_active, load.info.nvlink_count
    if active is not None and most and 0 < active < most:
        yield f"{most - active} of its {most} NVLinks are down"
