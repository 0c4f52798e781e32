"""The series of a GPU under gpuwatch's own names, by tier; labels `node`, `gpu` and `uuid`."""

from __future__ import annotations

from gpuwatch.link.prometheus.series.tier_series import MetricFamily, counter, gauge

_G = "gpuwatch_gpu_"
_PERCENT, _MHZ = 100, 1_000_000

FAST_SERIES = (
    gauge(
        f"{_G}utilization_ratio",
        "Share of time with at least one kernel running.",
        "utilization_pct",
        over=_PERCENT,
    ),
    gauge(
        f"{_G}memory_utilization_ratio",
        "Share of time in which device memory was read or written.",
        "memory_utilization_pct",
        over=_PERCENT,
    ),
    gauge(f"{_G}memory_used_bytes", "Device memory in use.", "memory_used_bytes"),
    gauge(f"{_G}memory_size_bytes", "Device memory in total.", "memory_total_bytes"),
    gauge(f"{_G}memory_reserved_bytes", "Device memory that the driver reserves.", "memory_reserved_bytes"),
    gauge(f"{_G}temperature_celsius", "GPU temperature.", "temperature_c"),
    gauge(f"{_G}memory_temperature_celsius", "Device memory temperature.", "memory_temperature_c"),
    gauge(f"{_G}power_watts", "Power draw.", "power_w"),
    counter(f"{_G}energy_joules_total", "Energy since the driver was loaded.", "energy_j"),
    gauge(f"{_G}sm_clock_hertz", "SM clock.", "sm_clock_mhz", times=_MHZ),
    gauge(f"{_G}pcie_receive_bytes_per_second", "PCIe throughput into the GPU.", "pcie_rx_bps"),
    gauge(f"{_G}pcie_transmit_bytes_per_second", "PCIe throughput out of the GPU.", "pcie_tx_bps"),
    gauge(
        f"{_G}nvlink_receive_bytes_per_second", "NVLink throughput into the GPU, all links.", "nvlink_rx_bps"
    ),
    gauge(
        f"{_G}nvlink_transmit_bytes_per_second",
        "NVLink throughput out of the GPU, all links.",
        "nvlink_tx_bps",
    ),
    gauge(
        f"{_G}sm_activity_ratio",
        "Share of SMs with at least one warp (GPM).",
        "sm_activity_pct",
        over=_PERCENT,
    ),
    gauge(
        f"{_G}sm_occupancy_ratio",
        "Resident warps as a share of the maximum (GPM).",
        "sm_occupancy_pct",
        over=_PERCENT,
    ),
    gauge(
        f"{_G}tensor_activity_ratio",
        "Share of time with active tensor cores (GPM).",
        "tensor_activity_pct",
        over=_PERCENT,
    ),
    gauge(
        f"{_G}dram_activity_ratio",
        "Share of the peak device memory traffic (GPM).",
        "dram_activity_pct",
        over=_PERCENT,
    ),
    gauge(
        f"{_G}fp32_activity_ratio",
        "Share of time with an active FP32 pipe (GPM).",
        "fp32_activity_pct",
        over=_PERCENT,
    ),
)
MEDIUM_SERIES = (
    gauge(f"{_G}memory_clock_hertz", "Device memory clock.", "memory_clock_mhz", times=_MHZ),
    gauge(f"{_G}power_limit_watts", "Enforced power limit.", "power_limit_w"),
    gauge(f"{_G}pcie_generation", "PCIe generation of the link now.", "pcie_gen"),
    gauge(f"{_G}pcie_lanes", "PCIe lanes of the link now.", "pcie_width"),
    gauge(f"{_G}performance_state", "Performance state, 0 is the highest.", "performance_state"),
    gauge(f"{_G}encoder_ratio", "Video encoder utilization.", "encoder_pct", over=_PERCENT),
    gauge(f"{_G}decoder_ratio", "Video decoder utilization.", "decoder_pct", over=_PERCENT),
    gauge(f"{_G}fan_ratio", "Fan speed over the maximum.", "fan_pct", over=_PERCENT),
)
SLOW_SERIES = (
    counter(
        f"{_G}ecc_corrected_errors_total",
        "Corrected ECC errors since the driver was loaded.",
        "ecc_corrected",
    ),
    counter(
        f"{_G}ecc_uncorrected_errors_total",
        "Uncorrected ECC errors since the driver was loaded.",
        "ecc_uncorrected",
    ),
    counter(
        f"{_G}ecc_corrected_lifetime_errors_total",
        "Corrected ECC errors over the GPU's life.",
        "ecc_corrected_total",
    ),
    counter(
        f"{_G}ecc_uncorrected_lifetime_errors_total",
        "Uncorrected ECC errors over the GPU's life.",
        "ecc_uncorrected_total",
    ),
    counter(
        f"{_G}remapped_correctable_rows_total",
        "Rows remapped for correctable errors.",
        "remapped_correctable",
    ),
    counter(
        f"{_G}remapped_uncorrectable_rows_total",
        "Rows remapped for uncorrectable errors.",
        "remapped_uncorrectable",
    ),
    gauge(f"{_G}remap_pending", "1: a row waits for a reset to be remapped.", "remap_pending"),
    gauge(f"{_G}remap_failed", "1: a row could not be remapped.", "remap_failed"),
    gauge(f"{_G}retired_pages", "Retired memory pages.", "retired_pages"),
    gauge(f"{_G}retired_pending", "1: a page waits for a reset to be retired.", "retired_pending"),
    counter(f"{_G}pcie_replays_total", "PCIe replays.", "pcie_replays"),
    gauge(f"{_G}nvlink_active_links", "NVLink links that are up.", "nvlink_active"),
)
TIERS = (("fast", FAST_SERIES), ("medium", MEDIUM_SERIES), ("slow", SLOW_SERIES))
"""Tier of a GPU's values -> its series."""

THROTTLE = MetricFamily(f"{_G}throttle_ratio", "gauge", "Share of time throttled, by reason.")
CLOCK_EVENT = MetricFamily(
    f"{_G}clock_event_active", "gauge", "1: this clocks event reason holds now; absent: it does not."
)
NVLINK_ERRORS = MetricFamily(f"{_G}nvlink_errors_total", "counter", "NVLink errors, all links, by kind.")
RECOVERY_ACTION = MetricFamily(
    f"{_G}recovery_action", "gauge", "1: the driver states this recovery action for the GPU."
)
GPU_UP = MetricFamily(
    f"{_G}up", "gauge", "1: the driver reports the GPU's values; 0: it is lost, stuck or silent."
)
GPU_STATE = MetricFamily(f"{_G}state", "gauge", "1: the state of the GPU (ok, unanswered, stuck, lost).")
STUCK = MetricFamily(f"{_G}stuck_seconds", "gauge", "Duration of the NVML call that has not returned.")
LAST_XID = MetricFamily(f"{_G}last_xid", "gauge", "Code of the newest Xid; absent: none was seen.")
LAST_XID_TIME = MetricFamily(f"{_G}last_xid_timestamp_seconds", "gauge", "Unix time of the newest Xid.")
SAMPLED = MetricFamily(
    f"{_G}last_sample_timestamp_seconds",
    "gauge",
    "Unix time of the last read of a tier (fast, medium, slow).",
)
SLOWDOWN = MetricFamily(
    f"{_G}slowdown_temperature_celsius", "gauge", "Temperature at which the GPU slows down."
)
GPU_INFO = MetricFamily(f"{_G}info", "info", "Model and PCI bus id of a GPU.")
