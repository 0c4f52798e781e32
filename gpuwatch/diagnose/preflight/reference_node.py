"""Compare nodes with a reference node: versions, firmware, limits and settings, without a job.

Example: gpu-001 has driver 580.95 and VBIOS 96.00, gpu-002 driver 580.82 and the same VBIOS. `compared` with
gpu-001 as the reference gives FAIL `same.driver` "580.82 instead of 580.95" on gpu-002, and PASS `same` "1
setting as on gpu-001".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from gpuwatch.diagnose.preflight.check import Check, differing, passed, skipped
from gpuwatch.fleet.nodes.node import Gpu, Node
from gpuwatch.hosts.names import fold
from gpuwatch.number_text import counted, listed, ranges

Profile: TypeAlias = Mapping[str, str]
"""Setting -> value of one node, without unknown settings."""
NO_DEVICE = "none"
"""Value of an adapter's or interface's setting on a node that has none."""
MAX_UNKNOWN = 6
"""Most settings without a value that are listed by name."""

_GPU: tuple[tuple[str, Callable[[Gpu], object]], ...] = (
    ("gpu.name", lambda gpu: gpu.info.name or None),
    ("gpu.vbios", lambda gpu: gpu.info.vbios),
    ("gpu.memory_mib", lambda gpu: _mib(gpu.info.memory_total_bytes)),
    ("gpu.power_limit_w", lambda gpu: None if gpu.medium is None else _watts(gpu.medium.power_limit_w)),
    ("gpu.power_limit_default_w", lambda gpu: _watts(gpu.info.power_limit_default_w)),
    ("gpu.sm_clock_max_mhz", lambda gpu: gpu.info.sm_clock_max_mhz),
    ("gpu.memory_clock_max_mhz", lambda gpu: gpu.info.memory_clock_max_mhz),
    ("gpu.pcie_gen_max", lambda gpu: gpu.info.pcie_gen_max),
    ("gpu.pcie_width_max", lambda gpu: gpu.info.pcie_width_max),
    ("gpu.nvlink_count", lambda gpu: gpu.info.nvlink_count),
    ("gpu.nvlink_active", lambda gpu: None if gpu.slow is None else gpu.slow.nvlink_active),
    ("gpu.ecc", lambda gpu: _on(gpu.info.ecc_enabled)),
    ("gpu.persistence", lambda gpu: _on(gpu.info.persistence)),
    ("gpu.mig", lambda gpu: _on(gpu.info.mig_enabled)),
)


def profile(node: Node, system: Mapping[str, str] | None) -> dict[str, str]:
    """Return setting -> value of a node, without unknown ones; empty before its hello.

    Args:
        node: The node.
        system: `wire.SystemSettings.values`; None: the node did not answer.
    """
    hello = node.hello
    if hello is None:
        return {}
    gpus = node.gpu_list()
    ports = (node.host.ib if node.host is not None else None) or ()
    found: dict[str, object] = {
        "driver": hello.driver,
        "cuda": hello.cuda,
        "nvml": hello.nvml,
        "kernel": hello.kernel,
        "os": hello.os,
        "cpu.model": hello.cpu_model,
        "cpu.count": hello.cpu_count,
        "memory_gib": None if hello.memory_total_bytes is None else round(hello.memory_total_bytes / 2**30),
        "gpu.count": len(gpus),
        **{name: _of_gpus(gpus, value) for name, value in _GPU},
        "ib.rate_gbps": _of_devices((f"{port.device}/{port.port}", port.rate_gbps) for port in ports),
        "ib.state": _of_devices((f"{port.device}/{port.port}", port.state) for port in ports),
        **(_of_machine(system) if system else {}),
    }
    return {name: _text(value) for name, value in found.items() if value is not None}


def _of_machine(system: Mapping[str, str]) -> dict[str, str]:
    """Return the machine's settings; those of adapters and interfaces list each value with its devices."""
    found: dict[str, str] = dict.fromkeys(
        ("ib.firmware", "ib.type", "ib.board", "net.mtu", "net.driver"), NO_DEVICE
    )
    devices: dict[str, list[tuple[str, object]]] = {}
    for name, value in system.items():
        kind, _, rest = name.partition(".")
        device, _, key = rest.rpartition(".")
        if kind in ("ib", "net") and device:
            devices.setdefault(f"{kind}.{key}", []).append((device, value))
        else:
            found[name] = value
    return found | {name: _of_devices(values) or NO_DEVICE for name, values in devices.items()}


def compared(profiles: Mapping[str, Profile], reference: Profile, name: str) -> list[Check]:
    """Return a FAIL for each setting in which a node differs from the reference.

    If any setting could be compared, a PASS with the number of equal ones follows, else one FAIL. A SKIP
    lists settings that are not known everywhere. Empty without profiles.

    Args:
        profiles: Node -> its settings; the reference node may be among them.
        reference: The settings to compare with.
        name: The name of the reference: a node or a file.
    """
    checks: list[Check] = []
    unknown, equal = [], 0
    for setting in sorted({*reference, *(setting for one in profiles.values() for setting in one)}):
        wanted = reference.get(setting)
        known = {node: one[setting] for node, one in profiles.items() if setting in one}
        if wanted is None or len(known) < len(profiles):
            unknown.append(setting)
        if wanted is None:
            continue
        odd = {node: value for node, value in known.items() if value != wanted}
        if odd:
            values = set(odd.values())
            found = values.pop() if len(values) == 1 else differing(odd)
            checks.append(Check(f"same.{setting}", "FAIL", f"{found} instead of {wanted}", tuple(odd)))
        equal += bool(known) and not odd
    if profiles and not checks and not equal:
        detail = f"nothing was compared: {name} has no setting that a node reports"
        checks.append(Check("same", "FAIL", detail, tuple(profiles)))
    elif profiles:
        checks.append(passed("same", f"{counted(equal, 'setting')} as on {name}"))
    if unknown:
        names = listed(unknown, MAX_UNKNOWN)
        checks.append(skipped("same.unknown", f"not known for every node: {names}"))
    return checks


def unanswered(nodes: Iterable[str]) -> list[Check]:
    """Return a FAIL check if nodes did not report their machine settings; else no check."""
    names = tuple(nodes)
    if not names:
        return []
    detail = f"{fold(names)} did not report firmware, kernel, network and driver options: not compared"
    return [Check("same.settings", "FAIL", detail, names)]


def silent_nodes(silent: Mapping[str, str]) -> list[Check]:
    """Return a FAIL check if nodes do not respond, so that nothing is known of them; else no check."""
    if not silent:
        return []
    reasons = "; ".join(f"{node}: {why}" for node, why in list(silent.items())[:MAX_UNKNOWN])
    detail = f"{fold(silent)} not compared: {reasons}"
    return [Check("same.nodes", "FAIL", detail, tuple(silent))]


def _of_gpus(gpus: Sequence[Gpu], value: Callable[[Gpu], object]) -> str | None:
    """Return the value that all GPUs share, else each value with its GPUs: `97.00 (GPU 0-6), 96.00 (GPU 7)`.

    None: no GPU has one.
    """
    by_value: dict[str, list[int]] = {}
    for gpu in gpus:
        if (one := value(gpu)) is not None:
            by_value.setdefault(_text(one), []).append(gpu.info.index)
    if len(by_value) < 2:
        return next(iter(by_value), None)
    return ", ".join(f"{one} (GPU {ranges(indices)})" for one, indices in by_value.items())


def _of_devices(values: Iterable[tuple[str, object]]) -> str | None:
    """Return each value with its devices, `28.39 (mlx5_[0-7])`; None without devices."""
    by_value: dict[str, list[str]] = {}
    for device, value in values:
        if value is not None:
            by_value.setdefault(_text(value), []).append(device)
    return ", ".join(f"{value} ({fold(devices)})" for value, devices in by_value.items()) or None


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _on(flag: bool | None) -> str | None:
    return None if flag is None else "on" if flag else "off"


def _watts(watts: float | None) -> int | None:
    return None if watts is None else round(watts)


def _mib(size: int | None) -> int | None:
    return None if size is None else size >> 20
