"""Checks of a node as a whole. Each yields the conditions that it finds; unknown values are ignored."""

from __future__ import annotations

from collections.abc import Iterator

from gpuwatch.diagnose.health.lone_gpu import lone_gpu
from gpuwatch.diagnose.model.condition import Condition, Evidence
from gpuwatch.fleet.nodes.node import STALE_TICKS, STARTING, Node
from gpuwatch.fleet.nodes.readings import host_memory_pct
from gpuwatch.hosts.plan import Thresholds
from gpuwatch.number_text import duration, mebibytes, plural
from gpuwatch.plain import plain
from gpuwatch.wire import IbPort, Severity

CLOCK_S = 1.0
"""Clock offset in seconds above which events of different nodes cannot be ordered."""
AGENT_STARTS_S = 20.0
"""Seconds in which a new agent lists processes and searches existing logs; its load then is not lasting."""
AGENT_CPU_PCT, AGENT_RSS_BYTES = 10.0, 200 << 20
"""Percent of a core and bytes from which the agent's use is reported.

They are far above its budget (1 % of a core, 40 MB), so that a short peak does not count.
"""
HOST_FRESH_S = 15.0
FRAMES_LOST_S = 300.0
"""Seconds after which lost frames are no longer reported."""
ALWAYS_FULL = frozenset(("squashfs", "iso9660", "erofs", "cramfs"))
"""Read-only file systems, which are always full."""


def link(node: Node, _thresholds: Thresholds, now: float) -> Iterator[Condition]:
    """Yield a condition if the node is lost, or silent for more than three ticks."""
    state, age = node.state(now), node.age(now)
    if state == "lost":
        reason = node.link.reason or node.bye or "connection lost"
        received = Evidence("never connected") if age is None else Evidence("last sample", age_s=age)
        word = "unreachable" if age is None else "lost"
        yield Condition("node_lost", "critical", f"{word}: {reason}", received)
    elif state == "stale" and age is not None:
        limit = STALE_TICKS * node.interval_s
        text = f"no sample for {duration(age)}"
        yield Condition("node_stale", "warning", text, Evidence("silent for", round(age, 1), " s", limit))


def notices(node: Node, _thresholds: Thresholds, _now: float) -> Iterator[Condition]:
    """Yield a condition for each of the agent's notices about the whole node, except informational ones."""
    for notice in node.hello.notices if node.hello else ():
        if notice.severity != "info":
            evidence = Evidence(notice.remedy or "agent")
            yield Condition(notice.code, notice.severity, notice.text, evidence)


def identity(node: Node, _thresholds: Thresholds, _now: float) -> Iterator[Condition]:
    """Yield a condition if the node reports another node's host name, or ranks that another node has too.

    Also if too many processes claim one rank.
    """
    if node.taken_host is not None and node.hello is not None:
        evidence = Evidence("host name it reports", node.hello.host)
        text = f"the agent reports host {node.taken_host}, which is another node"
        yield Condition("host_name_taken", "warning", text, evidence)
    if node.rivals:
        rank, other = min(node.rivals.items())
        text = f"{plural(len(node.rivals), 'rank')} run on another node too: rank {rank} on {other}"
        yield Condition("ranks_claimed_twice", "warning", text, Evidence("ranks", len(node.rivals), "", 0))
    if node.crowded_ranks:
        rank, count = max(node.crowded_ranks.items(), key=lambda each: each[1])
        text = f"{count} processes claim rank {rank} of one job: not all of them are compared"
        yield Condition("ranks_crowded", "warning", text, Evidence("processes", count, "", 0))


def missing_gpus(node: Node, _thresholds: Thresholds, now: float) -> Iterator[Condition]:
    """Yield a condition if the driver lists fewer GPUs than expected (7 of 8).

    A GPU that was seen and lost has a condition of its own. Nothing is yielded for a lost node or one whose
    agent is starting.
    """
    if node.hello is None or node.state(now) == "lost":
        return
    reported = {notice.code: notice.severity for notice in node.hello.notices}
    if STARTING in reported:
        return
    if "gpu_missing" in reported or (not node.gpus and set(reported.values()) - {"info"}):
        expected = node.spec.slots if reported.get("gpu_missing") == "info" else None
    else:
        expected = node.gpus_expected()
    if expected and len(node.gpus) < expected:
        found = f"the driver lists {len(node.gpus)} of {expected} GPUs"
        evidence = Evidence("GPUs listed by the driver", len(node.gpus), "", expected)
        yield Condition("gpu_missing", "critical", found, evidence)


def clock(node: Node, _thresholds: Thresholds, _now: float) -> Iterator[Condition]:
    """Yield a condition if the clock offset of a node exceeds CLOCK_S, or is not known to within CLOCK_S."""
    if node.clock is None:
        return
    off, error = node.clock.offset_s, node.clock.error_s
    if abs(off) - error > CLOCK_S:
        text = f"clock {abs(off):.1f} s {'ahead' if off > 0 else 'behind'}: check its time service"
        yield Condition("clock_off", "warning", text, Evidence("clock off by", round(off, 3), " s", CLOCK_S))
    elif error > CLOCK_S:
        text = "clock not comparable: the round trip takes too long"
        yield Condition("clock_unsure", "info", text, Evidence("error", round(error, 3), " s", CLOCK_S))


def scheduler(node: Node, _thresholds: Thresholds, _now: float) -> Iterator[Condition]:
    """Yield a condition if the scheduler gives the node no new jobs: it is drained, or down."""
    standing = node.standing
    if standing is None or not standing.is_out:
        return
    severity: Severity = "warning" if standing.is_broken else "info"
    why = f": {plain(standing.reason)}" if standing.reason else ""
    text = f"{standing.scheduler} state {plain(standing.state)}{why}"
    yield Condition("scheduler_state", severity, text, Evidence("state", plain(standing.state)))


def host(node: Node, thresholds: Thresholds, now: float) -> Iterator[Condition]:
    """Yield a condition for host memory and disks that are almost full, and for fabric ports down.

    Nothing if the host's values are missing or too old.
    """
    if (
        node.host is None
        or node.host_at is None
        or now - node.host_at > max(HOST_FRESH_S, 3 * node.interval_s)
    ):
        return
    age = now - node.host_at
    used = host_memory_pct(node.host)
    if used is not None and used >= thresholds.memory_pct:
        evidence = Evidence("host memory", round(used, 1), " %", thresholds.memory_pct, age)
        yield Condition("host_memory", "warning", f"host memory {used:.1f} % full", evidence)
    for disk in node.host.disks or ():
        if disk.filesystem in ALWAYS_FULL or disk.used_bytes is None or not disk.total_bytes:
            continue
        full = 100.0 * disk.used_bytes / disk.total_bytes
        if full >= thresholds.disk_pct:
            disks_age = None if node.disks_at is None else now - node.disks_at
            evidence = Evidence(f"disk {disk.mount}", round(full, 1), " %", thresholds.disk_pct, disks_age)
            yield Condition("disk_full", "warning", f"{disk.mount} {full:.0f} % full", evidence)
    for port in node.host.ib or ():
        yield from fabric_port(port, age)


def fabric_port(port: IbPort, age: float) -> Iterator[Condition]:
    """Yield a warning for a port that is not active, or `info` if it was never up since boot.

    A port that was never up is probably not cabled. `age`: age of the port's state in seconds.
    """
    if port.state is None or port.state == "ACTIVE":
        return
    fell = port.state != "DOWN" or bool((port.errors or {}).get("link_downed"))
    severity: Severity = "warning" if fell else "info"
    name = f"{port.device}/{port.port}"
    evidence = Evidence(f"port {name}", port.state, "", "ACTIVE", age)
    yield Condition("ib_down", severity, f"fabric port {name} is {port.state}", evidence)


def agent(node: Node, _thresholds: Thresholds, now: float) -> Iterator[Condition]:
    """Yield a condition for the agent's high CPU or memory use, lost frames, or a partial process list."""
    refused_s = since(node.refused_at, now)
    if refused_s is not None and refused_s <= FRAMES_LOST_S:
        evidence = Evidence("frames refused", node.refused, "", 0, refused_s)
        yield Condition("frames_refused", "info", f"frames refused: {node.refused_reason}", evidence)
    if node.processes_partial:
        evidence = Evidence(node.processes_partial)
        yield Condition("processes_partial", "info", "the process list is incomplete", evidence)
    cost = node.cost
    if cost is None:
        return
    connected_s = since(node.link_at, now)
    settled = connected_s is None or connected_s >= AGENT_STARTS_S
    if cost.cpu_pct is not None and cost.cpu_pct > AGENT_CPU_PCT and settled:
        evidence = Evidence("agent CPU", cost.cpu_pct, " % of a core", AGENT_CPU_PCT)
        yield Condition("agent_cost", "warning", f"the agent uses {cost.cpu_pct:.0f} % of a core", evidence)
    if cost.rss_bytes is not None and cost.rss_bytes > AGENT_RSS_BYTES:
        evidence = Evidence("agent memory", cost.rss_bytes >> 20, " MiB", AGENT_RSS_BYTES >> 20)
        yield Condition("agent_cost", "warning", f"the agent uses {mebibytes(cost.rss_bytes)}", evidence)
    dropped_s = since(node.dropped_at, now)
    if dropped_s is not None and dropped_s <= FRAMES_LOST_S:
        evidence = Evidence("frames dropped", cost.dropped, "", 0, dropped_s)
        yield Condition("agent_behind", "info", "the connection is too slow for all frames", evidence)


def since(at: float | None, now: float) -> float | None:
    """Return the seconds since a time of our monotonic clock; None: never."""
    return None if at is None else max(0.0, now - at)


CHECKS = (link, notices, scheduler, identity, missing_gpus, clock, host, agent, lone_gpu)
