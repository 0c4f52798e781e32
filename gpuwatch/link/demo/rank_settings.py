"""The demo's answers to settings requests: one node lacks a variable, one has old firmware."""

from __future__ import annotations

import msgspec

from gpuwatch import wire

NODE_WITHOUT_VARIABLE = 13
"""Number of the node whose launcher did not pass on one variable."""
NODE_WITH_OLD_FIRMWARE, OLD_ADAPTER = 12, 3
"""Number of the node with the slow NIC of the demo's probe, and of that NIC."""
VARIABLES = {
    "NCCL_DEBUG": "WARN",
    "NCCL_IB_TIMEOUT": "22",
    "OMP_NUM_THREADS": "8",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "1",
    "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
}


def reply(request: wire.AskRankSettings, number: int, processes: list[wire.Process], t: float) -> wire.Reply:
    """Return the reply of node `number` to a request for rank settings; `t`: unix time there.

    `processes`: the ranks.
    """
    variables = {
        k: v for k, v in VARIABLES.items() if k != "NCCL_IB_TIMEOUT" or number != NODE_WITHOUT_VARIABLE
    }
    reported = wire.NodeSettings(
        shm_total_bytes=512 << 30,
        shm_used_bytes=9 << 30,
        fabric_manager=True,
        reached=dict.fromkeys(request.reach, ""),
        listens={
            str(port): processes[0].pid if number == 0 and processes else None for port in request.ports
        },
        ranks=[
            wire.RankSettings(
                pid=process.pid,
                rank=process.rank,
                python="/opt/train/bin/python3.12",
                torch="2.9.0-demo",
                nccl="2.27.5",
                variables=variables,
                memlock_bytes=wire.UNLIMITED,
                nofile=1_048_576,
            )
            for process in processes
            if process.rank is not None
        ],
    )
    return wire.Reply(t=t, seq=0, id=request.id, data=msgspec.to_builtins(reported))


def system_reply(request: wire.AskSystemSettings, number: int, t: float) -> wire.Reply:
    """Return the reply of node `number` to a request for machine settings; `t`: unix time there."""
    values = {
        "bios": "2.4.1",
        "cpu.governor": "performance",
        "kernel.options": "iommu=pt",
        "memory.huge_pages": "madvise",
        "module.nvidia_peermem": "580.95.05",
        "sysctl.kernel.numa_balancing": "0",
        "sysctl.vm.swappiness": "1",
    }
    for adapter in range(8):
        old = number == NODE_WITH_OLD_FIRMWARE and adapter == OLD_ADAPTER
        values[f"ib.mlx5_{adapter}.firmware"] = "28.36.1010" if old else "28.39.3560"
        values[f"ib.mlx5_{adapter}.type"] = "MT4129"
    reported = wire.SystemSettings(values)
    return wire.Reply(t=t, seq=0, id=request.id, data=msgspec.to_builtins(reported))
