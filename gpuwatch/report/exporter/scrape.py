"""Makes the page of one scrape: the most important samples first, so that the limit never drops alerts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from time import perf_counter

from gpuwatch import __version__
from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.diagnose.training.job_view.rank_placement import RankPlacement
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.link.prometheus.series.tier_series import MetricFamily
from gpuwatch.report.delivery.sender import ReceiverStatus
from gpuwatch.report.exporter.alert_metrics import alert_metrics, incident_metrics, receiver_metrics
from gpuwatch.report.exporter.gpu_metrics import dcgm_metrics, gpu_metrics
from gpuwatch.report.exporter.job_metrics import job_facts, job_metrics, rank_metrics
from gpuwatch.report.exporter.node_metrics import node_metrics
from gpuwatch.report.exporter.page import MAX_SERIES, MetricsPage, label

OWN_SERIES = 8
"""Samples reserved for the page's own metrics."""
BUILD = MetricFamily("gpuwatch_build_info", "info", "The version of gpuwatch.")
SERIES_SHOWN = MetricFamily(
    "gpuwatch_exporter_series", "gauge", "Samples in this page, except those about the page itself."
)
SERIES_DROPPED = MetricFamily(
    "gpuwatch_exporter_dropped_series",
    "gauge",
    "Samples left out of this page by the limits of the exporter.",
)
SCRAPES = MetricFamily("gpuwatch_exporter_scrapes_total", "counter", "Pages that were made.")
MAKING = MetricFamily(
    "gpuwatch_exporter_last_page_duration_seconds", "gauge", "Time that making the previous page took."
)


@dataclass
class Scraper:
    """Makes the pages of a session; it keeps where ranks ran, and statistics of the last page."""

    most: int = MAX_SERIES
    """Maximum number of samples per page."""
    dcgm_names: bool = False
    """True to add metrics with dcgm-exporter's names."""
    dropped: int = 0
    """Samples left out of the newest page."""
    scrapes: int = 0
    duration_s: float | None = None
    _placement: RankPlacement = field(default_factory=RankPlacement)

    def page(
        self, fleet: Fleet, book: AlertBook, now: float, wall: float, receivers: Iterable[ReceiverStatus] = ()
    ) -> MetricsPage:
        """Return a page with all current metrics.

        Args:
            fleet: The nodes.
            book: The alerts and incidents.
            now: Monotonic seconds.
            wall: Unix seconds of the same moment.
            receivers: The state of each receiver of alerts.
        """
        began, offset_s = perf_counter(), wall - now
        page = MetricsPage(self.most - OWN_SERIES)
        incident_metrics(page, book)
        alert_metrics(page, book)
        for receiver in receivers:
            receiver_metrics(page, receiver)
        jobs = list(job_facts(fleet, self._placement, now, wall))
        for made in jobs:
            job_metrics(page, made, book.checkpoints, offset_s)
        for node in fleet.nodes.values():
            for gpu in node.gpu_list():
                gpu_metrics(page, node, gpu, now, offset_s)
        for node in fleet.nodes.values():
            node_metrics(page, node, now, offset_s)
        for made in jobs:
            rank_metrics(page, made, offset_s)
        if self.dcgm_names:
            for node in fleet.nodes.values():
                for gpu in node.gpu_list():
                    dcgm_metrics(page, node, gpu, now)
        self._finish(page)
        self.duration_s = perf_counter() - began
        return page

    def _finish(self, page: MetricsPage) -> None:
        self.scrapes += 1
        self.dropped = page.dropped
        shown = self.most - OWN_SERIES - page.room
        page.room = OWN_SERIES
        page.put(BUILD, label("version", __version__), 1)
        page.put(SERIES_SHOWN, "", shown)
        page.put(SERIES_DROPPED, "", self.dropped)
        page.put(SCRAPES, "", self.scrapes)
        page.put(MAKING, "", self.duration_s)
