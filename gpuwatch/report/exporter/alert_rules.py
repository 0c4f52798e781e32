"""The thresholds of a plan as a Prometheus rule file, over the exporter's series."""

from __future__ import annotations

from collections.abc import Iterator

import yaml
from msgspec import Struct

from gpuwatch.diagnose.health.gpu_checks import SLOWED_BY
from gpuwatch.diagnose.health.node_checks import CLOCK_S
from gpuwatch.diagnose.health.peer_comparison import MIN_PEERS, WORKING_PCT
from gpuwatch.diagnose.training.job_view.facts import IMBALANCE
from gpuwatch.hosts.plan import Thresholds
from gpuwatch.rules.model import rule_ids
from gpuwatch.wire import Severity

DOWN_S = 60.0
"""Seconds that a node must be gone, so that a reconnect is no alert."""
XID_RECENT_S = 3600
GROUP = "gpuwatch"
_PEERS = "on (node) group_left"
_WORKING = f"gpuwatch_gpu_utilization_ratio >= {WORKING_PCT / 100:g}"


class AlertRule(Struct, frozen=True):
    """An alert of the rule file."""

    name: str
    code: str
    """Code of the corresponding gpuwatch alert."""
    severity: Severity
    expr: str
    summary: str
    hold_s: float = 0.0
    clear_s: float = 0.0


def alert_rules(limits: Thresholds) -> list[AlertRule]:
    """Return all alerting rules for Prometheus: findings, lost nodes and GPUs, and thresholds on values."""
    return [
        *_findings(),
        *_presence(),
        *_gpu_values(limits),
        *_health(limits),
        *_hosts(limits),
        *_jobs(limits),
    ]


def rule_file(limits: Thresholds) -> str:
    """Return the alert rules for these limits as YAML for Prometheus."""
    rules = []
    for rule in alert_rules(limits):
        entry: dict[str, object] = {"alert": rule.name, "expr": rule.expr}
        if rule.hold_s:
            entry["for"] = f"{rule.hold_s:.0f}s"
        if rule.clear_s:
            entry["keep_firing_for"] = f"{rule.clear_s:.0f}s"
        entry["labels"] = {"severity": rule.severity, "code": rule.code}
        entry["annotations"] = {"summary": rule.summary}
        rules.append(entry)
    text: str = yaml.safe_dump({"groups": [{"name": GROUP, "rules": rules}]}, sort_keys=False, width=1000)
    return "# Made by `gpuwatch exporter --print-rules` from the thresholds of its SOURCE.\n" + text


_GPU = "{{ $labels.node }} GPU {{ $labels.gpu }}"
_NODE = "{{ $labels.node }}"


def _findings() -> Iterator[AlertRule]:
    severities: tuple[Severity, ...] = ("critical", "error", "warning")
    for severity in severities:
        yield AlertRule(
            f"GpuwatchIncident{severity.capitalize()}",
            "incident",
            severity,
            f'gpuwatch_incident_active{{severity="{severity}"}} == 1',
            "incident {{ $labels.number }}: {{ $labels.class }} on {{ $labels.node }}"
            " {{ with $labels.rank }}rank {{ . }}{{ end }}",
        )
    yield AlertRule(
        "GpuwatchExporterDown", "exporter_down", "critical", "absent(gpuwatch_build_info)",
        "no page of the gpuwatch exporter was scraped", 300.0,
    )  # fmt: skip
    yield AlertRule(
        "GpuwatchSeriesDropped", "series_dropped", "warning", "gpuwatch_exporter_dropped_series > 0",
        "{{ $value }} samples exceed the limits of the exporter", 300.0,
    )  # fmt: skip


def _presence() -> Iterator[AlertRule]:
    lost = 'gpuwatch_node_state{state="lost"} == 1'
    yield AlertRule("GpuwatchNodeLost", "node_lost", "critical", lost, f"{_NODE} is lost", DOWN_S)
    stale = 'gpuwatch_node_state{state="stale"} == 1'
    yield AlertRule("GpuwatchNodeStale", "node_stale", "warning", stale, f"{_NODE} is silent", DOWN_S)
    gone = 'gpuwatch_gpu_state{state="lost"} == 1'
    yield AlertRule("GpuwatchGpuLost", "gpu_lost", "critical", gone, f"{_GPU} is lost")
    stuck = 'gpuwatch_gpu_state{state="stuck"} == 1'
    yield AlertRule("GpuwatchGpuStuck", "gpu_stuck", "critical", stuck, f"{_GPU}: a driver call hangs")
    missing = "gpuwatch_node_gpus_present < gpuwatch_node_gpus_expected and gpuwatch_node_up == 1"
    yield AlertRule(
        "GpuwatchGpuMissing",
        "gpu_missing",
        "critical",
        missing,
        f"{_NODE} has {{{{ $value }}}} GPUs, too few",
        DOWN_S,
    )
    yield AlertRule(
        "GpuwatchXid", "xid", "error", f"time() - gpuwatch_gpu_last_xid_timestamp_seconds < {XID_RECENT_S}",
        f"{_GPU}: an Xid was reported in the last hour",
    )  # fmt: skip


def _gpu_values(limits: Thresholds) -> Iterator[AlertRule]:
    held = {"hold_s": limits.hold_s, "clear_s": limits.clear_s}
    degrees, own = "gpuwatch_gpu_temperature_celsius", "gpuwatch_gpu_slowdown_temperature_celsius"
    yield AlertRule(
        "GpuwatchGpuOverheated", "temperature", "critical", f"{degrees} >= {own}",
        f"{_GPU} is at {{{{ $value }}}} C, at or above its slowdown threshold", **held,
    )  # fmt: skip
    yield AlertRule(
        "GpuwatchGpuHot", "temperature", "warning",
        f"({degrees} >= {own} - {limits.temperature_margin_c:g} and {degrees} < {own})"
        f" or ({degrees} >= {limits.temperature_c:g} unless {own})",
        f"{_GPU} is at {{{{ $value }}}} C", **held,
    )  # fmt: skip
    for reason, (severity, text) in SLOWED_BY.items():
        yield AlertRule(
            f"GpuwatchThrottled{reason.title().replace('_', '')}", reason, severity,
            f'gpuwatch_gpu_throttle_ratio{{reason="{reason}"}} > {limits.throttle_pct / 100:g}',
            f"{_GPU}: {text}, {{{{ $value | humanizePercentage }}}} of the time", **held,
        )  # fmt: skip
    clock = "gpuwatch_gpu_sm_clock_hertz"
    several = f"count by (node) ({_WORKING}) >= {MIN_PEERS}"
    for metric, name, code, comparison in (
        (degrees, "Hotter", "hotter_than_peers", f"- {_PEERS} %s >= {limits.peer_temperature_c:g}"),
        (clock, "Slower", "slower_than_peers", f"/ {_PEERS} %s < {limits.peer_clock_pct / 100:g}"),
    ):
        working = f"({metric} and {_WORKING})"
        middle = f"quantile by (node) (0.5, {working})"
        yield AlertRule(
            f"GpuwatchGpu{name}ThanPeers", code, "warning",
            f"({working} {comparison % middle}) and on (node) ({several})",
            f"{_GPU} differs from the working GPUs of its node by {{{{ $value }}}}", **held,
        )  # fmt: skip
    yield AlertRule(
        "GpuwatchGpuIdleHeld", "idle_held", "info",
        "gpuwatch_gpu_utilization_ratio == 0 and on (uuid) gpuwatch_rank_info",
        f"{_GPU} is held by a rank and not used", limits.idle_held_s,
    )  # fmt: skip


def _health(limits: Thresholds) -> Iterator[AlertRule]:
    states: tuple[tuple[str, str, Severity, str, str], ...] = (
        ("EccUncorrected", "ecc_uncorrected", "critical", "gpuwatch_gpu_ecc_uncorrected_errors_total > 0",
         "uncorrected ECC errors"),
        ("RemapFailed", "remap_failed", "critical", "gpuwatch_gpu_remap_failed == 1", "row remapping failed"),
        ("RemapPending", "remap_pending", "warning", "gpuwatch_gpu_remap_pending == 1",
         "row remapping pending"),
        ("RetiredPending", "retired_pending", "warning", "gpuwatch_gpu_retired_pending == 1",
         "page retirement pending"),
        ("RecoveryAction", "recovery_action", "critical", 'gpuwatch_gpu_recovery_action{action!="none"} == 1',
         "the driver asks for {{ $labels.action }}"),
    )  # fmt: skip
    for name, code, severity, expr, text in states:
        yield AlertRule(f"GpuwatchGpu{name}", code, severity, expr, f"{_GPU}: {text}")
    errors = 'increase(gpuwatch_gpu_nvlink_errors_total{kind%s"crc"}[5m])'
    grown = f"sum by (node, gpu, uuid) ({errors % '!='}) + sum by (node, gpu, uuid) ({errors % '='}) / 100"
    yield AlertRule(
        "GpuwatchNvlinkErrors", "nvlink_errors", "warning", f"{grown} >= {limits.nvlink_errors:g}",
        f"{_GPU}: NVLink errors grew by {{{{ $value }}}} in 5 minutes",
    )  # fmt: skip


def _hosts(limits: Thresholds) -> Iterator[AlertRule]:
    held = {"hold_s": limits.hold_s, "clear_s": limits.clear_s}
    memory = (
        f"gpuwatch_node_memory_used_bytes / gpuwatch_node_memory_size_bytes >= {limits.memory_pct / 100:g}"
    )
    text = f"{_NODE}: memory is full"
    yield AlertRule("GpuwatchHostMemoryFull", "host_memory", "warning", memory, text, **held)
    disk = f"gpuwatch_filesystem_used_bytes / gpuwatch_filesystem_size_bytes >= {limits.disk_pct / 100:g}"
    yield AlertRule(
        "GpuwatchDiskFull",
        "disk_full",
        "warning",
        disk,
        f"{_NODE}: {{{{ $labels.mountpoint }}}} is full",
        **held,
    )
    yield AlertRule(
        "GpuwatchInfinibandDown", "ib_down", "warning",
        "gpuwatch_infiniband_up == 0 and max_over_time(gpuwatch_infiniband_up[1d]) == 1",
        f"{_NODE}: fabric port {{{{ $labels.device }}}}/{{{{ $labels.port }}}} went down", **held,
    )  # fmt: skip
    off = f"abs(gpuwatch_node_clock_offset_seconds) - gpuwatch_node_clock_error_seconds > {CLOCK_S:g}"
    text = f"{_NODE}: the clock is off by {{{{ $value }}}} s"
    yield AlertRule("GpuwatchClockOff", "clock_off", "warning", off, text, **held)


def _jobs(limits: Thresholds) -> Iterator[AlertRule]:
    silent = "time() - max by (job) (gpuwatch_rank_last_write_timestamp_seconds)"
    pace = '5 * gpuwatch_job_step_percentile_seconds{percentile="50"}'
    job = "job {{ $labels.job }}"
    yield AlertRule(
        "GpuwatchJobSilent", "job.hang", "warning",
        f"{silent} > {limits.hang_s:g} unless on (job) ({silent} <= on (job) {pace})"
        " unless on (job) gpuwatch_job_up == 0",
        f"{job}: no rank has written a line for {{{{ $value }}}} s", limits.hang_s,
    )  # fmt: skip
    yield AlertRule(
        "GpuwatchJobImbalance", rule_ids.TRAIN_IMBALANCE, "warning",
        f'gpuwatch_job_imbalance_ratio{{column="step_s"}} > {IMBALANCE:g}',
        f"{job}: step times of the ranks differ by {{{{ $value | humanizePercentage }}}}", 300.0,
    )  # fmt: skip
    yield AlertRule(
        "GpuwatchLossNotFinite", rule_ids.NUM_NAN_LOSS, "critical",
        "gpuwatch_job_loss != gpuwatch_job_loss or abs(gpuwatch_job_loss) == Inf",
        f"{job}: the loss is not finite",
    )  # fmt: skip
    yield AlertRule(
        "GpuwatchCheckpointIncomplete", "checkpoint_incomplete", "warning",
        "gpuwatch_job_checkpoint_complete == 0",
        f"{job}: the last checkpoint is not complete", 600.0,
    )  # fmt: skip
    if limits.slow_step_s:
        yield AlertRule(
            "GpuwatchStepSlow", rule_ids.TRAIN_SLOW, "warning",
            f'gpuwatch_job_step_percentile_seconds{{percentile="50"}} > {limits.slow_step_s:g}',
            f"{job}: a step takes {{{{ $value }}}} s", limits.hold_s,
        )  # fmt: skip
