"""Screen 5: bandwidth and latency between the ranks of a job, measured on demand, and the culprit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from msgspec.structs import replace
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from gpuwatch.number_text import counted
from gpuwatch.probe.probe_request import ProbeRequest
from gpuwatch.probe.results import Phase, Results
from gpuwatch.tui.chrome.key_hints import KeysLine
from gpuwatch.tui.chrome.status_bar import StatusLine
from gpuwatch.tui.links.body import LinkBody, Pane, Stage, panes
from gpuwatch.tui.links.header import MAX_LINES, LinkHead
from gpuwatch.tui.links.matrix_model import CODES
from gpuwatch.tui.links.new_probe import LinkStart
from gpuwatch.tui.links.probe_view import LinkView
from gpuwatch.tui.model.probe_text import DOING
from gpuwatch.tui.toolkit import keys
from gpuwatch.tui.toolkit.lines.live_screen import LiveScreen, set_height
from gpuwatch.tui.toolkit.lines.selectable_lines import SelectableLines
from gpuwatch.tui.toolkit.styles import clean
from gpuwatch.wire import NOT_RECORDED

FRAME_LINES = 3
"""Lines of the status bar (2) and the footer."""
BEFORE: frozenset[Phase] = frozenset({"connecting", "asking", "refused"})
"""Phases in which only the nodes can be shown."""


class LinksScreen(LiveScreen):
    """The screen of a probe, from its plan to its verdict; leaving it does not stop the probe."""

    kind = "links"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.LINKS]

    def __init__(self, view: LinkView) -> None:
        super().__init__()
        self.view = view
        self.pane: Pane | None = None
        """The pane that the user selected beside or beneath the matrix; None: the first one."""
        self._stage: Stage | None = None
        self._can: object = None
        """The state for which the footer's keys were computed."""
        self._led: int | None = None
        """The probe on whose culprit the cursor was put."""
        self.head = LinkHead(view, id="link-head")
        self.start = LinkStart()
        self.body = LinkBody(view)
        self.matrix, self.cell, self.probes = self.body.matrix, self.body.cell, self.body.probes
        self.evidence, self.inventory = self.body.evidence, self.body.inventory

    def compose(self) -> ComposeResult:
        yield StatusLine(id="status")
        yield self.head
        yield self.start
        yield self.body
        yield KeysLine(self.kind)

    def on_mount(self) -> None:
        if self.view.at is None and self.cockpit.view_state.session.probes:
            self.view.show(len(self.cockpit.view_state.session.probes) - 1)
        self.arrange_parts()

    # ---- what is shown

    def stage(self) -> Stage:
        """Return the stage of the screen: the choice of a probe, the nodes before it, or the results."""
        results = self.view.results
        if results is None:
            return "start"
        measured = results.pairs or results.collectives or results.gpus
        return "inventory" if results.phase in BEFORE or (results.over and not measured) else "results"

    def panes(self) -> tuple[Pane, ...]:
        """Return the panes that the pane key cycles through."""
        return panes(self.size, len(self.cockpit.view_state.session.probes))

    def shown_pane(self) -> Pane:
        """Return the pane that is shown: the user's choice, or the first."""
        some = self.panes()
        return self.pane if self.pane in some else some[0]

    def arrange_parts(self) -> None:
        self.view.refresh()
        stage = self.stage()
        self.head.prepare()
        head = max(1, min(MAX_LINES, self.head.count()))
        set_height(self.head, head)
        self.start.display = stage == "start"
        probes, room = len(self.cockpit.view_state.session.probes), self.size.height - FRAME_LINES - head
        self.body.arrange_parts(stage, self.shown_pane(), self.size, room, probes)
        if stage != self._stage:
            self._stage = stage
            self.call_after_refresh(self._focus_main)
        if (can := (self.running(), len(self.view.board.nodes))) != self._can:
            self._can = can
            self.refresh_bindings()
        self._lead()

    def _focus_main(self) -> None:
        """Focus the part whose Enter key is expected at this stage."""
        results = self.matrix if self.body.left.display else self.evidence
        {"start": self.start, "inventory": self.inventory, "results": results}[self.stage()].focus()

    def _lead(self) -> None:
        """Move the cursor to the worst link after a probe has ended with a bad link, once per probe."""
        results = self.view.results
        if results is None or not results.over or self._led == self.view.at or not self.body.left.display:
            return
        self._led = self.view.at
        worst = self.view.board.worst()
        if worst is not None and CODES[worst.grade] >= CODES["bad"]:
            self.matrix.put_on(worst.pair.src, worst.pair.dst)

    # ---- gestures

    def action_new_probe(self) -> None:
        """Show the choice of a new probe, unless one is running; the old ones stay in the list."""
        probing = self.running()
        if probing is not None:
            self.notify(f"a probe is running; {self.cockpit.key_of('links.cancel')} cancels it", timeout=4)
            return
        self.view.show(None)
        self.pull()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return False for actions of no use now: cancel without a probe, new during one, zoom with one node.

        Other actions are decided as Textual does.
        """
        if action == "cancel_probe":
            return self.running() is not None
        if action == "new_probe":
            return self.running() is None
        if action == "zoom":
            return len(self.view.board.nodes) > 1
        return super().check_action(action, parameters)

    def idle(self) -> frozenset[str]:
        """Return the actions that do nothing now, such as those of the matrix before the results.

        With results, this is only `choose` on a link that cannot be retested.
        """
        stage, idle = self.stage(), {"next_mode", "pane", "zoom"}
        if stage == "results":
            results = self.view.results
            no_retest = self.focused is self.matrix and (
                results is None or self._why_no_retest(results, bool(self.cell.links()))
            )
            return frozenset({"choose"} if no_retest else ())
        return frozenset(idle | {"new_probe"} if stage == "start" else idle)

    def labels(self) -> Mapping[str, str]:
        stage = self.stage()
        return {} if stage == "results" else {"choose": "Set up" if stage == "start" else "Start"}

    def running(self) -> int | None:
        """Return the index in the session's list of the probe that has not ended; None if all have."""
        probes = self.cockpit.view_state.session.probes
        return next((at for at, each in enumerate(probes) if not each.results.over), None)

    def _begin(self, request: ProbeRequest) -> None:
        if self.cockpit.view_state.replay is not None:
            self.notify(f"{NOT_RECORDED}: a probe needs the nodes", timeout=4)
            return
        running = self.running()
        if running is not None:
            self.view.show(running)
            self.notify("this probe is already running", timeout=4)
        else:
            self.cockpit.view_state.session.probe(request)
            self.view.show(len(self.cockpit.view_state.session.probes) - 1)
        self.pull()

    def action_cancel_probe(self) -> None:
        """Cancel the running probe on all nodes; its results so far are kept."""
        running = self.running()
        if running is None:
            return
        self.cockpit.view_state.session.probes[running].cancel()
        self.notify("probe cancelled on all nodes; results so far are kept", timeout=4)
        self.pull()

    def step_back(self) -> bool:
        results, probing = self.view.results, self.view.probing
        if results is not None and probing is not None and results.phase == "asking":
            probing.cancel()
            self.notify(f"not started; {self.cockpit.key_of('links.new')} sets up another probe", timeout=4)
            self.pull()
            return True
        return False

    @on(SelectableLines.Chosen, "#link-start")
    def _choose_request(self) -> None:
        self._begin(self.start.request())

    @on(SelectableLines.Chosen, "#inventory")
    def _answer(self) -> None:
        results, probing, item = self.view.results, self.view.probing, self.inventory.chosen()
        if results is None or probing is None or item is None:
            return
        if item.key == "confirm":
            probing.confirm()
            self.pull()
        elif item.key == "anyway":
            self._begin(replace(results.request, busy_too=True))
        elif item.key == "again":
            self._begin(results.request)

    @on(SelectableLines.Chosen, "#matrix")
    def _retest(self) -> None:
        probing, results = self.view.probing, self.view.results
        links = self.cell.links()
        if probing is None or results is None:
            return
        if refusal := self._why_no_retest(results, bool(links)):
            self.notify(refusal, timeout=4, markup=False)
            return
        probing.retest([(each.pair.src, each.pair.dst) for each in links])
        text = f"{self.matrix.copy_text()}: {counted(len(links), 'link')} retested alone"
        self.notify(clean(text), timeout=4, markup=False)

    def _why_no_retest(self, results: Results, some: bool) -> str:
        if not some:
            return "no link measured here"
        probing = self.view.probing
        if results.phase in ("pairs", "retesting", "gpus") or (probing is not None and probing.keeps_ranks):
            return ""
        return (
            f"the ranks exited: the probe is {DOING[results.phase]}" if results.over else "not measured yet"
        )

    @on(SelectableLines.Chosen, "#evidence")
    def _to_culprit(self) -> None:
        verdict = self.view.results.verdict if self.view.results else None
        culprit = None if verdict is None else self.evidence.culprit(verdict)
        worst = None if culprit is None else self.view.board.worst_of(culprit.name)
        if worst is not None:
            self.matrix.put_on(worst.pair.src, worst.pair.dst)
            self.matrix.focus()

    @on(SelectableLines.Chosen, "#probes")
    def _show_probe(self) -> None:
        self.view.show(self.probes.number())
        self.pull()

    @on(SelectableLines.Moved, "#matrix")
    def _moved(self) -> None:
        self.cell.pull()

    def action_next_item(self, step: int) -> None:
        """Show the probe `step` places further in the session's list, at most the last or first."""
        probes = self.cockpit.view_state.session.probes
        if probes:
            at = len(probes) if self.view.at is None else self.view.at
            self.view.show(max(0, min(at + step, len(probes) - 1)))
            self.pull()

    def action_next_mode(self, step: int) -> None:
        """Show the links as percentages of their peers, as rates, or as latencies."""
        self.matrix.cycle_measure(step)

    def action_zoom(self) -> None:
        """Switch between links of nodes and links of ranks."""
        if len(self.view.board.nodes) > 1:
            self.matrix.turn("ranks" if self.view.view == "nodes" else "nodes")
            self.pull()

    def action_pane(self, step: int) -> None:
        """Show the next pane beside or beneath the matrix."""
        some = self.panes()
        self.pane = some[(some.index(self.shown_pane()) + step) % len(some)]
        self.pull()

    def node_name(self) -> str | None:
        board = self.view.board
        if not board.slots or not self.body.left.display:
            return None
        source = self.matrix.place[0]
        return board.nodes[source] if self.view.view == "nodes" else board.slots[source].node
