"""Chooses which exporter is believed about a node, where several state its name.

An exporter writes any name into its labels; the address (`instance`) is that of Prometheus. Two addresses are
also those of one exporter whose pod was started anew, or that two scrape configurations read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from gpuwatch.link.prometheus.vocabularies import host_of

MAX_SCRAPE_LAG_S = 90.0
"""Seconds by which the scrapes of an exporter may be older than those of another one that takes its place."""


class ExporterChoice:
    """Chooses, for each node, the exporter whose values are used: the same as before while it is scraped.

    Else the one with the node's name as its host, else the one that names the fewest nodes.
    """

    def __init__(self) -> None:
        self._exporters: dict[str, str] = {}

    def update(self, claims: Iterable[tuple[str, str, float]]) -> bool:
        """Choose the exporter of every node; return True if a choice changed, or nodes came or went.

        `claims`: node, exporter (`instance`), time of its last scrape (unix seconds).
        """
        before = self._exporters
        scraped: dict[str, dict[str, float]] = {}
        for node, exporter, at in claims:
            known = scraped.setdefault(node, {})
            known[exporter] = max(at, known.get(exporter, at))
        named = Counter(exporter for exporters in scraped.values() for exporter in exporters)

        def rank(node: str, exporter: str) -> tuple[bool, int, str]:
            is_host = host_of(exporter).partition(".")[0] == node.partition(".")[0]
            return not is_host, named[exporter], exporter

        self._exporters = {}
        for node, times in scraped.items():
            known_before = before.get(node)
            if (
                known_before is not None
                and times.get(known_before, 0.0) >= max(times.values()) - MAX_SCRAPE_LAG_S
            ):
                self._exporters[node] = known_before
            else:
                self._exporters[node] = min(times, key=lambda each: rank(node, each))
        return self._exporters != before

    def is_believed(self, node: str, exporter: str) -> bool:
        """Return True if this exporter is the one chosen for the node."""
        return self._exporters.get(node) == exporter
