"""What holds during and after every fault."""

from __future__ import annotations

from dataclasses import dataclass

FRESH_S = 2.0
LOAD_FACTOR = 4.0
"""Nodes without a fault may be older than `FRESH_S` by so many times the worst age of the control's node."""
RSS_RATIO, RSS_MORE_BYTES = 1.25, 32 << 20


@dataclass
class Outcome:
    """What was measured while one fault was played."""

    fault: str
    what: str
    signs: list[tuple[float, str]]
    """Seconds after the fault, and what was shown from then on."""
    told_s: float | None
    """Until the first sign; None: there is nothing to tell."""
    back_s: float | None
    """From the repair (or from the first sign, if it passes by itself) until all nodes are live."""
    worst_age_s: dict[str, float]
    """Of the nodes without a fault."""
    control_age_s: float
    redialled: list[str]
    """Nodes without a fault whose connection was not the same as before."""
    rss_bytes: tuple[int, int]
    """Before, and the greatest meanwhile."""
    left: dict[str, tuple[int, int]]
    """What may not grow: threads, descriptors and children of the cockpit; before and after."""
    blamed: list[str]
    """Alerts and incidents that the fault is no reason for."""

    def broken(self) -> list[str]:
        """The invariants that do not hold; empty: all do."""
        limit_s = FRESH_S + LOAD_FACTOR * self.control_age_s
        before, peak = self.rss_bytes
        found = [
            f"{name} was {age:.1f} s old, the control's node {self.control_age_s:.1f} s"
            for name, age in self.worst_age_s.items()
            if age > limit_s
        ]
        found += [f"{name} was connected anew" for name in self.redialled]
        if peak > RSS_RATIO * before + RSS_MORE_BYTES:
            found.append(f"memory grew from {before >> 20} to {peak >> 20} MiB")
        found += [f"{what}: {was} before, {now} after" for what, (was, now) in self.left.items() if now > was]
        found += [f"blamed: {blame}" for blame in self.blamed]
        return found
