"""Parses Prometheus's text format with limits, since the page is untrusted."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

MAX_SAMPLES = 200_000
MAX_LINE = 8192
MAX_VALUE = 1e18
SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})?[ \t]+(\S+)")
LABEL = re.compile(r'(?<!\w)(\w{1,200})="([^"\\]{0,1024}(?:\\.[^"\\]{0,1024}){0,64})"')
"""A label; its name begins where none stands before it, so that each is tried once."""


class MetricSample(Struct, frozen=True):
    """One sample of a metrics page: name, labels, value."""

    name: str
    labels: dict[str, str]
    value: float


def samples(text: str, prefixes: Sequence[str]) -> Iterator[MetricSample]:
    """Yield the samples whose names have one of the prefixes, up to a limit; invalid lines are skipped."""
    wanted = tuple(prefixes)
    count = 0
    for line in text.split("\n"):
        if not line.startswith(wanted) or len(line) > MAX_LINE:
            continue
        found = SAMPLE.match(line)
        if found is None:
            continue
        name, labels, number = found.groups()
        try:
            value = float(number)
        except ValueError:
            continue
        if not 0.0 <= value <= MAX_VALUE or "_" in number or not number.isascii():
            continue  # no counter, gauge or time of a server; nor is NaN
        yield MetricSample(name, dict(LABEL.findall(labels or "")), value)
        count += 1
        if count >= MAX_SAMPLES:
            return
