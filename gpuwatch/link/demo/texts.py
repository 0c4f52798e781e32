"""The demo's log lines: of a rank, a launcher and a node's kernel.

Every line is a pure function of writer and time. Times are local, as in torch and logging.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from functools import partial

from msgspec import Struct

from gpuwatch.link.demo import machines, scenario
from gpuwatch.link.demo.log_files import LogText, Records, ScenarioLine
from gpuwatch.link.demo.scenario import FALL_AT, GPUS_PER_NODE, LOST_GPU, STRAGGLER, noise
from gpuwatch.wire import KERNEL_LOG

FOLDER = "/scratch/demo/helios-13b/logs"
SCRIPT = "pretrain.py"
NUMEL = 52_428_800
STARTED_AT = scenario.second_of(1) - 74.0
"""Start of the launchers; everything before the first step is start-up."""
BOOTED_AT = -11.0 * 86_400
FIRST_PID = 52_000
LAUNCHER_PID = 51_900


def log_stamp(at: float) -> str:
    """Return unix time in the form of Python's logging: `2026-11-21 03:12:17,123`."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at)) + f",{int(at % 1 * 1000):03}"


def glog_stamp(at: float) -> str:
    """Return the stamp of a unix time in torch's C++ logs: `1121 03:12:17.123456789` (local time)."""
    return time.strftime("%m%d %H:%M:%S", time.localtime(at)) + f".{int(at % 1 * 1e9):09}"


class Writer(Struct, frozen=True):
    """A rank as the writer of a log; `epoch` is the unix time of second 0."""

    seed: int
    node: int
    name: str
    gpu: int
    world: int
    epoch: float

    @property
    def rank(self) -> int:
        """Return the global rank."""
        return self.node * GPUS_PER_NODE + self.gpu

    @property
    def pid(self) -> int:
        """Return the pid of the rank's process."""
        return FIRST_PID + self.gpu

    @property
    def place(self) -> tuple[int, int]:
        """Return (node, GPU) of the rank, counted from 0."""
        return self.node, self.gpu


def rank_path(rank: int) -> str:
    """Return the path of a rank's log."""
    return f"{FOLDER}/rank_{rank:03}.log"


def launcher_path(name: str) -> str:
    """Return the path of a node's launcher log."""
    return f"{FOLDER}/launch_{name}.log"


def rank_log(writer: Writer) -> LogText:
    """Return a rank's log: start-up, a line per step, and its watchdog's final lines."""
    head, tail = partial(_rank_head, writer), partial(_rank_tail, writer)
    return LogText(rank_path(writer.rank), head, tail, partial(_step, writer), lag(writer))


def lag(who: Writer) -> float:
    """Return the seconds from the end of a step to its log line; it differs by rank."""
    return 0.05 * (noise(who.seed, who.rank, 21) + 1.0) / 2.0


def _rank_head(who: Writer) -> list[ScenarioLine]:
    bus = machines.bus_id(who.gpu).split(":")[1].lower()
    nccl = f"{who.name}:{who.pid}:{who.pid} [{who.gpu}] NCCL INFO"
    lines = (
        (2.0, "[INFO] DEMO: the simulated job helios-13b; nothing in this file is real"),
        (2.1, f"[INFO] rank {who.rank} of {who.world} on {who.name}, local rank {who.gpu}, pid {who.pid}"),
        (2.4, f"[INFO] process group: nccl, timeout {scenario.TIMEOUT_S:.0f} s (short, as this is a demo)"),
        (30.0, f"[INFO] data: shard {who.rank} of {who.world} opened"),
        (66.0, "[INFO] model: 13.0 B parameters, bf16, sharded over 8 GPUs"),
    )
    joined = (
        f"{nccl} comm 0x5d{who.gpu:02x}e0 rank {who.rank} nranks {who.world} cudaDev {who.gpu} "
        f"nvmlDev {who.gpu} busId {bus}000 commId 0x7a11d3c0ffee - Init COMPLETE"
    )
    stated = [ScenarioLine(STARTED_AT + after, f"{log_stamp(who.epoch + STARTED_AT + after)} {text}")
            for after, text in lines]  # fmt: skip
    return [*stated[:3], ScenarioLine(STARTED_AT + 8.0, joined), *stated[3:]]


def _step(who: Writer, number: int) -> ScenarioLine:
    """Return the line of a step; all have the same length, so that offsets follow from numbers."""
    done = scenario.second_of(number)
    took = done - scenario.second_of(number - 1)
    wait = took - scenario.COMPUTE_S - scenario.ALLREDUCE_S if who.place != STRAGGLER else 0.02
    compute = took - max(0.02, wait) - scenario.ALLREDUCE_S
    loss = 2.05 + 3.1 * math.exp(-number / 700.0) + 0.05 * noise(who.seed, who.rank, number, 22)
    norm = 0.71 + 0.22 * noise(who.seed, number, 23)
    tokens = 2 * 8192 / took
    second = done + lag(who)
    return ScenarioLine(
        second,
        f"{log_stamp(who.epoch + second)} [INFO] step {number:6}/50000 | loss {loss:6.4f} | "
        f"grad norm {norm:5.3f} | lr 3.00e-04 | step time {took:5.2f} s | compute {compute:5.2f} s | "
        f"waiting {max(0.02, wait):5.2f} s | {tokens:6.0f} tokens/s",
    )


def _rank_tail(who: Writer) -> list[ScenarioLine]:
    """Return a rank's final lines; none for the rank on the lost GPU, which hangs in the driver."""
    if who.place == LOST_GPU:
        return []
    reported, ends = scenario.reports_at(who.seed, *who.place), scenario.ends_at(who.seed, *who.place)
    ran_ms = (reported - scenario.waits_from(who.seed, *who.place)) * 1000.0
    hung = scenario.LAST_STEP + 1
    work = (
        f"[Rank {who.rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={hung}, "
        f"OpType=ALLREDUCE, NumelIn={NUMEL}, NumelOut={NUMEL}, Timeout(ms)={scenario.TIMEOUT_S * 1000:.0f}) "
        f"ran for {ran_ms:.0f} milliseconds before timing out."
    )
    group = f"[PG ID 0 PG GUID 0(default_pg) Rank {who.rank}]"
    status = f"PG status: last enqueued work: {hung + 1}, last completed work: {hung - 1}"

    def logged(at: float, line: int, text: str) -> ScenarioLine:
        stamp = glog_stamp(who.epoch + at)
        return ScenarioLine(at, f"[rank{who.rank}]:[E{stamp} ProcessGroupNCCL.cpp:{line}] {text}")

    late = "Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, "
    dead = f"{group} Process group watchdog thread terminated with exception: {work}"
    return [
        logged(reported, 688, work),
        logged(
            reported + 0.002,
            2277,
            f"{group}  failure detected by watchdog at work sequence id: {hung} {status}",
        ),
        logged(
            ends - 0.12, 726,
            f"[Rank {who.rank}] {late}subsequent GPU operations might run on corrupted/incomplete data.",
        ),
        logged(
            ends - 0.12, 740,
            f"[Rank {who.rank}] To avoid data inconsistency, we are taking the entire process down.",
        ),
        logged(ends - 0.11, 2068, dead),
        ScenarioLine(ends - 0.1, "terminate called after throwing an instance of 'c10::DistBackendError'"),
        ScenarioLine(ends - 0.1, f"  what():  {dead}"),
    ]  # fmt: skip


# --------------------------------------------------------------------------- launcher


def launcher_log(seed: int, node: int, name: str, nodes: int, epoch: float) -> LogText:
    """Return a node's launcher log: its start, and the summary after its ranks ended."""
    ranks = [Writer(seed, node, name, gpu, nodes * GPUS_PER_NODE, epoch) for gpu in range(GPUS_PER_NODE)]
    return LogText(launcher_path(name), partial(_launcher_head, ranks), lambda: list(_launcher_tail(ranks)))


def _elastic(epoch: float, second: float, letter: str, where: str, text: str) -> ScenarioLine:
    stamp = glog_stamp(epoch + second)[:-3]
    return ScenarioLine(second, f"{letter}{stamp} {LAUNCHER_PID} torch/distributed/{where}] {text}")


def _launcher_head(ranks: list[Writer]) -> list[ScenarioLine]:
    who = ranks[0]
    report = partial(_elastic, who.epoch)
    nodes = who.world // GPUS_PER_NODE
    where = "launcher/api.py:202"
    return [
        report(STARTED_AT, "I", where, "DEMO: the simulated job helios-13b; nothing in this file is real"),
        report(STARTED_AT, "I", where, f"launching {SCRIPT}: {nodes} nodes, {GPUS_PER_NODE} ranks each"),
        report(STARTED_AT + 1, "I", "elastic/agent/server/api.py:525",
             f"[default] rendezvous complete: group rank {who.node}, global ranks "
             f"{ranks[0].rank} to {ranks[-1].rank}, world size {who.world}"),
    ]  # fmt: skip


def _launcher_tail(ranks: list[Writer]) -> Iterator[ScenarioLine]:
    """Yield the launcher's last lines: signals to the ranks that still run, then the failed ranks.

    The signals are SIGTERM, and SIGKILL for ranks that do not end by it. The first rank's exit status
    precedes torchrun's table of failures.
    """
    end = {who: scenario.ends_at(who.seed, *who.place) for who in ranks}
    first = min(ranks, key=lambda who: end[who])
    seen = end[first] + 0.1
    report = partial(_elastic, first.epoch)
    where = "elastic/multiprocessing/api.py"
    running = [who for who in ranks if end[who] > seen]
    for who in running:
        yield report(seen, "W", f"{where}:908", f"Sending process {who.pid} closing signal SIGTERM")
    over = seen + 0.3
    for who in running:
        if end[who] > over:
            over = end[who]
            text = f"Unable to shutdown process {who.pid} via Signals.SIGTERM, "
            yield report(over, "W", f"{where}:925", text + "forcefully exiting via Signals.SIGKILL")
    failed = [who for who in ranks if who not in running]
    text = f"failed (exitcode: -6) local_rank: {first.gpu} (pid: {first.pid}) of binary: /usr/bin/python3"
    yield report(over, "E", f"{where}:882", text)
    clock = time.strftime("%Y-%m-%d_%H:%M:%S", time.localtime(first.epoch + seen))
    for text in _summary(first, failed, clock):
        yield ScenarioLine(over + 0.05, text)


def _summary(first: Writer, failed: list[Writer], clock: str) -> Iterator[str]:
    """Yield the lines of the table that torchrun prints at its end."""
    yield "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: "
    yield "=" * 60
    yield f"{SCRIPT} FAILED"
    yield "-" * 60
    others = [who for who in failed if who is not first]
    yield "Failures:"
    if not others:
        yield "  <NO_OTHER_FAILURES>"
    for number, who in enumerate(others, 1):
        yield from _failure(who, number, clock)
    yield "-" * 60
    yield "Root Cause (first observed failure):"
    yield from _failure(first, 0, clock)
    yield "=" * 60


def _failure(who: Writer, number: int, clock: str) -> Iterator[str]:
    yield f"[{number}]:"
    yield f"  time      : {clock}"
    yield f"  host      : {who.name}"
    yield f"  rank      : {who.rank} (local_rank: {who.gpu})"
    yield f"  exitcode  : -6 (pid: {who.pid})"
    yield "  error_file: <N/A>"
    yield f"  traceback : Signal 6 (SIGABRT) received by PID {who.pid}"


# --------------------------------------------------------------------------- kernel


def kernel_log(node: int, name: str) -> LogText:
    """Return a node's kernel log; the node that loses its GPU has messages of bus and driver in it.

    A record's time is not part of its text.
    """
    return Records(KERNEL_LOG, lambda: list(_records(node, name)))


def _records(node: int, name: str) -> Iterator[ScenarioLine]:
    yield ScenarioLine(BOOTED_AT + 0.5, f"DEMO: the simulated kernel of {name}; nothing in this log is real")
    yield ScenarioLine(BOOTED_AT + 14.2, "nvidia: loading out-of-tree module taints kernel.")
    yield ScenarioLine(BOOTED_AT + 15.8, "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.00.00-demo")
    yield ScenarioLine(
        STARTED_AT - 3.0, "nvidia-nvlink: Nvlink Core is being initialized, major device number 511"
    )
    if node != LOST_GPU[0]:
        return
    device = machines.bus_id(LOST_GPU[1])[4:].lower()
    port = f"pcieport {device[:5]}c0:01.0"
    bus_error = "PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Receiver ID)"
    for second, status in ((36.21, "00000040"), (41.87, "00000040"), (43.93, "00001040")):
        yield ScenarioLine(second, f"{port}: AER: Corrected error message received from {device}")
        yield ScenarioLine(second, f"nvidia {device}: {bus_error}")
        yield ScenarioLine(
            second, f"nvidia {device}:   device [10de:2330] error status/mask={status}/0000e000"
        )
    yield from _fall(device, port)


def _fall(device: str, port: str) -> Iterator[ScenarioLine]:
    """Yield the records of the GPU that falls off the bus: link down, the driver's error, and its advice."""
    bus = device[:-2]
    yield ScenarioLine(
        FALL_AT - 0.06, f"{port}: AER: Uncorrected (Fatal) error message received from {device}"
    )
    yield ScenarioLine(
        FALL_AT - 0.06,
        f"{port}: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Receiver ID)",
    )
    yield ScenarioLine(FALL_AT, fall_record())
    yield ScenarioLine(FALL_AT, f"NVRM: GPU {device}: GPU has fallen off the bus.")
    action = "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
    yield ScenarioLine(FALL_AT + 0.04, f"NVRM: Xid (PCI:{bus}): 154, {action}")


def fall_record() -> str:
    """Return the kernel's message about the lost GPU."""
    bus, pid = machines.bus_id(LOST_GPU[1])[4:-2].lower(), FIRST_PID + LOST_GPU[1]
    return f"NVRM: Xid (PCI:{bus}): 79, pid={pid}, name=python3, GPU has fallen off the bus."
