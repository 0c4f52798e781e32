"""The page before a measurement: what every node has, the plan, and what prevents the probe."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import ClassVar

from rich.segment import Segment

from gpuwatch.hosts.names import fold
from gpuwatch.number_text import bit_rate, counted, lasting, listed, scaled_text, size_text
from gpuwatch.probe.protocol import GpuUser, NodeInventory
from gpuwatch.probe.results import Estimate, ProbedNode, Results
from gpuwatch.tui.links.probe_view import LinkPage, LinkView
from gpuwatch.tui.toolkit.lines.item_page import PageItem, hanging
from gpuwatch.tui.toolkit.lines.rows import Row, heading, wrapped
from gpuwatch.tui.toolkit.styles import clean, fit

LABEL = 14


class PreflightPage(LinkPage):
    """The page before a measurement: the nodes, the plan, what prevents the probe.

    Its first item starts the probe, or queries the nodes again.
    """

    DEFAULT_CSS: ClassVar[str] = "PreflightPage { height: 1fr; }"

    def __init__(self, view: LinkView, *, id: str) -> None:  # noqa: A002 - textual's name
        super().__init__(view, id=id)
        self._asked: object = None
        """The probe and phase for which the cursor was set."""

    def prepare(self) -> None:
        """Put the cursor on the first item when a new page is shown, so that Enter confirms it."""
        results = self.view.results
        asked = (self.view.at, results.phase if results is not None else None)
        if asked != self._asked:
            self._asked, self._on, self.at = asked, None, 0
        super().prepare()

    def parts_of(self, results: Results, width: int) -> Iterator[Row | PageItem]:
        if results.phase == "asking":
            yield from self._question(results, width)
        elif results.phase == "refused":
            yield from self._refusal(results, width)
        if results.estimate is not None:
            yield heading("Plan", width, self.look)
            yield from self._plan(results, results.estimate, width)
        yield from self._busy(results, width)
        yield from self._have(results, width)

    # ---- the answer

    def _choice(self, key: str, text: str, note: str, width: int) -> PageItem:
        look = self.look
        head = (Segment(f" {look.glyphs.slope} ", look.title),)
        rows = hanging(head, text, width, look.strong)
        return PageItem(key, (*rows, *wrapped(note, width, look.dim, indent=3)), text=text)

    def _question(self, results: Results, width: int) -> Iterator[Row | PageItem]:
        about = f"about {lasting(results.estimate.seconds)}" if results.estimate else "now"
        yield ()
        start, cancel, back = map(self.cockpit.key_of, ("move.open", "links.cancel", "app.back"))
        yield self._choice(
            "confirm",
            f"{start}: start the probe, {about}",
            f"{cancel}: cancel it on all nodes within 2 s; {back}: leave. Nothing has been measured yet.",
            width,
        )
        yield ()

    def _refusal(self, results: Results, width: int) -> Iterator[Row | PageItem]:
        yield ()
        start = self.cockpit.key_of("move.open")
        if results.busy:
            yield self._choice(
                "anyway",
                f"{start}: request the probe in spite of these processes",
                "The probe takes GPU memory, time and bandwidth from these processes: they get slower "
                "and may run out of memory.",
                width,
            )
        else:
            yield self._choice("again", f"{start}: query the nodes again", "", width)
        yield ()

    # ---- the plan

    def _fact(self, name: str, text: str, width: int) -> Iterator[Row]:
        if text:
            head = (Segment(fit(f" {name}", LABEL), self.look.dim),)
            yield from hanging(head, text, width, self.look.text)

    def _plan(self, results: Results, estimate: Estimate, width: int) -> Iterator[Row]:
        request = results.request
        yield from self._fact(
            "who", f"{counted(estimate.ranks, 'rank')} on {counted(estimate.nodes, 'node')}", width
        )
        fabric = "NCCL on the GPUs" if estimate.backend == "nccl" else "gloo on CPUs, not the training fabric"
        yield from self._fact("with", f"{fabric}, over {estimate.interface}", width)
        sizes = ", ".join(size_text(size) for size in request.sizes)
        if request.collectives:
            yield from self._fact("collectives", f"{len(request.collectives)} operations at {sizes}", width)
        if estimate.pairs:
            how = "two rounds (finds slow nodes only)" if request.pairs == "quick" else "both directions"
            text = f"{estimate.pairs:,} pairs in {counted(estimate.rounds, 'round')}, {how}"
            yield from self._fact("links", text, width)
        traffic = (
            f", {scaled_text(estimate.traffic_bytes, 1000)}B between nodes" if estimate.traffic_bytes else ""
        )
        at_most = f"{lasting(estimate.seconds)}, {lasting(request.budget_s)} at most{traffic}"
        yield from self._fact("time", at_most, width)

    # ---- the nodes

    def _busy(self, results: Results, width: int) -> Iterator[Row]:
        if not results.busy:
            return
        look = self.look
        users = sum(len(each) for each in results.busy.values())
        who = counted(users, "process", "processes")
        yield heading(f"{who} on the GPUs of {counted(len(results.busy), 'node')}", width, look)
        for node, own in results.busy.items():
            head = (Segment(" "), look.mark("warning"), Segment(" "))
            yield from hanging(head, f"{node}: {_users_text(own)}", width, look.text)

    def _have(self, results: Results, width: int) -> Iterator[Row | PageItem]:
        nodes = list(results.nodes)
        waiting = len(self.view_state.plan.nodes) - len(nodes) if results.phase == "connecting" else 0
        note = f"{waiting} without an answer" if waiting > 0 else ""
        yield heading("Node inventory", width, self.look, note)
        groups: dict[tuple[str, ...], list[ProbedNode]] = {}
        for node in nodes:
            groups.setdefault((node.problem or "", *_facts_of(node)), []).append(node)
        for facts, alike in sorted(groups.items(), key=lambda item: not item[0][0]):
            yield self._alike(facts[1:], alike, width)
        if not nodes:
            yield (Segment(" no node has answered yet", self.look.dim),)

    def _alike(self, facts: tuple[str, ...], alike: list[ProbedNode], width: int) -> PageItem:
        look, problem = self.look, alike[0].problem
        severity = "critical" if problem else "ok"
        named = fold(each.node for each in alike)
        count = f"  {len(alike)} identical" if len(alike) > 1 else ""
        rows: list[Row] = [
            (
                Segment(" "),
                look.mark("critical" if problem else "ok"),
                Segment(f" {clean(named)}", look.strong),
                Segment(count, look.dim),
            )
        ]
        if problem:
            rows += wrapped(problem, width, look.severity[severity], indent=3)
        for fact in facts:
            name, _, text = fact.partition("\0")
            rows += hanging((Segment(fit(f"   {name}", LABEL), look.dim),), text, width, look.text)
        return PageItem(("node", named), tuple(rows), text=clean(named))


def _users_text(users: list[GpuUser]) -> str:
    """Return the processes on a node's GPUs as text, equal ones together.

    `8x python train.py of ana, 576GB (pid 4711, 4712, 4713 and 5 more)`.
    """
    alike: dict[str, list[GpuUser]] = {}
    for user in users:
        who = f" of {user.user}" if user.user else ""
        alike.setdefault(f"{user.name or 'a process'}{who}", []).append(user)
    stated = []
    for who, own in alike.items():
        count = f"{len(own)}x " if len(own) > 1 else ""
        taken = sum(user.memory_bytes or 0 for user in own)
        memory = f", {scaled_text(taken, 1024)}B" if taken else ""
        pids = listed([str(user.pid) for user in own if user.pid])
        stated.append(f"{count}{who}{memory}" + (f" (pid {pids})" if pids else ""))
    return "; ".join(stated)


def _facts_of(node: ProbedNode) -> Iterator[str]:
    """Yield the facts of a node's inventory as `name NUL text`; equal nodes have equal facts.

    Nothing if the node has no inventory.
    """
    inventory = node.inventory
    if inventory is None:
        return
    if inventory.python is None:
        yield "python\0none with torch"
        yield from (f"tried\0{tried}" for tried in inventory.tried[:4])
    else:
        version = f", torch {inventory.torch}" if inventory.torch else ""
        source = (inventory.python_from or "").partition(" (")[0]
        source = "the running job" if source.startswith("process") else source
        yield f"python\0{inventory.python}{version}" + (f"  ({source})" if source else "")
    yield f"GPUs\0{_gpus_text(inventory)}"
    nics = [
        f"{nic.name}{_speed(nic.speed_bps)}{'' if nic.up else ' DOWN'}"
        for nic in inventory.nics
        if nic.name != "lo"
    ]
    if nics:
        yield f"network\0{', '.join(nics)}"
    if inventory.ports:
        yield f"RDMA\0{_ports_text(inventory)}"
    yield from (f"note\0{note}" for note in inventory.notes)


def _gpus_text(inventory: NodeInventory) -> str:
    counts = Counter(gpu.name or "unknown" for gpu in inventory.gpus)
    return ", ".join(f"{count}x {name}" for name, count in counts.items()) or "none"


def _speed(bytes_per_s: float | None) -> str:
    return "" if not bytes_per_s else f" {bit_rate(bytes_per_s * 8 / 1e9)}"


def _ports_text(inventory: NodeInventory) -> str:
    counts = Counter(
        f"{port.link_layer or 'port'} {bit_rate(port.rate_gbps)} {(port.state or '').lower()}".strip()
        if port.rate_gbps
        else f"{port.link_layer or 'port'} {(port.state or '').lower()}".strip()
        for port in inventory.ports
    )
    return ", ".join(f"{count}x {kind}" for kind, count in counts.items())
