"""Numbers of a verdict as text: percentages, rates and counts."""

from __future__ import annotations

WORTH_GB = 0.1
"""Rates below this many GB/s are given in MB/s."""


def percent(ratio: float) -> str:
    """`25 %`; below 10 % with one more digit."""
    return f"{ratio * 100:.2g} %" if ratio < 0.0995 else f"{ratio * 100:.0f} %"


def rate_of(rate: float, reference: float) -> str:
    """`0.6 of 2.4 GB/s`; both in MB/s if the reference is small."""
    unit, factor = ("GB/s", 1.0) if reference >= WORTH_GB else ("MB/s", 1e3)
    return f"{digits(rate * factor)} of {digits(reference * factor)} {unit}"


def rate_text(gb_per_s: float) -> str:
    """`2.4 GB/s`, `24 MB/s`."""
    return f"{digits(gb_per_s)} GB/s" if gb_per_s >= WORTH_GB else f"{digits(gb_per_s * 1e3)} MB/s"


def digits(value: float) -> str:
    """Three significant digits: 0.6, 24.1, 392."""
    return f"{value:.0f}" if value >= 99.95 else f"{value:.3g}"


def three_digits(value: float) -> str:
    """Decimals to fill three digits: 1.23, 12.3, 123."""
    for limit, places in ((9.995, 2), (99.95, 1)):
        if value < limit:
            return f"{value:.{places}f}"
    return f"{value:.0f}"


def time_text(seconds: float) -> str:
    """Three digits: `845us`, `12.3ms`, `1.23s`."""
    for limit, unit, factor in ((0.9995e-3, "us", 1e6), (0.9995, "ms", 1e3)):
        if seconds < limit:
            return three_digits(seconds * factor) + unit
    return three_digits(seconds) + "s"


def plural(count: int, one: str) -> str:
    """`1 link`, `56 links`."""
    return f"{count} {one}" if count == 1 else f"{count} {one}s"


def some(count: int, every: int, one: str) -> str:
    """`all 14 links`, `3 of 14 links`, `both links`, `the link`."""
    if count < every:
        return f"{count} of {every} {one}s"
    if every == 1:
        return f"the {one}"
    return f"both {one}s" if every == 2 else f"all {every} {one}s"


def size_text(size: int) -> str:
    """A buffer's size in the format of `--sizes`, M is 2^20 bytes: `64M`, `512K`, `1.5G`."""
    for limit, unit in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if size >= limit:
            return f"{digits(size / limit)}{unit}"
    return f"{size}B"


def listed(names: list[str], most: int = 4) -> str:
    """`a, b, c, d and 3 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
