"""Remedies for conditions, in one or two sentences: the first step of an on-call engineer."""

from __future__ import annotations

from gpuwatch.diagnose.model.condition import Condition
from gpuwatch.fleet.nodes.node import Node

_VANISHED = (
    "Read the end of its log, the kernel log (OOM killer, segfault) and the launcher's output; the others "
    "wait for it."
)
_UNWATCHED = (
    "Read the launcher's output and the kernel log of the node for that time; if the job was not ended on "
    "purpose, start it again."
)
_UNSTARTED = (
    "Compare the job's world size with the launchers that were started; read the output of the missing "
    "launcher. If these ranks run on other nodes, add those to the hosts file."
)
_NO_START = (
    "Run `gpuwatch stacks` to see where each rank waits: in the rendezvous, in its first collective, or "
    "before it connects. Compare MASTER_ADDR, MASTER_PORT and the world size of the ranks."
)

_UNENDED = (
    "Run `gpuwatch stacks` to see what it waits for: workers of its data loader, an upload, a collective. "
    "It keeps its GPU and its launcher until it ends."
)

_STOPPED = (
    "Find who stopped it (`kill -STOP`, Ctrl-Z, a debugger); `kill -CONT PID` on its node lets it run on. "
    "The others wait for it in their next collective."
)

_STOPPED_LAUNCHER = (
    "Find who stopped it (`kill -STOP`, Ctrl-Z); `kill -CONT PID` on its node, or `fg` in its shell, lets it "
    "run on. Its ranks stop as soon as the pipe for their output is full."
)

REMEDIES: dict[str, str] = {
    "gpu_lost": "Drain the node and read its kernel log for the Xid. Only a reboot brings it back; if it "
    "falls off the bus again, replace it.",
    "node_rebooted": "Find the reason with `journalctl -b -1 -e` and in the BMC's event log; "
    "its ranks have ended.",
    "launcher_killed": "Read the kernel log of the node (OOM killer) and see who was logged in; ranks that "
    "still run have lost their store and output. End the rest of the job before you start it again.",
    "rank.vanished": _VANISHED,
    "job.unwatched_end": _UNWATCHED,
    "rank.unstarted": _UNSTARTED,
    "rank_unstarted": _UNSTARTED,
    "rank.suspended": _STOPPED,
    "rank_suspended": _STOPPED,
    "launcher.suspended": _STOPPED_LAUNCHER,
    "launcher_suspended": _STOPPED_LAUNCHER,
    "rank.unended": _UNENDED,
    "rank_unended": _UNENDED,
    "job.silent": "Press `D`, or run `gpuwatch stacks`, to see where each rank is: in a collective, a data "
    "loader or a file system. A long evaluation or checkpoint is silent too.",
    "job.no_start": _NO_START,
    "job_no_start": _NO_START,
    "rank_missing": _VANISHED,
    "gpu_stuck": "Look for Xids in the kernel log and for processes in state D; usually only a reboot helps.",
    "gpu_stale": "Its values are old: do not rely on them. If it continues, the driver is about to hang.",
    "values_unreadable": "Run `nvidia-smi -q` on the node and read the kernel log for Xids; if it "
    "persists, reboot the node.",
    "gpu_missing": "Compare `lspci` with `nvidia-smi -L`; read the kernel log; reseat or replace the GPU.",
    "temperature": "Check the fans, the inlet air or the coolant, and whether the neighbours are hot too.",
    "memory_temperature": "Check the cooling; hot memory slows down and wears out sooner.",
    "hw_thermal": "The clock is lowered to protect the hardware: check the cooling now.",
    "sw_thermal": "Check the cooling; this rank slows all the others down.",
    "power_brake": "Check the power supplies, the rack's power and its limits.",
    "ecc_uncorrected": "End the job on it, then reset the GPU so that the bad rows are remapped; replace it "
    "if they come back.",
    "remap_failed": "There are no spare rows left: replace the GPU.",
    "remap_pending": "Reset the GPU (`nvidia-smi -r`) when it is idle; until then the bad row stays in use.",
    "retired_pending": "Reset the GPU (`nvidia-smi -r`) when it is idle.",
    "recovery_action": "Carry out the recovery that the driver requests before the next job starts there.",
    "pcie_degraded": "Reseat the GPU or the riser; look for PCIe errors (AER) in the kernel log.",
    "nvlink_down": "Look at `nvidia-smi nvlink -s` and the fabric manager; collectives take a slower path.",
    "nvlink_errors": "Compare both ends with `nvidia-smi nvlink -e`; links that recover often fail soon.",
    "pcie_replays": "Reseat the GPU or the riser; many replays come before a GPU falls off the bus.",
    "hotter_than_peers": "Look at its fan, heat sink or cold plate: its neighbours do the same work.",
    "slower_than_peers": "Find the reason with `nvidia-smi -q -d PERFORMANCE`; "
    "all ranks wait for this GPU in every step.",
    "spins_alone": "Compare its batch, shard or stage with its peers'; if the job stops, press `D`.",
    "link_below_peers": "Measure it (`gpuwatch probe SOURCE`); look at riser, slot and NVLinks.",
    "probe_slow": "Look at its cable, port and counters; once they are mended, probe again: that ends "
    "this alert.",
    "lone_gpu": "If the training is meant for all GPUs: unset CUDA_VISIBLE_DEVICES, and start one rank "
    "per GPU (`torchrun --nproc-per-node=gpu`).",
    "less_used_than_peers": "See what its process does (`gpuwatch stacks SOURCE --pid PID`): its data, its "
    "host threads or its share of the model differ.",
    "idle_held": "Find out whose process it is; a rank that waits for others is idle too.",
    "node_stale": "The node or the network to it is overloaded or down; the last values stay, dimmed.",
    "clock_off": "Start its time service (chrony, ntpd): events of this node may appear in the wrong order.",
    "scheduler_state": "Read the reason; once it is fixed: `scontrol update NodeName=NODE State=RESUME`, "
    "`kubectl uncordon NODE`.",
    "host_memory": "End or shrink the largest process before the kernel's OOM killer ends one.",
    "disk_full": "Make room: a checkpoint that cannot be written ends the job.",
    "ib_down": "Check cable, switch port and `ibstat`; the job's traffic uses fewer ports, or none.",
    "job.hang": "Before anything is killed, find the rank that the others wait for "
    "(`gpuwatch stacks SOURCE`, or D here); then end the job and start it again without the suspect's node.",
    "num.loss_rising": "Go back to the checkpoint before the rise; check the learning rate and the data "
    "there.",
    "num.grad_explodes": "Check clipping and the learning rate; look at the batch of these steps.",
    "num.grad_vanishes": "Check that the loss reaches the parameters (detached graph, frozen weights, "
    "wrong mask).",
    "num.steps_skipped": "The loss scale is too high or the run diverges: look at the gradient norm.",
    "train.restarted": "Look above the repeated step, in all logs, for why the previous attempt ended.",
    "train.data_bound": "More loader workers, faster storage, or prefetching.",
    "serve.errors": "Look at the server's log for the first failed request, and at its GPUs (Xid, memory).",
    "serve.queue_grows": "More requests arrive than it serves: add a replica, or lower the load; a full KV "
    "cache limits the requests served at once.",
    "serve.unreachable": "Check whether the server runs and whether its metrics are enabled "
    "(SGLang: --enable-metrics).",
    "num.plateau": "Check the learning rate and whether the gradients reach the parameters; "
    "`gpuwatch explain loss-not-decreasing` has more.",
    "ranks_claimed_twice": "End the processes of an earlier attempt, or name the job of each: two jobs with "
    "the same port and no id look like one.",
    "ranks_crowded": "Look for processes of an earlier attempt, and for helpers that inherit RANK.",
    "host_name_taken": "Compare the addresses in the hosts file: two entries may lead to one machine.",
    "clock_unsure": "Times of this node's events may be off by the round trip; look at the load of the "
    "connection.",
    "processes_partial": "Log in as the user of the job or as root: some of /proc is hidden from this user.",
    "frames_refused": "If gpuwatch was behind, lengthen the interval (`-d`); else look for a program that "
    "writes into the agent's output, compare the versions of gpuwatch on both ends, and please report it.",
    "agent_behind": "Lengthen the interval (`-d`), or follow fewer logs on this node.",
    "agent_cost": "Lengthen the interval (`-d`), and please report it.",
}
"""Condition code -> remedy. A lost node has none: the reason names it."""


def remedy_for(condition: Condition, node: Node) -> str:
    """Return the remedy of the Xid or notice behind a condition, else that of its code; "" if none."""
    if condition.code == "xid":
        for event in reversed(node.events):
            if event.event == "xid" and event.remedy and event.title in condition.text:
                return event.remedy
    for notice in node.hello.notices if node.hello else ():
        if notice.code == condition.code and notice.remedy:
            return notice.remedy
    return REMEDIES.get(condition.code, "")
