"""Checks of one GPU. Each yields the conditions that it finds; unknown or stale values are ignored."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuwatch.agent.gpu.sampling_tiers import RECOVERY_WORDS
from gpuwatch.diagnose.model.condition import Condition, Evidence
from gpuwatch.fleet.nodes.metrics import METRICS, slowdown_c
from gpuwatch.fleet.nodes.missing_text import no_answer
from gpuwatch.fleet.nodes.node import STALE_TICKS, Gpu, Node, Tiers
from gpuwatch.fleet.nodes.readings import memory_pct
from gpuwatch.hosts.plan import Thresholds
from gpuwatch.number_text import duration
from gpuwatch.wire import GpuFast, GpuMedium, GpuSlow, Severity

LOAD_PCT = 30.0
"""Utilization in percent above which the PCIe link must be at full width.

An idle GPU narrows it on purpose.
"""
LOAD_KNOWN_S = 900.0
"""Seconds for which the history keeps single seconds; whether a GPU was busy before that is unknown."""
SLOWED_BY: dict[str, tuple[Severity, str]] = {
    "hw_thermal": ("critical", "thermal throttling (HW thermal slowdown)"),
    "power_brake": ("critical", "power brake slowdown (HW power brake)"),
    "sw_thermal": ("warning", "thermal throttling (SW thermal slowdown)"),
}
RECOVERY: dict[str, Severity] = {"drain_p2p": "warning"}


@dataclass(slots=True)
class GpuCase:
    """A GPU, its node, and those of its tiers that are fresh."""

    gpu: Gpu
    node: Node
    thresholds: Thresholds
    now: float
    fast: GpuFast | None
    medium: GpuMedium | None
    slow: GpuSlow | None

    @classmethod
    def of(cls, gpu: Gpu, node: Node, thresholds: Thresholds, now: float) -> GpuCase:
        """Return the case of a GPU, without tiers older than three of their periods; a lost GPU has none."""
        tiers = Tiers() if gpu.state == "lost" else gpu.of_late(node.interval_s, now)
        return cls(gpu, node, thresholds, now, *tiers)

    @property
    def is_overdue(self) -> bool:
        """Return True if the connected agent has reported for over 3 ticks without values of this GPU.

        The time since its last frame does not count: then the link is silent, and not the GPU.
        """
        heard_at, read_at = self.node.received_at, self.gpu.fast_at
        if heard_at is None or read_at is None:
            return False
        return heard_at - max(read_at, self.node.agent_since) > STALE_TICKS * self.node.interval_s

    def states(self, code: str, severity: Severity, text: str, evidence: Evidence) -> Condition:
        """Return a condition of this GPU with this code, severity, text and evidence."""
        return Condition(code, severity, text, evidence, self.gpu.info.index)

    def age(self, metric: str) -> float | None:
        """Return the age of a metric's tier in seconds; None: never read."""
        return METRICS[metric].age(self.gpu, self.now)


ONLY_LOST = "GPU is lost"
"""The driver's text for a lost GPU if it reports nothing more specific."""


def presence(case: GpuCase) -> Iterator[Condition]:
    """Yield a condition if the GPU is lost, stuck in a driver call, or has not answered yet.

    Also if it has no fresh values although its node is live.
    """
    gpu, age = case.gpu, case.gpu.age(case.now)
    if gpu.state == "lost":
        last = "never responded" if age is None else "the driver returns no values; last values"
        reason = "the driver cannot reach it" if gpu.reason == ONLY_LOST else gpu.reason
        text = f"lost: {reason or 'not responding'}"
        yield case.states("gpu_lost", "critical", text, Evidence(last, age_s=age))
    elif gpu.state == "stuck":
        seconds = gpu.stuck_s(case.now)
        text = f"stuck in {gpu.stuck_in or 'a driver call'}"
        if seconds is not None:
            text += f" for {duration(seconds)}"
        last = "the call has not returned; last values"
        yield case.states("gpu_stuck", "critical", text, Evidence(last, age_s=age))
    elif gpu.state == "unanswered":
        yield case.states("gpu_unanswered", "info", no_answer(gpu, case.now), Evidence("values", "none yet"))
    elif case.fast is None and age is not None and case.node.state(case.now) == "live" and case.is_overdue:
        limit = STALE_TICKS * case.node.interval_s
        yield case.states(
            "gpu_stale", "warning", "no values while its node reports", Evidence("values", age, " s", limit)
        )


def unreadable(case: GpuCase) -> Iterator[Condition]:
    """Yield a condition if the driver answers but cannot read the utilization."""
    why = case.gpu.missing.get("utilization_pct", "")
    if case.fast is not None and case.fast.utilization_pct is None and why.startswith("error"):
        yield case.states(
            "values_unreadable", "warning", f"utilization not readable: {why}", Evidence("NVML", why)
        )


def temperature_text(degrees: float, slowdown: float | None, limit: float) -> str:
    """Return the temperature against the GPU's slowdown threshold, or `limit` if it has none (all in C)."""
    if slowdown is None:
        return f"{degrees:.0f} C, at or above the limit ({limit:.0f} C)"
    if degrees >= slowdown:
        return f"{degrees:.0f} C, at or above the slowdown threshold ({slowdown:.0f} C)"
    return f"{degrees:.0f} C, {slowdown - degrees:.0f} below the slowdown threshold ({slowdown:.0f} C)"


def temperatures(case: GpuCase) -> Iterator[Condition]:
    """Yield a condition for a GPU or its memory within `temperature_margin_c` of its own limit.

    A GPU that reports no slowdown threshold is compared with `temperature_c` of the hosts file.
    """
    if case.fast is None:
        return
    margin = case.thresholds.temperature_margin_c
    own, degrees = slowdown_c(case.gpu), case.fast.temperature_c
    limit = case.thresholds.temperature_c if own is None else own - margin
    if degrees is not None and degrees >= limit:
        over = own is not None and degrees >= own
        evidence = Evidence("temperature", degrees, " C", limit if own is None else own, case.age("temp"))
        yield case.states(
            "temperature", "critical" if over else "warning", temperature_text(degrees, own, limit), evidence
        )
    memory, most = case.fast.memory_temperature_c, case.gpu.info.temperature_memory_max_c
    if memory is not None and most is not None and memory >= most - margin:
        severity: Severity = "critical" if memory >= most else "warning"
        evidence = Evidence("memory temperature", memory, " C", float(most), case.age("temp"))
        yield case.states("memory_temperature", severity, f"memory at {memory:.0f} C of {most} C", evidence)


def slowdowns(case: GpuCase) -> Iterator[Condition]:
    """Yield a condition for each reason (thermal, power brake) that slowed the clock for too long.

    The share of slowed time decides, which also covers the time between samples; without it, the reasons that
    are active now.
    """
    if case.fast is None:
        return
    limit, now, shares = case.thresholds.throttle_pct, case.fast.throttle, case.fast.throttle_pct or {}
    if not now and not shares:
        return
    age = case.age("throttle")
    for reason, (severity, text) in SLOWED_BY.items():
        share = shares.get(reason)
        if share is not None and share > limit:
            evidence = Evidence(f"{reason} for", share, " % of the time", limit, age)
            yield case.states(reason, severity, text, evidence)
        elif share is None and now and reason in now:
            yield case.states(reason, severity, text, Evidence("clock-event reason", reason, age_s=age))


def memory(case: GpuCase) -> Iterator[Condition]:
    """Yield `info` if memory is almost full, since a training job may well fill its GPU."""
    used = None if case.fast is None else memory_pct(case.fast)
    limit = case.thresholds.memory_pct
    if used is not None and used >= limit:
        evidence = Evidence("memory", round(used, 1), " %", limit, case.age("mem"))
        yield case.states("memory", "info", f"memory {used:.1f} % full", evidence)


def health_counters(case: GpuCase) -> Iterator[Condition]:
    """Yield a condition for each ECC or row-remapping problem, and for the recovery action requested."""
    slow = case.slow
    if slow is None:
        return
    action = slow.recovery_action
    if action == "none":
        action = None
    if not (
        slow.ecc_uncorrected or slow.remap_failed or slow.remap_pending or slow.retired_pending or action
    ):
        return
    age = case.age("ecc")
    if slow.ecc_uncorrected:
        evidence = Evidence(
            "uncorrected ECC errors since the driver was loaded", slow.ecc_uncorrected, "", 0, age
        )
        yield case.states(
            "ecc_uncorrected", "critical", f"{slow.ecc_uncorrected} uncorrected ECC errors", evidence
        )
    flags: tuple[tuple[bool | None, str, Severity, str], ...] = (
        (slow.remap_failed, "remap_failed", "critical", "row remapping failed: replace the GPU"),
        (slow.remap_pending, "remap_pending", "warning", "row remapping pending: reset the GPU"),
        (slow.retired_pending, "retired_pending", "warning", "page retirement pending: reset the GPU"),
    )
    for flag, code, severity, text in flags:
        if flag:
            yield case.states(code, severity, text, Evidence(code.replace("_", " "), "yes", age_s=age))
    if action is not None:
        text = f"asks for {RECOVERY_WORDS.get(action, action)}"
        severity = RECOVERY.get(action, "critical")
        yield case.states("recovery_action", severity, text, Evidence("recovery action", action, age_s=age))


def pcie_link(case: GpuCase) -> Iterator[Condition]:
    """Yield a condition if the PCIe link is slower or narrower than the GPU supports while the GPU works."""
    info, link = case.gpu.info, case.medium
    if link is None or case.gpu.medium_at is None:
        return
    slower = link.pcie_gen is not None and info.pcie_gen_max is not None and link.pcie_gen < info.pcie_gen_max
    narrower = (
        link.pcie_width is not None
        and info.pcie_width_max is not None
        and link.pcie_width < info.pcie_width_max
    )
    if (slower or narrower) and loaded_since(case.gpu, case.gpu.medium_at - 2.0, case.now):
        now_is, can_be = (
            f"gen {link.pcie_gen} x{link.pcie_width}",
            f"gen {info.pcie_gen_max} x{info.pcie_width_max}",
        )
        evidence = Evidence("PCIe", now_is, "", can_be, case.age("pciegen"))
        yield case.states("pcie_degraded", "warning", f"PCIe at {now_is}, supports {can_be}", evidence)


def loaded_since(gpu: Gpu, since: float, now: float) -> bool:
    """Return True if the history shows the GPU busy in every known second since `since` (monotonic).

    False if at most half of these seconds are known, or `since` is over LOAD_KNOWN_S ago.
    """
    if now - since > LOAD_KNOWN_S:
        return False
    seconds = max(1, int(now - since) + 1)
    busy = gpu.history.series("util", seconds, seconds, now)
    known = busy[busy == busy]  # noqa: PLR0124 - NaN is not itself
    return len(known) > seconds // 2 and bool((known > LOAD_PCT).all())


def nvlinks(case: GpuCase) -> Iterator[Condition]:
    """Yield a condition if NVLinks are down.

    If all are down, a condition is yielded only if another GPU of the node has some up (else none are
    fitted).
    """
    active, most = None if case.slow is None else case.slow.nvlink_active, case.gpu.info.nvlink_count
    if active is None or not most or active >= most:
        return
    if active > 0 or any(other.slow and other.slow.nvlink_active for other in case.node.gpus.values()):
        evidence = Evidence("NVLinks up", active, "", most, case.age("nvlinks"))
        yield case.states("nvlink_down", "critical", f"{most - active} of {most} NVLinks are down", evidence)


CHECKS = (presence, unreadable, temperatures, slowdowns, memory, health_counters, pcie_link, nvlinks)
