"""The series of a node under gpuwatch's own names; label `node`, and another one for ports and disks."""

from __future__ import annotations

from gpuwatch.link.prometheus.series.tier_series import MetricFamily, counter, gauge

_N = "gpuwatch_node_"

HOST_SERIES = (
    gauge(f"{_N}cpu_ratio", "CPU utilization over all CPUs.", "cpu_pct", over=100),
    gauge(f"{_N}iowait_ratio", "CPU time spent waiting for I/O.", "iowait_pct", over=100),
    gauge(f"{_N}load1", "Load average over 1 minute.", "load_1m"),
    gauge(f"{_N}load5", "Load average over 5 minutes.", "load_5m"),
    gauge(f"{_N}load15", "Load average over 15 minutes.", "load_15m"),
    gauge(f"{_N}memory_size_bytes", "Memory of the host.", "memory_total_bytes"),
    gauge(f"{_N}memory_used_bytes", "Memory of the host in use.", "memory_used_bytes"),
    gauge(f"{_N}swap_size_bytes", "Swap space of the host.", "swap_total_bytes"),
    gauge(f"{_N}swap_used_bytes", "Swap space of the host in use.", "swap_used_bytes"),
)
NIC_SERIES = (
    gauge("gpuwatch_network_receive_bytes_per_second", "Throughput into an interface.", "rx_bps"),
    gauge("gpuwatch_network_transmit_bytes_per_second", "Throughput out of an interface.", "tx_bps"),
    gauge("gpuwatch_network_speed_bytes_per_second", "Speed of an interface.", "speed_bps"),
    counter("gpuwatch_network_errors_total", "Receive and transmit errors of an interface.", "errors"),
    counter("gpuwatch_network_drops_total", "Dropped packets of an interface.", "drops"),
)
"""Series of network interfaces, with the labels `node` and `device`."""
IB_SERIES = (
    gauge("gpuwatch_infiniband_receive_bytes_per_second", "Throughput into a port.", "rx_bps"),
    gauge("gpuwatch_infiniband_transmit_bytes_per_second", "Throughput out of a port.", "tx_bps"),
    gauge(
        "gpuwatch_infiniband_rate_bytes_per_second",
        "Rate of a port.",
        "rate_gbps",
        times=1_000_000_000,
        over=8,
    ),
)
"""Series of InfiniBand ports, with the labels `node`, `device` and `port`."""
DISK_SERIES = (
    gauge("gpuwatch_filesystem_size_bytes", "Size of a file system.", "total_bytes"),
    gauge("gpuwatch_filesystem_used_bytes", "Used space of a file system.", "used_bytes"),
)
"""Series of file systems, with the labels `node` and `mountpoint`."""
COST_SERIES = (
    gauge("gpuwatch_agent_cpu_ratio", "CPU that the agent uses, of one core.", "cpu_pct", over=100),
    gauge("gpuwatch_agent_resident_memory_bytes", "Memory that the agent uses.", "rss_bytes"),
    counter("gpuwatch_agent_dropped_frames_total", "Frames that the agent dropped.", "dropped"),
)

NIC_UP = MetricFamily("gpuwatch_network_up", "gauge", "1: the interface is up.")
IB_UP = MetricFamily("gpuwatch_infiniband_up", "gauge", "1: the port is ACTIVE.")
IB_ERRORS = MetricFamily("gpuwatch_infiniband_errors_total", "counter", "Errors of a port, by counter.")
NODE_UP = MetricFamily(f"{_N}up", "gauge", "1: the node is live; 0: connecting, stale or lost.")
NODE_STATE = MetricFamily(f"{_N}state", "gauge", "1: the state of the node (connecting, live, stale, lost).")
NODE_INFO = MetricFamily(f"{_N}info", "info", "Host name, kernel and driver of a node.")
RECEIVED = MetricFamily(
    f"{_N}last_frame_timestamp_seconds", "gauge", "Unix time of the last message from the node's agent."
)
HOST_SAMPLED = MetricFamily(
    f"{_N}last_sample_timestamp_seconds", "gauge", "Unix time of the last read of the host's values."
)
BOOTED = MetricFamily(
    f"{_N}boot_time_seconds", "gauge", "Unix time of the kernel's start, by the node's clock."
)
CLOCK_OFFSET = MetricFamily(
    f"{_N}clock_offset_seconds", "gauge", "The node's clock minus the clock of gpuwatch."
)
CLOCK_ERROR = MetricFamily(f"{_N}clock_error_seconds", "gauge", "Error bound of the clock offset.")
EXPECTED = MetricFamily(f"{_N}gpus_expected", "gauge", "GPUs that the node should have.")
PRESENT = MetricFamily(f"{_N}gpus_present", "gauge", "GPUs that have answered and are not lost.")
REFUSED = MetricFamily(f"{_N}refused_frames_total", "counter", "Frames of the node that were refused.")
