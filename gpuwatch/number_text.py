"""Formats numbers and lists as text: sizes, rates, times, dates, shares, counts, ranges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

UNKNOWN = "-"
"""The text of an unknown value; never 0."""
MIN_GB_PER_S = 0.1
"""Rates below this are given in MB/s where the unit is written."""
MIN_SHOWN_GB_PER_S = 0.0005
"""Smaller rates would round to 0.000."""
AHEAD_S = 60.0
"""A time this far after now is no delay between two clocks: what dated it has a wrong clock."""
SIZE_UNITS = ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K"))


def digits(value: float) -> str:
    """Return three significant digits without trailing zeros, from 100 on a whole number: `24.1`, `4873`."""
    return f"{value:.0f}" if value >= 99.95 else f"{value:.3g}"


def three_digits(value: float) -> str:
    """Return a number >= 0 with decimals that make three digits, at most two: `1.23`, `12.3`, `123`."""
    for limit, places in ((9.995, 2), (99.95, 1)):
        if value < limit:
            return f"{value:.{places}f}"
    return f"{value:.0f}"


def percent(ratio: float) -> str:
    """Return a ratio (0 to 1) as percent: `25 %`; below 10 % with two significant digits."""
    return f"{ratio * 100:.2g} %" if ratio < 0.0995 else f"{ratio * 100:.0f} %"


def share_text(share: float | None) -> str:
    """Return a ratio (0 to 1) as percent: `98%`; a dash for None."""
    return UNKNOWN if share is None else f"{share * 100:.0f}%"


def rate_of(rate: float, reference: float) -> str:
    """Return a rate and its reference as text, `0.6 of 2.4 GB/s`; both in MB/s if the reference is small."""
    unit, factor = ("GB/s", 1.0) if reference >= MIN_GB_PER_S else ("MB/s", 1e3)
    return f"{digits(rate * factor)} of {digits(reference * factor)} {unit}"


def rate_with_unit(gb_per_s: float) -> str:
    """Return a rate (GB/s) with its unit: `2.4 GB/s`; below 0.1 GB/s in MB/s: `24 MB/s`."""
    return f"{digits(gb_per_s)} GB/s" if gb_per_s >= MIN_GB_PER_S else f"{digits(gb_per_s * 1e3)} MB/s"


def bit_rate(gigabits: float) -> str:
    """Return the speed of a network port in 10**9 bits per second, as its maker states it: `400 Gb/s`."""
    return f"{gigabits:g} Gb/s"


def watts_text(watts: float) -> str:
    """Return a power: `640W`, from 1000 W on in three digits `1.23kW`."""
    return f"{watts:.0f}W" if watts < 999.5 else f"{three_digits(watts / 1000)}kW"


def rate_text(gb_per_s: float | None) -> str:
    """Return GB/s (10**9 bytes) without its unit: `392`, `48.7`, `0.024`, `<.001`; a dash for None."""
    if gb_per_s is None:
        return UNKNOWN
    if 0 < gb_per_s < MIN_SHOWN_GB_PER_S:
        return "<.001"
    return f"{gb_per_s:.3f}" if gb_per_s < 0.9995 else three_digits(gb_per_s)


def time_text(seconds: float | None) -> str:
    """Return a time in three digits: `845us`, `12.3ms`, `1.23s`; a dash for None."""
    if seconds is None:
        return UNKNOWN
    for limit, unit, factor in ((0.9995e-3, "us", 1e6), (0.9995, "ms", 1e3)):
        if seconds < limit:
            return three_digits(seconds * factor) + unit
    return three_digits(seconds) + "s"


def step_time_text(seconds: float) -> str:
    """Return a step time (seconds) without unit: `0.312`, `3.20`, `41.5`."""
    return f"{seconds:.3f}" if seconds < 1 else f"{seconds:.2f}" if seconds < 10 else f"{seconds:.1f}"


def duration(seconds: float) -> str:
    """Return a duration in one unit: `0.4 s`, `12 s`, `3 min`, `5 h`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def size_text(size: int) -> str:
    """Return a number of bytes in the format of `--sizes`: `64M`, `512K`, `1.5G`; M is 2^20."""
    for limit, unit in SIZE_UNITS:
        if size >= limit:
            return f"{digits(size / limit)}{unit}"
    return f"{size}B"


def file_size(size: int) -> str:
    """Return a file size in bytes as text: `1.2 GiB`, `340.0 KiB`, `12 bytes`."""
    for limit, unit in SIZE_UNITS:
        if size >= limit:
            return f"{size / limit:.1f} {unit}iB"
    return f"{size} bytes"


def limit_text(size: int) -> str:
    """Return a limit in bytes with at most four significant digits: `64 MiB`, `1.5 GiB`, `100 bytes`."""
    for unit, prefix in ((1 << 40, "T"), *SIZE_UNITS):
        if size >= unit:
            return f"{size / unit:.4g} {prefix}iB"
    return f"{size} bytes"


def gibibytes(size: float) -> str:
    """Return bytes as `79.6 GiB`."""
    return f"{size / (1 << 30):.1f} GiB"


def mebibytes(size: float) -> str:
    """Return bytes in whole units of 2^20: `1,024 MiB`."""
    return f"{size // (1 << 20):,.0f} MiB"


def gigabytes(size: float, places: int = 2) -> str:
    """Return bytes as `12.34 GB`, GB is 10^9."""
    return f"{size / 1e9:.{places}f} GB"


def megabytes(size: float) -> str:
    """Return bytes as `1.8 MB`, MB is 10^6."""
    return f"{size / 1e6:.1f} MB"


def plural(count: int, one: str) -> str:
    """Return a count with its noun, plural by an added s: `1 rank`, `63 ranks`."""
    return f"{count} {one}" if count == 1 else f"{count} {one}s"


def counted(number: int, one: str, many: str = "") -> str:
    """Return a count, with thousands separators, and its noun: `1 node`, `4,096 nodes`.

    `many`: the plural, if it is not made by an added s.
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def some(count: int, every: int, one: str) -> str:
    """Return how many of `every` items are meant: `all 14 links`, `3 of 14 links`, `both links`."""
    if count < every:
        return f"{count} of {every} {one}s"
    if every == 1:
        return f"the {one}"
    return f"both {one}s" if every == 2 else f"all {every} {one}s"


def listed(texts: Sequence[str], most: int = 4, between: str = ", ") -> str:
    """Return the first `most` texts, and how many more there are: `a, b and 3 more`, `a; b; and 3 more`."""
    more = len(texts) - most
    stop = "" if between == ", " else between.rstrip()
    return between.join(texts[:most]) + (f"{stop} and {more} more" if more > 0 else "")


def ranges(numbers: Iterable[int], most: int | None = 6, separator: str = ", ") -> str:
    """Return sorted numbers as ranges, `0-7, 12`; after `most` ranges (None: all) `...` replaces the rest."""
    pieces: list[list[int]] = []
    for number in sorted(set(numbers)):
        if pieces and number == pieces[-1][1] + 1:
            pieces[-1][1] = number
        else:
            pieces.append([number, number])
    texts = [str(low) if low == high else f"{low}-{high}" for low, high in pieces[:most]]
    return separator.join(texts) + ("" if most is None or len(pieces) <= most else f"{separator}...")


def folded(numbers: Iterable[int]) -> str:
    """Return all numbers as ranges in the form of command-line options: `0-7,9,12-15`."""
    return ranges(numbers, None, ",")


def scaled_text(value: float, kilo: int) -> str:
    """Return a number with a prefix, `kilo` (1000 or 1024) per step: `0`, `812`, `1.5k`, `79.6G`, `1024P`."""
    size, prefix = float(value), ""
    for prefix in ("", "k", "M", "G", "T", "P"):
        if abs(size) < 999.5 or prefix == "P":
            break
        size /= kilo
    if not prefix or abs(size) >= 99.95:
        return f"{size:.0f}{prefix}"
    return f"{size:.1f}{prefix}"


def seconds_text(value: float) -> str:
    """Return a duration in one unit, at most four characters: `0.4s`, `12s`, `3m`, `5h`, `2d`."""
    if value < 9.95:
        return f"{value:.1f}s"
    for limit, size, letter in ((99.5, 1, "s"), (5970, 60, "m"), (356_400, 3600, "h")):
        if value < limit:
            return f"{value / size:.0f}{letter}"
    return f"{min(value / 86_400, 999):.0f}d"


def lasting(seconds: float) -> str:
    """Return a duration in seconds, from 100 s on in minutes and seconds: `48s`, `2m05s`."""
    whole = max(0, round(seconds))
    return f"{whole}s" if whole < 100 else f"{whole // 60}m{whole % 60:02}s"


def span_text(seconds: float) -> str:
    """Return a duration in its two largest units: `1d 18h`, `3h 05m`, `4m 10s`; below a minute `42s`."""
    whole = int(seconds)
    for size, small, words in ((86_400, 3600, "dh"), (3600, 60, "hm")):
        if whole >= size:
            return f"{whole // size}{words[0]} {whole % size // small:02}{words[1]}"
    return f"{whole // 60}m {whole % 60:02}s" if whole >= 60 else f"{whole}s"


def age_text(seconds: float) -> str:
    """Return an age as `seconds_text`, but in whole seconds, so that it does not flicker: `7s`, `12m`."""
    return f"{seconds:.0f}s" if seconds < 99.5 else seconds_text(seconds)


def is_ahead(age_s: float) -> bool:
    """Return True if a time of this age in seconds is in the future: the clock that dated it is wrong."""
    return age_s < -AHEAD_S


def ago_text(age_s: float, end: str = " ago") -> str:
    """Return an age in seconds as `7s ago`, or `dated 9d ahead` if `is_ahead`; `end`: instead of ` ago`."""
    if is_ahead(age_s):
        return f"dated {age_text(-age_s)} ahead"
    return f"{age_text(max(0.0, age_s))}{end}"


def moment(at: float) -> str:
    """Return unix seconds as local text with the time zone: `2026-03-11 09:13:32 UTC`."""
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")
