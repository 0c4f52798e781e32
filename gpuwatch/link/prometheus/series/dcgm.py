"""The series of NVIDIA's dcgm-exporter, with its units; labels `gpu`, `UUID`, `modelName`, `Hostname`, ..."""

from __future__ import annotations

from gpuwatch.link.prometheus.series.tier_series import counter, gauge

_DEV, _PROF = "DCGM_FI_DEV_", "DCGM_FI_PROF_"
_MIB, _MILLI = 1 << 20, 1000

FAST_DCGM = (
    gauge(f"{_DEV}GPU_UTIL", "GPU utilization (in %).", "utilization_pct"),
    gauge(f"{_DEV}MEM_COPY_UTIL", "Memory utilization (in %).", "memory_utilization_pct"),
    gauge(f"{_DEV}FB_USED", "Framebuffer memory used (in MiB).", "memory_used_bytes", over=_MIB),
    gauge(f"{_DEV}FB_TOTAL", "Framebuffer memory in total (in MiB).", "memory_total_bytes", over=_MIB),
    gauge(f"{_DEV}FB_RESERVED", "Framebuffer memory reserved (in MiB).", "memory_reserved_bytes", over=_MIB),
    gauge(f"{_DEV}GPU_TEMP", "GPU temperature (in C).", "temperature_c"),
    gauge(f"{_DEV}MEMORY_TEMP", "Memory temperature (in C).", "memory_temperature_c"),
    gauge(f"{_DEV}POWER_USAGE", "Power draw (in W).", "power_w"),
    counter(f"{_DEV}TOTAL_ENERGY_CONSUMPTION", "Energy since boot (in mJ).", "energy_j", times=_MILLI),
    gauge(f"{_DEV}SM_CLOCK", "SM clock frequency (in MHz).", "sm_clock_mhz"),
    gauge(f"{_PROF}PCIE_RX_BYTES", "PCIe receive rate (in bytes per second).", "pcie_rx_bps"),
    gauge(f"{_PROF}PCIE_TX_BYTES", "PCIe transmit rate (in bytes per second).", "pcie_tx_bps"),
    gauge(f"{_PROF}NVLINK_RX_BYTES", "NVLink receive rate (in bytes per second).", "nvlink_rx_bps"),
    gauge(f"{_PROF}NVLINK_TX_BYTES", "NVLink transmit rate (in bytes per second).", "nvlink_tx_bps"),
    gauge(f"{_PROF}SM_ACTIVE", "Ratio of SMs with at least one warp.", "sm_activity_pct", over=100),
    gauge(f"{_PROF}SM_OCCUPANCY", "Ratio of resident warps.", "sm_occupancy_pct", over=100),
    gauge(f"{_PROF}PIPE_TENSOR_ACTIVE", "Ratio of cycles with tensor work.", "tensor_activity_pct", over=100),
    gauge(f"{_PROF}DRAM_ACTIVE", "Ratio of cycles with memory traffic.", "dram_activity_pct", over=100),
    gauge(f"{_PROF}PIPE_FP32_ACTIVE", "Ratio of cycles with FP32 work.", "fp32_activity_pct", over=100),
)
MEDIUM_DCGM = (
    gauge(f"{_DEV}MEM_CLOCK", "Memory clock frequency (in MHz).", "memory_clock_mhz"),
    gauge(f"{_DEV}POWER_MGMT_LIMIT", "Power limit (in W).", "power_limit_w"),
    gauge(f"{_DEV}PCIE_LINK_GEN", "PCIe generation.", "pcie_gen"),
    gauge(f"{_DEV}PCIE_LINK_WIDTH", "PCIe lanes.", "pcie_width"),
    gauge(f"{_DEV}PSTATE", "Performance state.", "performance_state"),
    gauge(f"{_DEV}ENC_UTIL", "Encoder utilization (in %).", "encoder_pct"),
    gauge(f"{_DEV}DEC_UTIL", "Decoder utilization (in %).", "decoder_pct"),
    gauge(f"{_DEV}FAN_SPEED", "Fan speed (in %).", "fan_pct"),
)
SLOW_DCGM = (
    counter(f"{_DEV}ECC_SBE_VOL_TOTAL", "Single-bit volatile ECC errors.", "ecc_corrected"),
    counter(f"{_DEV}ECC_DBE_VOL_TOTAL", "Double-bit volatile ECC errors.", "ecc_uncorrected"),
    counter(f"{_DEV}ECC_SBE_AGG_TOTAL", "Single-bit persistent ECC errors.", "ecc_corrected_total"),
    counter(f"{_DEV}ECC_DBE_AGG_TOTAL", "Double-bit persistent ECC errors.", "ecc_uncorrected_total"),
    counter(
        f"{_DEV}CORRECTABLE_REMAPPED_ROWS", "Rows remapped for correctable errors.", "remapped_correctable"
    ),
    counter(
        f"{_DEV}UNCORRECTABLE_REMAPPED_ROWS",
        "Rows remapped for uncorrectable errors.",
        "remapped_uncorrectable",
    ),
    gauge(f"{_DEV}ROW_REMAP_PENDING", "Whether a row waits to be remapped.", "remap_pending"),
    gauge(f"{_DEV}ROW_REMAP_FAILURE", "Whether remapping of rows has failed.", "remap_failed"),
    gauge(f"{_DEV}RETIRED_PENDING", "Pages pending retirement.", "retired_pending"),
    counter(f"{_DEV}PCIE_REPLAY_COUNTER", "PCIe retries.", "pcie_replays"),
)
DCGM_TIERS = (("fast", FAST_DCGM), ("medium", MEDIUM_DCGM), ("slow", SLOW_DCGM))
"""Tier of a GPU's values -> its series."""
FB_FREE = gauge(f"{_DEV}FB_FREE", "Framebuffer memory free (in MiB).", "", over=_MIB)
XID_ERRORS = gauge(f"{_DEV}XID_ERRORS", "Value of the last Xid error.", "")
EVENT_REASONS = gauge(f"{_DEV}CLOCKS_EVENT_REASONS", "Clocks event reasons, a bit mask.", "")
SLOWDOWN_TEMP = gauge(f"{_DEV}SLOWDOWN_TEMP", "Slowdown temperature (in C).", "")
NVLINK_COUNTERS = {
    "crc": counter(f"{_DEV}NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "NVLink flow-control CRC errors.", ""),
    "replay": counter(f"{_DEV}NVLINK_REPLAY_ERROR_COUNT_TOTAL", "NVLink retries.", ""),
    "recovery": counter(f"{_DEV}NVLINK_RECOVERY_ERROR_COUNT_TOTAL", "NVLink recovery errors.", ""),
}
REASON_BITS = {
    "idle": 0x1, "app_clocks": 0x2, "power_cap": 0x4, "hw_slowdown": 0x8, "sync_boost": 0x10,
    "sw_thermal": 0x20, "hw_thermal": 0x40, "power_brake": 0x80, "display": 0x100,
}  # fmt: skip
"""Clock-event reason -> its bit (nvml.h, nvmlClocksEventReason*)."""
