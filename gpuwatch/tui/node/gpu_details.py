"""Formats all values of one GPU, each group with its age. Pure functions."""

from __future__ import annotations

from rich.segment import Segment

from gpuwatch.fleet.nodes.metrics import power_limit_w
from gpuwatch.fleet.nodes.node import Gpu
from gpuwatch.fleet.nodes.units import MEMORY, RATE
from gpuwatch.number_text import UNKNOWN, seconds_text
from gpuwatch.tui.node.gpu_subject import Subject
from gpuwatch.tui.toolkit.lines.item_page import hanging
from gpuwatch.tui.toolkit.lines.rows import Row, heading
from gpuwatch.tui.toolkit.styles import StyleSet, clean, fit
from gpuwatch.wire import MigInstance


def _yes(value: bool | None) -> str:
    return UNKNOWN if value is None else "yes" if value else "no"


def _number(value: float | None, unit: str = "") -> str:
    return UNKNOWN if value is None else f"{value:g}{unit}"


def _memory(value: float | None) -> str:
    return MEMORY.format(value).strip()


def _rate(value: float | None) -> str:
    text = RATE.format(value).strip()
    return text if value is None else f"{text}B/s"


def _now_facts(subject: Subject) -> list[tuple[str, str]]:
    fast = subject.gpu.fast
    if fast is None:
        return []
    shares = ", ".join(
        f"{k.replace('_', ' ')} {v:.0f}%" for k, v in (fast.throttle_pct or {}).items() if v >= 0.5
    )
    return [
        ("utilization", subject.text("util")),
        ("memory utilization", subject.text("membw")),
        (
            "unified memory" if subject.gpu.info.unified_memory else "memory used",
            f"{_memory(fast.memory_used_bytes)} of {_memory(fast.memory_total_bytes)}",
        ),
        ("reserved", _memory(fast.memory_reserved_bytes)),
        ("power", f"{_number(fast.power_w, ' W')} of {_number(power_limit_w(subject.gpu), ' W')}"),
        ("energy", UNKNOWN if fast.energy_j is None else f"{fast.energy_j / 3.6e6:.1f} kWh"),
        ("temperature", subject.text("temp")),
        ("memory temp.", subject.text("memtemp")),
        ("SM clock", _number(fast.sm_clock_mhz, " MHz")),
        (
            "throttle reason",
            ", ".join(subject.throttle()) or ("not throttled" if fast.throttle is not None else UNKNOWN),
        ),
        ("throttled", shares or ("0 %" if fast.throttle_pct is not None else UNKNOWN)),
        ("SM activity", subject.text("sm")),
        ("occupancy", subject.text("occupancy")),
        ("tensor activity", subject.text("tensor")),
        ("DRAM activity", subject.text("dram")),
        ("FP32 activity", subject.text("fp32")),
        ("PCIe in, out", f"{_rate(fast.pcie_rx_bps)}, {_rate(fast.pcie_tx_bps)}"),
        ("NVLink in, out", f"{_rate(fast.nvlink_rx_bps)}, {_rate(fast.nvlink_tx_bps)}"),
    ]


def _medium_facts(gpu: Gpu) -> list[tuple[str, str]]:
    medium, info = gpu.medium, gpu.info
    if medium is None:
        return []
    return [
        ("memory clock", _number(medium.memory_clock_mhz, " MHz")),
        (
            "PCIe",
            f"gen {_number(medium.pcie_gen)} x{_number(medium.pcie_width)}, "
            f"max gen {_number(info.pcie_gen_max)} x{_number(info.pcie_width_max)}",
        ),
        ("P-state", UNKNOWN if medium.performance_state is None else f"P{medium.performance_state}"),
        ("encoder, decoder", f"{_number(medium.encoder_pct, '%')}, {_number(medium.decoder_pct, '%')}"),
        ("fan", _number(medium.fan_pct, "%")),
    ]


def _mig(mig: MigInstance) -> str:
    return f"{mig.profile or ''} {_memory(mig.memory_used_bytes)} of {_memory(mig.memory_total_bytes)}"


def _slow_facts(gpu: Gpu) -> list[tuple[str, str]]:
    slow = gpu.slow
    if slow is None:
        return []
    errors = ", ".join(f"{k} {v}" for k, v in (slow.nvlink_errors or {}).items())
    facts = [
        (
            "ECC uncorrected",
            f"volatile {_number(slow.ecc_uncorrected)}, aggregate {_number(slow.ecc_uncorrected_total)}",
        ),
        (
            "ECC corrected",
            f"volatile {_number(slow.ecc_corrected)}, aggregate {_number(slow.ecc_corrected_total)}",
        ),
        (
            "remapped rows",
            f"{_number(slow.remapped_correctable)} corr., {_number(slow.remapped_uncorrectable)} uncorr., "
            f"pending {_yes(slow.remap_pending)}, failed {_yes(slow.remap_failed)}",
        ),
        ("retired pages", _number(slow.retired_pages)),
        ("PCIe replays", _number(slow.pcie_replays)),
        ("NVLinks up", f"{_number(slow.nvlink_active)} of {_number(gpu.info.nvlink_count)}"),
        ("NVLink errors", errors or UNKNOWN),
        ("recovery", (slow.recovery_action or UNKNOWN).replace("_", " ")),
    ]
    facts += [(f"MIG {mig.index}", _mig(mig)) for mig in slow.mig or ()]
    return facts


def _still_facts(gpu: Gpu) -> list[tuple[str, str]]:
    info = gpu.info
    return [
        ("UUID", info.uuid),
        ("bus id", info.bus_id or UNKNOWN),
        ("architecture", info.architecture or UNKNOWN),
        ("slowdown at", _number(info.temperature_slowdown_c, " C")),
        ("shutdown at", _number(info.temperature_shutdown_c, " C")),
        ("max SM clock", _number(info.sm_clock_max_mhz, " MHz")),
        (
            "power limits",
            f"default {_number(info.power_limit_default_w, ' W')}, "
            f"max {_number(info.power_limit_max_w, ' W')}",
        ),
        ("NUMA node", _number(info.numa_node)),
        ("CPU affinity", info.cpu_affinity or UNKNOWN),
        ("ECC, MIG, GPM", f"{_yes(info.ecc_enabled)}, {_yes(info.mig_enabled)}, {_yes(info.gpm)}"),
        ("persistence", _yes(info.persistence)),
        ("VBIOS", info.vbios or UNKNOWN),
        ("serial", info.serial or UNKNOWN),
    ]


def _age(at: float | None, now: float) -> str:
    return "never read" if at is None else f"{seconds_text(max(0.0, now - at))} old"


def fact_rows(subject: Subject, width: int, look: StyleSet) -> list[Row]:
    """Return the lines with all values of a GPU, grouped by how often they are read.

    Below them the values that cannot be read are named, with the reason.
    """
    gpu, now = subject.gpu, subject.now
    groups = (
        ("Now", _now_facts(subject), _age(gpu.fast_at, now)),
        ("Slow counters", _medium_facts(gpu), _age(gpu.medium_at, now)),
        ("Health", _slow_facts(gpu), _age(gpu.slow_at, now)),
        ("Device", _still_facts(gpu), ""),
    )
    rows: list[Row] = []
    for title, facts, age in groups:
        rows.append(heading(title, width, look, age))
        for word, value in facts:
            style = look.dim if value == UNKNOWN else look.stale if subject.old else look.text
            rows += hanging((Segment(f" {word:<18} ", look.dim),), value, width, style)
    for why in sorted(set(gpu.missing.values())):
        names = ", ".join(sorted(name for name, reason in gpu.missing.items() if reason == why))
        rows.append((Segment(fit(f" {clean(why).replace('_', ' ')}: {names}", width), look.dim),))
    return rows
