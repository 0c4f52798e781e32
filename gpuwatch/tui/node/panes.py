"""The panes below a node's GPUs: processes, host, topology, health, events; one function builds each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, TypeAlias

from rich.segment import Segment
from rich.style import Style

from gpuwatch.diagnose.health.remedies import remedy_for
from gpuwatch.fleet.nodes.units import MEMORY, RATE
from gpuwatch.number_text import UNKNOWN, bit_rate, seconds_text
from gpuwatch.tui.model.node_summary import NodeView
from gpuwatch.tui.model.severity import Severity
from gpuwatch.tui.node.process_columns import choose
from gpuwatch.tui.toolkit.charts import bar
from gpuwatch.tui.toolkit.lines.rows import Row, heading, note, text_of, wrapped
from gpuwatch.tui.toolkit.lines.selectable_lines import RebuiltPage
from gpuwatch.tui.toolkit.styles import StyleSet, clean, fit
from gpuwatch.tui.toolkit.text import event_clock, event_detail, event_title, evidence_text, link_words
from gpuwatch.wire import NO_PYTHON, Disk, Event, IbPort, Nic, Process

Builder: TypeAlias = "Callable[[NodeView, int, StyleSet, float], list[Row]]"


# --------------------------------------------------------------------------- processes


def _process_order(process: Process) -> tuple[int, int]:
    return (1 << 30 if process.rank is None else process.rank, process.pid)


def _process_style(column: str, process: Process, look: StyleSet) -> Style:
    if column == "state":
        return look.severity["critical"] if process.state in ("D", "Z") else look.dim
    if column == "job":
        return look.dim
    named = column in ("rank", "pid", "user", "gpus") and process.rank is not None
    return look.strong if named else look.text


def processes(
    view: NodeView, width: int, look: StyleSet, now: float, wanted: Sequence[str] = ()
) -> list[Row]:
    """Return the lines of the processes on the node's GPUs, by rank.

    `wanted` names the columns; empty: all.
    """
    node, columns = view.node, choose(width, wanted)
    titles = " ".join(fit(column.title, cells, ">" if column.right else "<") for column, cells in columns)
    rows: list[Row] = [(Segment(fit(f" {titles}", width), look.dim),)]
    for process in sorted(node.processes, key=_process_order):
        row = [Segment(" ")]
        for column, cells in columns:
            text = fit(column.text(process, view), cells, ">" if column.right else "<") + " "
            row.append(Segment(text, _process_style(column.name, process, look)))
        rows.append(tuple(row))
    if not node.processes and node.hello is not None and node.hello.python == NO_PYTHON:
        return [*rows, note("processes not known: no agent runs on the node", look)]
    if not node.processes:
        stated = "no process uses a GPU" if node.processes_at is not None else "no process list yet"
        rows.append(note(stated, look))
    if node.processes_partial:
        rows.append((Segment(f" incomplete: {clean(node.processes_partial)}", look.severity["warning"]),))
    if node.processes_at is not None and now - node.processes_at > 15:
        rows.append(note(f"list is {seconds_text(now - node.processes_at)} old", look))
    return rows


# --------------------------------------------------------------------------- host


def _meter(
    word: str, share: float | None, text: str, width: int, look: StyleSet, *, high: float = 95.0
) -> Row:
    severity: Severity = "warning" if share is not None and share >= high else "ok"
    cells = max(8, min(30, width - 56))
    return (
        Segment(f"  {fit(word, 15)} ", look.dim),
        *bar(None if share is None else share / 100, cells, look, look.severity[severity]),
        Segment(f" {UNKNOWN if share is None else f'{share:.0f}%':>4}  {text}", look.text),
    )


def _share(used: float | None, total: float | None) -> float | None:
    return None if used is None or not total else 100.0 * used / total


def _of(used: float | None, total: float | None) -> str:
    return f"{MEMORY.format(used).strip()} of {MEMORY.format(total).strip()}"


def _rates(rx: float | None, tx: float | None) -> str:
    return f"in {RATE.format(rx)}B/s  out {RATE.format(tx)}B/s"


def _disk_row(disk: Disk, width: int, look: StyleSet) -> Row:
    kind = f"  {clean(disk.filesystem)}" if disk.filesystem else ""
    share = _share(disk.used_bytes, disk.total_bytes)
    return _meter(disk.mount, share, _of(disk.used_bytes, disk.total_bytes) + kind, width, look)


def _nic_row(nic: Nic, look: StyleSet) -> Row:
    down = nic.state not in (None, "up")
    speed = "" if nic.speed_bps is None else f"  {bit_rate(nic.speed_bps * 8 / 1e9)}"
    faults = "".join(f"  {word} {n}" for word, n in (("errors", nic.errors), ("drops", nic.drops)) if n)
    return (
        look.mark("unknown" if down else "ok"),
        Segment(f" {fit(nic.name, 15)} ", look.text),
        Segment(f"{_rates(nic.rx_bps, nic.tx_bps)}{speed}  {clean(nic.state or UNKNOWN)}", look.text),
        Segment(faults, look.severity["warning"]),
    )


def _port_row(port: IbPort, look: StyleSet) -> Row:
    severity: Severity = "unknown" if port.state is None else "ok" if port.state == "ACTIVE" else "critical"
    rate = "" if port.rate_gbps is None else f"  {bit_rate(port.rate_gbps)}"
    faults = "".join(f"  {clean(word)} {n}" for word, n in (port.errors or {}).items() if n)
    return (
        look.mark(severity),
        Segment(f" {fit(f'{port.device}/{port.port}', 15)} ", look.text),
        Segment(f"{_rates(port.rx_bps, port.tx_bps)}{rate}  ", look.text),
        Segment(
            clean(port.state or UNKNOWN), look.severity[severity] if severity == "critical" else look.text
        ),
        Segment(faults, look.severity["warning"]),
    )


def host(view: NodeView, width: int, look: StyleSet, now: float) -> list[Row]:
    """Return the lines of the node's CPU, memory, disks, NICs and InfiniBand ports."""
    node, sample = view.node, view.node.host
    if sample is None:
        return [note("no host sample yet", look)]
    hello = node.hello
    loads = " ".join(
        UNKNOWN if v is None else f"{v:.1f}" for v in (sample.load_1m, sample.load_5m, sample.load_15m)
    )
    cores = f" on {hello.cpu_count} CPUs" if hello and hello.cpu_count else ""
    wait = "" if sample.iowait_pct is None else f"  I/O wait {sample.iowait_pct:.0f}%"
    rows = [
        _meter("CPU", sample.cpu_pct, f"load {loads}{cores}{wait}", width, look),
        _meter(
            "memory",
            _share(sample.memory_used_bytes, sample.memory_total_bytes),
            _of(sample.memory_used_bytes, sample.memory_total_bytes),
            width,
            look,
        ),
        note(" swap            none", look)
        if sample.swap_total_bytes == 0
        else _meter(
            "swap",
            _share(sample.swap_used_bytes, sample.swap_total_bytes),
            _of(sample.swap_used_bytes, sample.swap_total_bytes),
            width,
            look,
            high=50.0,
        ),
    ]
    rows += [_disk_row(disk, width, look) for disk in sample.disks or ()]
    rows += [_nic_row(nic, look) for nic in sample.nics or ()]
    rows += [_port_row(port, look) for port in sample.ib or ()]
    age = "" if node.host_at is None else f"read {seconds_text(max(0.0, now - node.host_at))} ago"
    machine = ", ".join(clean(t) for t in ((hello.cpu_model, hello.os, hello.kernel) if hello else ()) if t)
    return [*rows, *wrapped("  ".join(part for part in (machine, age) if part), width, look.dim)]


# --------------------------------------------------------------------------- topology


def topology(view: NodeView, width: int, look: StyleSet, now: float) -> list[Row]:  # noqa: ARG001 - a Builder
    """Return the lines of the matrix with the kind of link between each two GPUs."""
    hello = view.node.hello
    if hello is None or hello.topology is None:
        return [note("no topology from the driver", look)]
    index = {gpu.info.uuid: gpu.info.index for gpu in view.gpus}
    names = [f"GPU{index.get(uuid, '?')}" for uuid in hello.topology.uuids]
    rows: list[Row] = [(Segment("       " + "".join(fit(n, 6) for n in names), look.dim),)]
    for name, links in zip(names, hello.topology.links, strict=False):
        cells = [Segment(f" {name:<6}", look.dim)]
        for link in links:
            near = link.startswith("NV")
            style = look.dim if link == "X" else look.severity["ok"] if near else look.text
            cells.append(Segment(fit(link, 6), style))
        rows.append(tuple(cells))
    meaning = (
        "NVn: n NVLinks; PIX, PXB: PCIe switches; PHB: host bridge; NODE: same NUMA node; SYS: another one"
    )
    return [*rows, *wrapped(meaning, width, look.dim)]


# --------------------------------------------------------------------------- notices and events


def marked(severity: Severity, text: str, width: int, look: StyleSet) -> list[Row]:
    """Return a sentence after the sign of its severity, in as many lines as needed."""
    first, *more = wrapped(text, width, look.severity[severity], indent=2) or [()]
    return [(look.mark(severity), Segment(text_of(first)[1:], look.severity[severity])), *more]


def notices(view: NodeView, width: int, look: StyleSet, now: float) -> list[Row]:
    """Return the lines of the node's conditions with evidence and remedy, and of what cannot be read."""
    rows: list[Row] = []
    for condition in view.conditions:
        mark: Severity = condition.severity
        rows += marked(mark, condition.sentence, width, look)
        rows += wrapped(evidence_text(condition.evidence, now - view.judged_at), width, look.dim, indent=3)
        if remedy := remedy_for(condition, view.node):
            rows += wrapped(f"{look.glyphs.slope} {remedy}", width, look.text, indent=3)
    hello = view.node.hello
    for notice in hello.notices if hello else ():
        if notice.code in (condition.code for condition in view.conditions):
            continue  # stated above
        rows += marked(notice.severity, notice.text, width, look)
        if notice.remedy:
            rows += wrapped(f"{look.glyphs.slope} {notice.remedy}", width, look.text, indent=3)
    node = view.node
    if node.link.phase != "live" or node.link.reason:
        rows += marked("warning" if node.link.reason else "unknown", link_words(node, now), width, look)
    if node.refused:
        rows += wrapped(f"{node.refused} lines refused, the last: {node.refused_reason}", width, look.dim)
    if node.link.noise:
        rows += wrapped(f"the login shell printed: {node.link.noise}", width, look.dim)
    return rows or [note("no problems detected", look)]


def event_row(event: Event, wall: float, width: int, look: StyleSet, where: str = "") -> list[Row]:
    """Return the lines of an event: time, place `where`, title, detail, and the remedy below.

    `wall`: unix seconds; an event of another day is dated.
    """
    severity: Severity = event.severity
    head = f" {event_clock(event, wall)} {where}"
    title = Segment(f" {clean(event_title(event))}", look.severity[severity])
    rows: list[Row] = [(look.mark(severity), Segment(head, look.dim), title)]
    detail = clean(event_detail(event))
    if len(detail) + 2 + sum(part.cell_length for part in rows[0]) <= width:
        rows[0] = (*rows[0], Segment(f"  {detail}", look.text))
    else:
        rows += wrapped(detail, width, look.dim, indent=3)
    return rows + wrapped(f"{look.glyphs.slope} {event.remedy}", width, look.text, indent=3) * bool(
        event.remedy
    )


def events(view: NodeView, width: int, look: StyleSet, now: float) -> list[Row]:  # noqa: ARG001 - a Builder
    """Return the lines of the node's events, the newest first; those of other days than it are dated."""
    index = {gpu.info.uuid: gpu.info.index for gpu in view.gpus}
    rows: list[Row] = []
    newest = max((event.t for event in view.node.events), default=0.0)
    for event in reversed(view.node.events):
        where = f"GPU {index[event.gpu]}" if event.gpu in index else ""
        rows += event_row(event, newest, width, look, where)
    source = view.node.hello.kernel_log if view.node.hello else None
    missing = "" if source else "; kernel log not readable"
    return rows or [note(f"no events since start{missing}", look)]


def digest(view: NodeView, width: int, look: StyleSet, now: float) -> list[Row]:
    """Return the lines of health, host and events, shown beside the panes of a wide screen."""
    rows: list[Row] = []
    for title, builder in (("Health", notices), ("Host", host), ("Events", events)):
        rows += [heading(title, width, look), *builder(view, width, look, now)]
    return rows


class NodePane(RebuiltPage):
    """One pane of a node, whose lines a function builds."""

    DEFAULT_CSS: ClassVar[str] = "NodePane { height: 1fr; }"

    def __init__(self, name: str, builder: Builder, *, id: str, titled: bool = False) -> None:  # noqa: A002 - textual's
        super().__init__(id=id)
        self.node_name = name
        self._builder = builder
        self.pinned = 1 if titled else 0

    def build(self, width: int) -> list[Row]:
        view = self.cockpit.overview.views.get(self.node_name)
        return [] if view is None else self._builder(view, width, self.look, self.view_state.now)


class ProcessPane(NodePane):
    """The pane of the processes, with the columns that the user selected."""

    table = "processes"

    def __init__(self, name: str) -> None:
        super().__init__(name, processes, id="pane-processes", titled=True)

    def build(self, width: int) -> list[Row]:
        view, wanted = self.cockpit.overview.views.get(self.node_name), self.cockpit.preferences.columns
        if view is None:
            return []
        return processes(view, width, self.look, self.view_state.now, wanted.get(self.table, ()))
