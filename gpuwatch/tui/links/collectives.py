"""The table of a probe's collectives, operation by size, and of the tests of each GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar

from rich.segment import Segment

from gpuwatch.number_text import rate_text, size_text, time_text
from gpuwatch.probe.results import CollectiveResult, GpuResult, Results
from gpuwatch.tui.links.probe_view import LinkPage
from gpuwatch.tui.model.probe_text import op_text
from gpuwatch.tui.toolkit.lines.item_page import PageItem
from gpuwatch.tui.toolkit.lines.rows import Row, heading
from gpuwatch.tui.toolkit.styles import clean, fit

LABEL = 15
NARROWEST, WIDEST = 7, 11
LOW_RATIO = 0.9
"""The slowest GPU is named if it is below this fraction of the median of all GPUs."""
CHECKS: tuple[tuple[str, str, float, Callable[[GpuResult], float | None]], ...] = (
    ("matmul", "TFLOP/s", 1e12, lambda gpu: gpu.matmul_flops),
    ("D2D", "GB/s", 1e9, lambda gpu: gpu.copy_bps),
    ("H2D", "GB/s", 1e9, lambda gpu: gpu.h2d_bps),
    ("D2H", "GB/s", 1e9, lambda gpu: gpu.d2h_bps),
)


class LinkTable(LinkPage):
    """The table of a probe's collectives: a row per operation, a column per size; then the per-GPU tests.

    A cell has busbw (GB/s) above the median time.
    """

    DEFAULT_CSS: ClassVar[str] = "LinkTable { height: 8; }"

    def parts_of(self, results: Results, width: int) -> Iterator[Row | PageItem]:
        if results.request.collectives:
            yield heading("Collectives", width, self.look, "busbw GB/s over median time")
            yield from self._collectives(results, width)
        if results.gpus:
            yield heading("Per-GPU tests", width, self.look, "min, median, max")
            for title, unit, scale, read in CHECKS:
                yield from self._check(results, title, unit, scale, read)

    def _collectives(self, results: Results, width: int) -> Iterator[Row | PageItem]:
        look = self.look
        room = max(1, (width - LABEL - 1) // NARROWEST)
        sizes = results.request.sizes[-room:]
        cell = max(NARROWEST, min(WIDEST, (width - LABEL - 1) // len(sizes)))
        names = "".join(size_text(size).rjust(cell - 1) + " " for size in sizes)
        left_out = len(results.request.sizes) - len(sizes)
        corner = f"+{left_out} smaller" if left_out else ""
        yield (Segment(fit(f" {corner}", LABEL), look.dim), Segment(names, look.dim))
        found = {(each.op, each.bytes): each for each in results.collectives}
        for op in results.request.collectives:
            own = [found.get((op, size)) for size in sizes]
            rates, times = [Segment(fit(f" {op_text(op)}", LABEL), look.text)], [Segment(" " * LABEL)]
            for each in own:
                rates += self._rate(each, cell)
                times.append(Segment(self._time(each).rjust(cell - 1) + " ", look.dim))
            stated = "  ".join(self._stated(each) for each in own if each)
            yield PageItem(op, (tuple(rates), tuple(times)), text=f"{op_text(op)}  {stated}")
        yield from self._beneath(results, width)

    def _rate(self, each: CollectiveResult | None, cell: int) -> list[Segment]:
        look, glyphs = self.look, self.look.glyphs
        if each is None:
            return [Segment(glyphs.missing.rjust(cell - 1) + " ", look.track)]
        if each.error is not None:
            return [Segment(glyphs.lost.rjust(cell - 1) + " ", look.severity["critical"])]
        text = rate_text(each.busbw_gb_per_s).rjust(cell - 1)
        if each.correct is False:
            return [Segment(text, look.text), Segment(glyphs.wrong, look.severity["critical"])]
        sign = glyphs.right if each.correct else " "
        return [Segment(text, look.text), Segment(sign, look.severity["ok"])]

    def _time(self, each: CollectiveResult | None) -> str:
        if each is None:
            return ""
        return "failed" if each.error is not None else time_text(each.p50_s)

    def _stated(self, each: CollectiveResult) -> str:
        return f"{size_text(each.bytes)}: {rate_text(each.busbw_gb_per_s)} GB/s, {time_text(each.p50_s)}"

    def _beneath(self, results: Results, width: int) -> Iterator[Row]:
        """Yield the legend of the table's signs, the rate of one NIC, and the errors."""
        look, glyphs = self.look, self.look.glyphs
        legend = f" {glyphs.right} result verified"
        if any(each.correct is False for each in results.collectives):
            legend += f"  {glyphs.wrong} WRONG RESULT"
        best = max(results.collectives, key=lambda each: each.nic_gb_per_s or 0.0, default=None)
        if best is not None and best.nic_gb_per_s:
            nic = f"one NIC carried up to {rate_text(best.nic_gb_per_s)} GB/s"
            legend += f"; {nic}" if len(legend) + len(nic) + 3 < width else ""
        yield (Segment(legend, look.dim),)
        for each in results.collectives:
            if each.error is not None:
                text = f" {glyphs.lost} {op_text(each.op)} {size_text(each.bytes)}: {each.error}"
                yield (Segment(fit(text, width), look.severity["critical"]),)

    def _check(
        self,
        results: Results,
        title: str,
        unit: str,
        scale: float,
        read: Callable[[GpuResult], float | None],
    ) -> Iterator[PageItem]:
        look = self.look
        values = sorted(
            (value / scale, gpu.rank) for gpu in results.gpus.values() if (value := read(gpu)) is not None
        )
        if not values:
            return
        least, median, most = values[0], values[len(values) // 2], values[-1]
        numbers = "".join(rate_text(value).rjust(6) for value, _ in (least, median, most))
        row = [Segment(fit(f" {title}", LABEL + 2), look.text), Segment(numbers, look.text)]
        row.append(Segment(f" {unit}", look.dim))
        if least[0] < LOW_RATIO * median[0]:
            slot = next((slot for slot in results.slots if slot.rank == least[1]), None)
            name = clean(slot.name) if slot else f"rank {least[1]}"
            text = f"  {look.glyphs.down} {name}"
            row.append(Segment(text, look.severity["warning"]))
        yield PageItem(("gpu", title), (tuple(row),))
