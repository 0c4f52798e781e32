"""Selects the lines of `gpuwatch dmon` that are due: one row per GPU and sample, or a text instead."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.nodes.missing_text import without_gpus
from gpuwatch.fleet.nodes.node import STALE_TICKS, Gpu, Node
from gpuwatch.plain import plain
from gpuwatch.report.dmon.columns import Layout
from gpuwatch.report.once.first_report import COLD_S, starting
from gpuwatch.report.once.json_output import node_error
from gpuwatch.report.once.problem_lines import notice_text

HEADER_EVERY = 40
"""Rows between headers."""
QUIET = ("live",)


class DmonStream:
    """Yields each sample of each GPU once as a line. Call `lines` after every poll.

    Args:
        layout: The format of the lines.
        count: Rows per GPU after which it is `done`; None: never.
    """

    def __init__(self, layout: Layout, count: int | None = None) -> None:
        self._layout = layout
        self._count = count
        self._sampled: dict[tuple[str, str], float] = {}
        self._due: dict[tuple[str, str], float] = {}
        self._printed: dict[tuple[str, str], int] = {}
        self._reported: dict[str, tuple[str, ...]] = {}
        self._rows = 0

    def lines(self, fleet: Fleet, now: float, time: float) -> list[str]:
        """Return the lines that are due: comments on nodes, headers, and a row for each new sample of a GPU.

        `now`: our monotonic clock, `time`: the same moment in unix seconds.
        """
        lines: list[str] = []
        for node in fleet.nodes.values():
            lines += self._about(node, now)
            for gpu in node.gpu_list():
                row = self._row(node, gpu, now, time)
                if row is not None:
                    if self._rows % HEADER_EVERY == 0:
                        lines += self._layout.header()
                    self._rows += 1
                    lines.append(row)
        return lines

    def done(self, fleet: Fleet, now: float) -> bool:
        """Return True if every known GPU has had its `count` rows, if any, and no node is still starting.

        A driver that has not answered counts as starting for at most `COLD_S` seconds.
        """
        if self._count is None:
            return False
        nodes = fleet.nodes.values()
        arriving = any(
            node.state(now) == "connecting" or (starting(node, now) and node.agent_s(now) < COLD_S)
            for node in nodes
        )
        return not arriving and all(self._full(gpu) for gpu in fleet.gpus())

    def unanswered(self, fleet: Fleet) -> bool:
        """Return True if a node or its driver has not answered yet, or a GPU has reported no values yet."""
        nodes = fleet.nodes.values()
        return any(node.hello is None or node.driver_starting is not None for node in nodes) or any(
            gpu.fast_at is None for gpu in fleet.gpus()
        )

    def trouble(self, fleet: Fleet, now: float) -> bool:
        """Return True if a node or GPU does not respond now, or an event above `info` was reported."""
        nodes = fleet.nodes.values()
        return any(node.state(now) != "live" or event_texts(node) for node in nodes) or any(
            trouble_text(gpu, fleet.nodes[gpu.node], now) is not None for gpu in fleet.gpus()
        )

    def _full(self, gpu: Gpu) -> bool:
        return self._count is not None and self._printed.get((gpu.node, gpu.info.uuid), 0) >= self._count

    def _about(self, node: Node, now: float) -> list[str]:
        """Return comment lines about a node, each once until it changes; none for a normal start."""
        if node.state(now) == "connecting":
            return []
        texts = node_texts(node, now)
        before = self._reported.get(node.name, QUIET)
        self._reported[node.name] = (*texts, *QUIET) if texts[0] in QUIET else tuple(texts)
        return [f"# {node.name}: {text}" for text in texts if text not in before]

    def _row(self, node: Node, gpu: Gpu, now: float, time: float) -> str | None:
        if self._full(gpu):
            return None
        key = (gpu.node, gpu.info.uuid)
        age = gpu.age(now)
        trouble = trouble_text(gpu, node, now)
        if trouble is not None:
            if now < self._due.get(key, now):
                return None
            text = self._layout.words(node.name, gpu, self._stamp(time), trouble)
        elif gpu.fast_at is None:
            early = starting(node, now) and node.agent_s(now) < COLD_S
            if early or gpu.state != "unanswered" or now < self._due.get(key, now):
                return None
            text = self._layout.row(node.name, gpu, self._stamp(time))
        elif gpu.fast_at is not None and age is not None and self._sampled.get(key) != gpu.fast_at:
            text = self._layout.row(node.name, gpu, self._stamp(time - age))
        else:
            return None
        if gpu.fast_at is not None:
            self._sampled[key] = gpu.fast_at
        self._due[key] = now + node.interval_s
        self._printed[key] = self._printed.get(key, 0) + 1
        return text

    def _stamp(self, time: float) -> str:
        moment = datetime.fromtimestamp(time).astimezone()
        forms: dict[str, Callable[[], str]] = {
            "D": lambda: f"{moment:%Y%m%d}",
            "T": lambda: f"{moment:%H:%M:%S}",
        }
        return "".join(f"{forms[letter]():<12}" for letter in self._layout.stamps)


def node_texts(node: Node, now: float) -> list[str]:
    """Return the node's state (`live`, `live, no GPU`, `lost, <reason>`), then its warnings and events."""
    state, error = node.state(now), node_error(node, now)
    text = f"{state}, {error}" if error else state
    if node.hello is None:
        return [text]
    bare = state == "live" and not node.gpus
    warnings = [
        notice_text(notice)
        for notice in node.hello.notices
        if notice.severity != "info" or notice == node.driver_starting
    ]
    return [f"{text}, {without_gpus(node)}" if bare else text, *warnings, *event_texts(node)]


def event_texts(node: Node) -> list[str]:
    """Return one sentence for each event of a node's driver and kernel above `info`."""
    texts = []
    for event in node.events:
        if event.severity != "info":
            gpu = node.gpus.get(event.gpu or "")
            place = "" if gpu is None else f"GPU {gpu.info.index}: "
            code = f"Xid {event.code}: " if event.event == "xid" else ""
            at = datetime.fromtimestamp(event.t - node.offset_s).astimezone()
            texts.append(plain(f"{event.severity}: {place}{code}{event.title} at {at:%H:%M:%S}"))
    return texts


def trouble_text(gpu: Gpu, node: Node, now: float) -> str | None:
    """Return `stale 12s`, `stuck 5s in <call>`, `lost: <reason>`; None while the GPU responds."""
    if gpu.state == "lost":
        return f"lost: {gpu.reason}" if gpu.reason else "lost"
    if gpu.state == "stuck":
        stuck = gpu.stuck_s(now)
        since = "" if stuck is None else f" {stuck:.0f}s"
        return f"stuck{since} in {gpu.stuck_in}" if gpu.stuck_in else f"stuck{since}"
    age = gpu.age(now)
    if age is not None and age > STALE_TICKS * node.interval_s:
        return f"stale {age:.0f}s"
    return None
