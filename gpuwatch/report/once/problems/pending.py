"""Lists the parts that have not answered when a report is due: unknown, neither healthy nor unhealthy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

from msgspec import Struct

from gpuwatch.diagnose.model.text import job_text, ranks_text
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.logs.log_coverage import unlogged
from gpuwatch.fleet.nodes.missing_text import has_no_host_values, has_only_logs, no_answer
from gpuwatch.fleet.nodes.node import Gpu, Node
from gpuwatch.fleet.servers import InferenceServer
from gpuwatch.hosts.names import fold
from gpuwatch.number_text import mebibytes
from gpuwatch.shell_command import command_line, value
from gpuwatch.wire import NO_PYTHON, LogFile

Part: TypeAlias = Literal[
    "node",
    "driver",
    "gpu",
    "host",
    "processes",
    "kernel_log",
    "log_reader",
    "log",
    "log_start",
    "unreadable_log",
    "rank_log",
    "server",
]
BEHIND_BYTES = 1 << 20
"""Maximum number of bytes that may be unread at any moment in a growing file, which is read in pieces."""
GROWS_S = 3.0
"""A file that grew this recently may have an unfinished line that is not searched yet (seconds)."""


class Pending(Struct, frozen=True):
    """A part of a node that is due and has not answered."""

    node: str
    """The name of the node, or of the inference server: `server llama`."""
    part: Part
    text: str
    gpu: Gpu | None = None
    file: LogFile | None = None
    waited_s: float | None = None
    """Seconds for which the part has been waited for."""

    @property
    def may_answer(self) -> bool:
        """True if waiting may help."""
        return self.part not in ("unreadable_log", "rank_log")

    @property
    def place(self) -> str:
        """`node` or `node GPU 3`."""
        return self.node if self.gpu is None else f"{self.node} GPU {self.gpu.info.index}"


def pending(fleet: Fleet, now: float) -> list[Pending]:
    """Return an item for everything that is due and unknown: by node, ranks without a log, servers."""
    nodes = list(fleet.nodes.values())
    found = [each for node in nodes for each in pending_of(node, now)]
    found += _without_log([node for node in nodes if node.state(now) == "live"])
    return found + list(_servers(fleet.servers.servers.values()))


def _servers(servers: Iterable[InferenceServer]) -> Iterator[Pending]:
    """Yield an item for each inference server that has never answered."""
    for server in servers:
        if not server.readings:
            why = "no answer yet" if server.error is None else f"no metrics: {server.error}"
            yield Pending(f"server {server.name}", "server", why)


def _without_log(nodes: Iterable[Node]) -> Iterator[Pending]:
    """Yield an item for each group of ranks whose output is not read: a terminal, /dev/null, another file."""
    for each in unlogged(nodes):
        text = f"no log is followed for {ranks_text(each.ranks)} ({job_text(each.job)})"
        yield Pending(fold(each.nodes), "rank_log", text)


def pending_of(node: Node, now: float) -> Iterator[Pending]:
    """Yield an item for each missing part of one node.

    A lost or stale node has none: its state is a condition of its own.
    """
    if node.state(now) == "connecting":
        waited = None if node.link_at is None else max(0.0, now - node.link_at)
        yield Pending(node.name, "node", "no answer yet", waited_s=waited)
    elif node.state(now) == "live" and node.hello is None:
        yield Pending(node.name, "node", "no answer from the agent yet")
    elif node.state(now) == "live":
        yield from _driver(node, now)
        if node.host_at is None and not has_no_host_values(node):
            yield Pending(node.name, "host", "no host sample yet")
        if lists_processes(node):
            yield from _agent(node)


def _driver(node: Node, now: float) -> Iterator[Pending]:
    if notice := node.driver_starting:
        yield Pending(node.name, "driver", notice.text, waited_s=node.agent_s(now))
    for gpu in node.gpu_list():
        if waited_for(gpu) and gpu.state != "stuck":  # stuck is a finding, with the same weight
            yield Pending(node.name, "gpu", no_answer(gpu, now), gpu, waited_s=gpu.stuck_s(now))


def _agent(node: Node) -> Iterator[Pending]:
    """Yield items for missing parts besides GPUs and host; none about logs if the log reader has failed."""
    notices = {notice.code for notice in node.hello.notices} if node.hello else set()
    if node.processes_at is None:
        yield Pending(node.name, "processes", "no process list yet")
    elif node.processes_partial and not any(gpu.state == "stuck" for gpu in node.gpus.values()):
        yield Pending(node.name, "processes", f"process list incomplete: {node.processes_partial}")
    unread = node.hello is None or (node.hello.kernel_log is None and "kernel_log_unreadable" not in notices)
    if unread and not has_only_logs(node):
        yield Pending(node.name, "kernel_log", "kernel log not read yet")
    if "log_reader_failed" in notices:
        return
    if not node.logs_complete:
        yield Pending(node.name, "log_reader", "log files not found yet")
    for file in unsearched(node):
        if file.searched_from:
            yield Pending(node.name, "log_start", _without_start(file), file=file)
        else:
            yield Pending(node.name, "log", "not searched yet", file=file)
    for file in unreadable(node):
        yield Pending(node.name, "unreadable_log", f"not read: {file.reason or 'unreadable'}", file=file)


def _without_start(file: LogFile) -> str:
    """Return a sentence with the bytes that are not searched, and the command that searches them."""
    first = f"the first {mebibytes(file.searched_from)}"
    text = f"{file.path}: {first} are not searched yet; wait longer (--wait)"
    path = value("log", file.path)
    return (
        text
        if path is None
        else f"{text}, or read it there with `{command_line(['gpuwatch', 'scan', path])}`"
    )


def unsearched(node: Node) -> list[LogFile]:
    """Return the followed files that the agent has not reported as searched to their end.

    A file that grows counts as searched up to `BEHIND_BYTES` before its end.
    """
    return [
        file
        for file in node.logs
        if file.state == "following"
        and (
            file.backlog_pct is not None
            or file.searched_from
            or file.searched_to is None
            or (file.size or 0) - file.searched_to > (BEHIND_BYTES if _grows(node, file) else 0)
        )
    ]


def _grows(node: Node, file: LogFile) -> bool:
    return file.grown_at is not None and node.logs_listed_at - file.grown_at < GROWS_S


def unreadable(node: Node) -> list[LogFile]:
    """Return the logs that the agent may not read, without the kernel log, which has a notice."""
    return [file for file in node.logs if file.state == "unreadable" and file.source != "kernel"]


def lists_processes(node: Node) -> bool:
    """Return True if the node has an agent; nvidia-smi alone (no Python on the node) lists no processes."""
    return node.hello is not None and node.hello.python != NO_PYTHON


def waited_for(gpu: Gpu) -> bool:
    """Return True if a GPU has reported no values yet and is not lost.

    The state may be `stuck`, which a driver that starts without persistence mode looks like.
    """
    return gpu.fast_at is None and gpu.state != "lost"
