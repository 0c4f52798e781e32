"""Texts on nodes, GPUs and events, such as why values are not current."""

from __future__ import annotations

from collections import Counter

from gpuwatch.diagnose.model.condition import Evidence
from gpuwatch.diagnose.model.text import clock, ranks_text
from gpuwatch.fleet.nodes.last_ranks import ended_on_node, ended_ranks, ranks_on
from gpuwatch.fleet.nodes.missing_text import no_answer, without_gpus
from gpuwatch.fleet.nodes.node import Gpu, Node
from gpuwatch.fleet.nodes.units import MEMORY
from gpuwatch.number_text import age_text
from gpuwatch.tui.model.severity import Severity
from gpuwatch.wire import Event


def since_s(gpu: Gpu, now: float) -> float | None:
    """Return the seconds since a GPU stopped answering, by its stuck call or last values, None if unknown."""
    stuck = gpu.stuck_s(now) if gpu.state in ("stuck", "unanswered") else None
    return gpu.age(now) if stuck is None else stuck


def evidence_text(evidence: Evidence, late_s: float) -> str:
    """Return the evidence as text with its age; `late_s` are the seconds since it was judged."""
    if evidence.age_s is None:
        return evidence.text
    return f"{evidence.text}, {age_text(evidence.age_s + late_s)} ago"


def trouble_severity(gpu: Gpu) -> Severity:
    """Return the severity of a GPU that does not answer: "unknown" in state `unanswered`, else "critical"."""
    return "unknown" if gpu.state == "unanswered" else "critical"


def trouble_of(gpu: Gpu, now: float) -> str:
    """Return the state of a GPU that does not answer, in words; "" if it does."""
    since = since_s(gpu, now)
    lasted = "" if since is None else f" for {age_text(since)}"
    if gpu.state == "stuck":
        return f"STUCK in {gpu.stuck_in or 'a driver call'}{lasted}"
    if gpu.state == "unanswered":
        return no_answer(gpu, now)
    return f"LOST{lasted}: {gpu.reason or 'not responding'}" if gpu.state == "lost" else ""


def attempt_words(node: Node, now: float) -> str:
    """Return `next attempt in 12s` while the link waits, `attempt 3` from the second attempt on, else ""."""
    link = node.link
    if link.phase == "live":
        return ""
    if link.retry_at is not None and link.retry_at > now:
        return f"next attempt in {age_text(max(1.0, link.retry_at - now))}"
    return f"attempt {link.attempt}" if link.attempt > 1 else ""


def link_words(node: Node, now: float) -> str:
    """Return why a node's link is not live and what happens next, as a sentence; "" if it has no problem."""
    parts = (
        node.link.reason or ("connecting" if node.link.phase == "connecting" else ""),
        attempt_words(node, now),
    )
    return "; ".join(part for part in parts if part)


def absent_words(node: Node) -> str:
    """Return why a node shows no GPU, in a few words."""
    if node.hello is None:
        return "unreachable" if node.link.reason else "connecting"
    words = without_gpus(node)
    return "no NVIDIA GPU, host metrics only" if words == "no GPU" else words


def models(node: Node) -> str:
    """Return the GPU models with their numbers, the most frequent first: `8x NVIDIA H100 80GB HBM3`."""
    counted = Counter(gpu.info.name or "not known yet" for gpu in node.gpu_list())
    return ", ".join(f"{number}x {name}" for name, number in counted.most_common())


def event_clock(event: Event, wall: float) -> str:
    """Return the event's time, by the node's clock, as local `12:03:11`, dated if `wall` is another day."""
    return clock(event.t, wall)


def event_title(event: Event) -> str:
    """Return the event's title with its Xid and count: `Xid 79: GPU has fallen off the bus x2`."""
    xid = f"Xid {event.code}: " if event.event == "xid" and event.code is not None else ""
    return f"{xid}{event.title}" + (f" x{event.count}" if event.count > 1 else "")


def event_detail(event: Event) -> str:
    """Return what an event's detail adds to its title: `pid 10` of `pid 10 ended by signal 15`, or "".

    If detail and title end with the same words, two or more, these are left out.
    """
    title, detail = event.title.split(), (event.detail or "").split()
    same = 0
    while same < min(len(title), len(detail)) and title[-1 - same] == detail[-1 - same]:
        same += 1
    return " ".join(detail[: len(detail) - same]) if same > 1 else event.detail or ""


def memory_text(used: float | None, total: float | None) -> str:
    """Return used and total bytes as `61.2G/80.0G`; a dash for an unknown one."""
    return f"{MEMORY.format(used).strip()}/{MEMORY.format(total).strip()}"


def memory_of(gpu: Gpu) -> str:
    """Return a GPU's used and total memory as `61.2G/80.0G`."""
    fast = gpu.fast
    total = (fast.memory_total_bytes if fast else None) or gpu.info.memory_total_bytes
    return memory_text(fast.memory_used_bytes if fast else None, total)


def rank_text(node: Node, gpu: Gpu, now: float) -> tuple[str, bool]:
    """Return (text, True) for ranks that run on a GPU, such as `85`.

    Else (text, False) for the last ranks, such as `85, seen 12s ago`; "" if none is known.
    """
    if ranks := ranks_on(node, gpu.info.uuid):
        return ",".join(map(str, ranks)), True
    ended = ",".join(map(str, ended_ranks(node, gpu)))
    since = "" if gpu.last_ranks_at is None else f", seen {age_text(max(0.0, now - gpu.last_ranks_at))} ago"
    return f"{ended}{since}" if ended else "", False


def ended_on_node_text(node: Node, now: float) -> str:
    """Return the ended ranks of a node without GPUs, such as `ranks 0-2, seen 12s ago`; "" if it has none."""
    seen: dict[str, list[int]] = {}
    for rank, at in sorted(ended_on_node(node).items()):
        seen.setdefault(age_text(max(0.0, now - at)), []).append(rank)
    return "; ".join(f"{ranks_text(ranks)}, seen {age} ago" for age, ranks in seen.items())
