"""Sets the environment of the ranks before torch is imported: interface, limits, no output files."""

from __future__ import annotations

from typing import Dict, MutableMapping, Optional

_OURS: Dict[str, str] = {
    "OMP_NUM_THREADS": "1",
    "TORCH_CPP_LOG_LEVEL": "ERROR",  # warnings would push the last words out of sight
    "TORCH_DISTRIBUTED_DEBUG": "OFF",  # DETAIL wraps every collective and changes its time
    "TORCH_SHOW_CPP_STACKTRACES": "0",
    # fail fast: the watchdog ends a rank whose collective never does, and is itself watched
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "3",
    "TORCH_NCCL_ENABLE_MONITORING": "1",
    "TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC": "60",
    # the flight recorder would leave a file on the node; old and new names
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
    "TORCH_FR_DUMP_ON_TIMEOUT": "0",
    "TORCH_NCCL_TRACE_BUFFER_SIZE": "0",
    "TORCH_FR_BUFFER_SIZE": "0",
    # the lines "via NET/IB/0" state what it runs over
    "NCCL_DEBUG": "INFO",
    "NCCL_DEBUG_SUBSYS": "INIT,NET",
    # its port is shared by all jobs of a node: who asks for the real job must not get the probe
    "NCCL_RAS_ENABLE": "0",
}
_FOREIGN = (
    "NCCL_COMM_ID",
    "NCCL_DEBUG_FILE",
    "NCCL_BLOCKING_WAIT",
    "TORCH_NCCL_BLOCKING_WAIT",
    "TORCH_NCCL_DEBUG_INFO_PIPE_FILE",
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
    "TORCH_FR_DUMP_TEMP_FILE",
    "TORCH_WORKER_SERVER_SOCKET",
)
"""Settings of the user's job that the ranks must not inherit; its other NCCL settings stay."""


def settle(environ: MutableMapping[str, str], iface: Optional[str]) -> None:
    """Set the environment variables of the ranks.

    Args:
        environ: `os.environ`, which is changed.
        iface: The network interface for NCCL and gloo; None: they choose.
    """
    for name in _FOREIGN:
        environ.pop(name, None)
    environ.update(_OURS)
    if iface:
        environ["NCCL_SOCKET_IFNAME"] = f"={iface}"  # without = it is a prefix
        environ["GLOO_SOCKET_IFNAME"] = iface
