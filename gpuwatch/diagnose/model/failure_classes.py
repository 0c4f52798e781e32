"""What the diagnosis knows of failure classes beyond a rule's role: victims, causes and consequences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from gpuwatch.rules.model.rule import Rule


class RulePacks(Protocol):
    """The loaded rules, as the diagnosis needs them."""

    @property
    def by_id(self) -> Mapping[str, Rule]:
        """Rule id -> rule."""


REBOOTED = "node_rebooted"
"""The boot id of a node changed: its ranks are gone."""

TIMEOUTS = frozenset(
    (
        "nccl.watchdog_timeout",
        "nccl.timeout",
        "deepep.timeout",
        "gloo.op_timeout",
        "c10d.store_wait_timeout",
        "horovod.stall",
    )
)
"""Timeouts: a rank that logs one waited for another rank, so it is a victim."""

TOOK_PART = TIMEOUTS | {"nccl.watchdog_teardown", "nccl.comm_aborted", "nccl.flight_recorder_dump"}
"""A rank that logs one of these waited in the collective, or its watchdog did."""
NAMES_CULPRIT = frozenset(
    (
        "nccl.desync_report",
        "c10d.monitored_barrier",
        "c10d.collective_mismatch",
        "nccl.duplicate_gpu",
        "nccl.ras_mismatch",
        "c10d.init_barrier_timeout",
        "jax.barrier_timeout",
        "ckpt.rank_failed",
    )
)
"""Lines in which the job itself names the culprits."""

RENDEZVOUS_TIMEOUTS = frozenset(("c10d.init_barrier_timeout", "jax.barrier_timeout", "elastic.rdzv_timeout"))
"""The rank that logs one of these arrived and waited; the culprits are those that did not arrive."""
ABOUT_ANOTHER = RENDEZVOUS_TIMEOUTS | {"jax.task_lost", "serve.stalled"}
"""Lines in which a process reports another one, which the line may not name."""

EXITS: Mapping[str, int] = {
    "rank.killed": 0,
    "rank.segfault": 0,
    "rank.bus_error": 0,
    "proc.sigkill": 0,
    "proc.segfault": 0,
    "proc.bus_error": 0,
    "proc.illegal_instr": 0,
    "rank.exit_error": 0,
    "ray.worker_died": 1,
    "mpi.abort": 1,
    "k8s.pod_error": 1,
    "rank.abort": 2,
    "proc.abort": 2,
    "proc.sigterm": 3,
    "rank.terminated": 3,
    "slurm.tasks_terminated": 3,
}
"""Ends of processes without a reason, with a weight.

Higher values (-6, -15) more likely follow from others.
"""

GENERIC_EXCEPTIONS = frozenset(("python.exception",))
"""Generic failures of a rank; any other rule that matches there is more specific."""

KERNEL_RULES = ("gpu.xid.", "gpu.nvswitch.", "pcie.", "kernel.", "amd.", "net.nic.", "oom.host.kernel")
"""Prefixes of rules for lines that the kernel or the driver writes."""
HARMLESS = frozenset(("c10d.client_hostname",))
"""Lines that healthy jobs print at every start; running jobs have no alert of them."""
UNEXPLAINED = "rank.error_unexplained"
"""An error line that no rule knows: a cause only where there is no other."""

LAUNCHER = frozenset(code for code in EXITS if code.startswith(("rank.", "k8s.", "ray.", "mpi."))) | {
    "slurm.tasks_terminated",
    "slurm.node_failure",
    "slurm.oom_kill",
    "ray.node_dead",
    "node_lost",
}
"""Ends that another process reports, some time after they happened."""

PEER_CONNECTION_ERRORS = frozenset(
    (
        "nccl.system_error",
        "nccl.internal_error",
        "nccl.socket_connect",
        "nccl.cuda_error",
        "nccl.heartbeat_stuck",
        "rdma.transport_retry",
        "rdma.ofi_error",
        "gloo.connect_failed",
        "c10d.store_unreachable",
        "elastic.rdzv_connection",
        "elastic.rdzv_closed",
        "nccl.remote_error",
        "peer.connection_lost",
        "nccl.proxy_failure",
        "rdma.flushed",
    )
)
"""Usually the effect of a peer's end or a broken link; the address in the line is the suspect."""

CANCELLED_ON = "cancelled_on"
"""Field: the node whose daemon reports the cancelled step; another node may have failed."""
NODE_NAMING = frozenset(
    (
        "slurm.node_failure",
        "slurm.tasks_terminated",
        "slurm.oom_kill",
        "slurm.launch_failure",
        "launch.ssh_unreachable",
        "launch.nodes_missing",
        "ray.node_dead",
        "k8s.pod_error",
        "k8s.node_not_ready",
        "rank.exit_error",
        "rank.killed",
        "rank.segfault",
        "rank.bus_error",
        "rank.abort",
    )
)
"""Lines that may name the node that they are about, and that are in another node's log."""

OTHERS_ENDS = frozenset(
    ("ray.node_dead", "launch.ssh_unreachable", "launch.nodes_missing", "k8s.node_not_ready")
)
"""The subset that others report about an unresponsive node; never about the reporting node."""

SCHEDULER = frozenset(
    ("slurm.time_limit", "slurm.preempted", "slurm.cancelled", "slurm.kill_timeout", "launch.agent_signalled")
)
"""The whole job was ended on purpose: no culprit."""

LOST = ("gpu_lost", "gpu.lost", "gpu_stuck", "gpu_missing")
GPU_GONE = frozenset(("gpu.xid.fell_off", *LOST))
"""Reports of a GPU that is gone."""

NEW_ATTEMPT = "elastic.worker_restart"

PRECURSORS = frozenset(
    ("pcie.aer", "num.grad_nan", "num.overflow_skip", "train.mem_pressure", "host.cpu_throttle")
)
"""Signs before a fault: they are shown in the timeline, the fault is the headline."""

_DEATH = ("rank.killed", "rank.vanished", "proc.sigkill", "slurm.tasks_terminated", "ray.worker_died",
          "data.loader_crash", "k8s.pod_error", "rank.exit_error", "mpi.abort")  # fmt: skip
_XID_ENDS = ("cuda.*", "nccl.cuda_error", "nccl.watchdog_cuda_fault", "nccl.heartbeat_stuck", "gpu.lost",
             "gpu_lost", "gpu_stuck", "gpu.xid.recovery", "ecc_uncorrected", "recovery_action", "gpu_missing",
             "launch.invalid_device", "oom.cuda_driver", "oom.cublas")  # fmt: skip
_SLOW_STORAGE = (
    "kernel.hung_task",
    "data.loader_timeout",
    "storage.io_error",
    "storage.stale",
    "ckpt.write_fail",
)
_ENDED_JOB = (*_DEATH, "launch.agent_signalled", "slurm.cancelled", "proc.*", "rank.*", "elastic.*")

EXPLAINS: Mapping[str, tuple[str, ...]] = {
    "oom.host.kernel": (*_DEATH, "oom.host.cgroup", "slurm.oom_kill", "proc.sigterm"),
    "oom.host.cgroup": (*_DEATH, "slurm.oom_kill", "launch.agent_signalled"),
    "slurm.oom_kill": (*_DEATH, "launch.agent_signalled"),
    "oom.ray": _DEATH,
    "oom.host.alloc": ("data.loader_crash", "proc.abort", "rank.abort"),
    "data.loader_crash": ("proc.sigkill",),
    "oom.shm": ("rank.bus_error", "proc.bus_error", "data.loader_crash", "nccl.system_error"),
    "nccl.shm_exhausted": ("rank.bus_error", "proc.bus_error", "nccl.system_error", "oom.shm"),
    "storage.full": ("ckpt.write_fail", "storage.io_error"),
    "storage.quota": ("ckpt.write_fail", "storage.io_error"),
    "storage.readonly": ("ckpt.write_fail", "storage.io_error"),
    "storage.nfs": _SLOW_STORAGE,
    "storage.lustre": _SLOW_STORAGE,
    "storage.device": ("storage.io_error", "storage.readonly", "kernel.hung_task", "ckpt.write_fail"),
    "rank.killed": ("proc.sigkill", "rank.vanished"),
    "rank.exit_error": ("python.exception", "rank.vanished"),
    "rank.segfault": ("proc.segfault", "rank.vanished"),
    "rank.bus_error": ("proc.bus_error", "rank.vanished"),
    "rank.abort": ("proc.abort", "rank.vanished"),
    "rank.terminated": ("proc.sigterm", "rank.vanished"),
    "python.exception": ("rank.vanished",),
    "rank.vanished": ("job.hang",),
    "gpu.driver_mismatch": ("cuda.no_device",),
    "launch.invalid_device": ("cuda.no_device", "mpi.abort"),
    "gloo.loopback_fallback": ("gloo.connect_failed", "c10d.store_unreachable"),
    "num.grad_nan": ("num.scale_min",),
    "rdma.port_event": ("rdma.*", "net.nic.link"),
    "net.nic.fw": ("rdma.*", "net.nic.link"),
    "net.nic.link": ("rdma.qp_setup", "rdma.transport_retry", "rdma.flushed"),
    "rdma.async_fatal": ("rdma.transport_retry", "rdma.flushed"),
    "slurm.time_limit": _ENDED_JOB,
    "slurm.preempted": _ENDED_JOB,
    "k8s.preempted": _ENDED_JOB,
    "serve.stalled": ("proc.sigkill", "rank.killed", "proc.sigterm", "python.exception"),
    "node.preempted": (*_ENDED_JOB, "jax.task_lost", "node_lost", "ray.node_dead"),
    "slurm.node_failure": ("node_lost", "ray.node_dead", "slurm.cancelled", "rank.*", "proc.*"),
    REBOOTED: (*_DEATH, "node_lost", "ray.node_dead", "slurm.node_failure"),
    "k8s.node_not_ready": ("k8s.pod_error", "node_lost", "ray.node_dead", "jax.task_lost", "rank.*"),
    "node_lost": ("ray.node_dead", "slurm.node_failure", "k8s.pod_error", "k8s.node_not_ready"),
    "kernel.mce": (*_DEATH, "node_lost", "slurm.node_failure", "ray.node_dead", "launch.ssh_unreachable"),
    "kernel.panic": ("node_lost", "slurm.node_failure", "ray.node_dead"),
    "gpu.xid.fell_off": (*_XID_ENDS, "gpu.xid.gsp", "gpu.xid.driver", "pcie.aer_fatal", "pcie.aer"),
    "gpu.xid.ecc": (*_XID_ENDS, "gpu.xid.app", "gpu.xid.nvlink", "gpu.nvswitch.sxid", "gpu.xid.remap"),
    "gpu.nvswitch.sxid": (*_XID_ENDS, "gpu.xid.app"),
    "amd.ras": ("amd.*", "cuda.*", "rank.abort", "proc.abort"),
    "gpu.xid.gsp": _XID_ENDS,
    "gpu.xid.nvlink": (*_XID_ENDS, "cuda.nvlink", "gpu.xid.app"),
    "gpu.xid.driver": _XID_ENDS,
    "gpu.xid.app": ("cuda.*", "nccl.cuda_error", "nccl.watchdog_cuda_fault", "gpu.xid.recovery"),
    "cuda.ecc": ("nccl.watchdog_cuda_fault", "nccl.cuda_error", "ecc_uncorrected"),
    "cuda.nvlink": ("nccl.watchdog_cuda_fault", "nccl.cuda_error"),
    "gpu.lost": ("cuda.*", "launch.invalid_device", "nccl.cuda_error"),
    "gpu_lost": ("cuda.*", "gpu.lost", "launch.invalid_device", "nccl.cuda_error", "gpu_stuck"),
    "oom.cuda": (
        "oom.cublas", "oom.host.alloc", "oom.reported", "cuda.lib_fail", "nccl.cuda_oom", "nccl.cuda_error",
    ),
    "c10d.addr_in_use": ("c10d.store_unreachable", "elastic.*", "c10d.store_connect_retry"),
    "nccl.duplicate_gpu": ("nccl.invalid_usage",),
}  # fmt: skip
"""Cause -> its effects on the same rank, GPU or node within minutes."""


def explains(cause: str, effect: str) -> bool:
    """True if a class is known to cause another one at the same place."""
    return any(
        effect == each or (each.endswith("*") and effect.startswith(each[:-1]) and effect != cause)
        for each in EXPLAINS.get(cause, ())
    )
