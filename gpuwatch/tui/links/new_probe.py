"""The pages to choose a new probe, and to select one of this session's probes."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style

from gpuwatch.diagnose.model.text import clock
from gpuwatch.number_text import counted
from gpuwatch.probe.judging.links.links import BAD_RATIO, OK_RATIO
from gpuwatch.probe.probe_request import ProbeRequest
from gpuwatch.tui.links.matrix_cells import CALM_STEP, sign
from gpuwatch.tui.links.probe_view import LinkView
from gpuwatch.tui.model.probe_text import sentence_of, standing_of
from gpuwatch.tui.toolkit.lines.item_page import ItemPage, PageItem, hanging
from gpuwatch.tui.toolkit.lines.rows import Row, heading, wrapped
from gpuwatch.tui.toolkit.styles import StyleSet, fit

WIDE_COLUMNS = 70
REQUESTS: tuple[tuple[str, str, str, ProbeRequest], ...] = (
    (
        "full",
        "Everything",
        "collectives at five sizes, every link between nodes and inside them, a test of each GPU: names the "
        "slow node, NIC, direction or link",
        ProbeRequest(),
    ),
    (
        "quick",
        "Quick",
        "collectives and two rounds of pairs: finds a slow node, as fast with many nodes as with few",
        ProbeRequest(pairs="quick", gpu_checks=False),
    ),
    (
        "collectives",
        "Collectives",
        "collectives only, no verdict on links",
        ProbeRequest(pairs="none"),
    ),
)


class LinkStart(ItemPage):
    """The list of the kinds of probe, with descriptions and a legend of the matrix."""

    DEFAULT_CSS: ClassVar[str] = "LinkStart { height: 1fr; }"

    def __init__(self) -> None:
        super().__init__(id="link-start")

    def made_for(self) -> Hashable:
        return len(self.view_state.plan.nodes)

    def parts(self, width: int) -> Iterator[Row | PageItem]:
        look, nodes = self.look, len(self.view_state.plan.nodes)
        text = (
            f"A probe starts torch ranks on {counted(nodes, 'node')}, measures bandwidth and latency between "
            "them and names what is slow and why. It first queries the nodes and shows a plan; nothing is "
            "measured before you confirm, and nothing is left on the nodes."
        )
        yield from wrapped(text, width, look.text)
        yield ()
        for key, name, note, _ in REQUESTS:
            head = (Segment(fit(f" {name}", 14), look.title),)
            yield PageItem(key, hanging(head, note, width, look.text), text=name)
        yield ()
        yield heading("Legend", width, look)
        yield from legend(width, look)

    def request(self) -> ProbeRequest:
        """Return the probe request under the cursor; without a cursor, the full probe."""
        item = self.chosen()
        return next((request for key, _, _, request in REQUESTS if item and key == item.key), REQUESTS[0][3])


def legend(width: int, look: StyleSet) -> Iterator[Row]:
    """Yield the legend of the matrix. A link is compared with the 90th percentile of its class."""
    cells: tuple[tuple[str, Style, str], ...] = (
        (
            " 98 ",
            look.ramp[CALM_STEP],
            f"ok: at least {OK_RATIO:.0%} of the 90th percentile of its link class",
        ),
        (f" 81{sign('low', look)}", look.badge["warning"], f"low: {BAD_RATIO:.0%} to {OK_RATIO:.0%} of that"),
        (f" 26{sign('bad', look)}", look.badge["critical"], f"bad: under {BAD_RATIO:.0%}; retested alone"),
        (
            f" 63{sign('noisy', look)}",
            look.severity["warning"],
            "noisy: repeats differ too much",
        ),
        (f"  {sign('dead', look)} ", look.badge["critical"], "dead: no data got through; the error is shown"),
        (f"  {look.glyphs.testing} ", look.brand, "being measured now"),
        (f"  {look.glyphs.missing} ", look.track, "not measured"),
    )
    for text, style, meaning in cells:
        yield from hanging((Segment(" "), Segment(text, style), Segment("  ")), meaning, width, look.text)


class LinkProbes(ItemPage):
    """The list of the session's probes, the newest first."""

    DEFAULT_CSS: ClassVar[str] = "LinkProbes { height: 3; }"

    def __init__(self, view: LinkView) -> None:
        super().__init__(id="probes")
        self.view = view

    def made_for(self) -> Hashable:
        return self.view.at, tuple(each.results.version for each in self.view_state.session.probes)

    def parts(self, width: int) -> Iterator[Row | PageItem]:
        look, wall = self.look, self.view_state.wall()
        probes = list(self.view_state.session.probes)
        opens, new = self.cockpit.key_of("move.open"), self.cockpit.key_of("links.new")
        ways = f"{opens} shows a probe, {new} sets up a new one" if width >= WIDE_COLUMNS else ""
        yield heading("Probes of this session", width, look, ways)
        for number, probing in reversed(list(enumerate(probes))):
            results = probing.results
            severity, word = standing_of(results)
            here = look.glyphs.cursor if number == self.view.at else " "
            nodes = len({slot.node for slot in list(results.slots)}) or len(results.nodes)
            size = f"{counted(nodes, 'node'):>9}  " if width >= WIDE_COLUMNS else ""
            head = [
                Segment(here, look.title),
                look.mark(severity),
                Segment(f" {number + 1:>2}  {clock(results.started, wall)}  {size}", look.dim),
                Segment(f"{word:<9} ", look.severity[severity]),
            ]
            room = width - sum(part.cell_length for part in head)
            yield PageItem(number, ((*head, Segment(fit(sentence_of(results), room), look.text)),))

    def number(self) -> int | None:
        """Return the index in the session's list of the probe under the cursor; None without probes."""
        item = self.chosen()
        return item.key if item is not None and isinstance(item.key, int) else None
