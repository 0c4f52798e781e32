"""Makes the frames that a demo node's agent would send in each tick, from the scenario's values."""

from __future__ import annotations

import math
from collections.abc import Iterator

from msgspec import Struct

from gpuwatch import wire
from gpuwatch.agent.base.rates import short
from gpuwatch.agent.kernel.xid_table import meaning
from gpuwatch.link.demo import machines, scenario, texts
from gpuwatch.link.demo.scenario import FALL_AT, GPUS_PER_NODE, LOST_GPU, SimulatedReading

MEDIUM_S, SLOW_S, RANKS_S, DISKS_S, LOGS_S = 5.0, 30.0, 5.0, 30.0, 5.0
FRAMES_PER_TICK = 256
"""Sequence numbers reserved per tick, so that a frame's number depends only on the tick."""
MEAN_WATTS = {"training": 540.0, "spinning": 131.0, "stopped": 72.0, "lost": 0.0}


class NodeScript(Struct, frozen=True):
    """Makes the frames of one node, number `number` from 0.

    `epoch` is the unix time of the scenario's second 0.
    """

    number: int
    name: str
    nodes: int
    seed: int
    epoch: float

    def tick(
        self, count: int, t: float, before: float | None, hello_interval_s: float | None
    ) -> list[wire.AnyFrame]:
        """Return the frames of tick `count` at second `t`.

        `before` is the second of the previous tick, None at first.
        `hello_interval_s`: interval (seconds) to state in a hello; None if no hello is due.
        """
        seq = count * FRAMES_PER_TICK
        frames: list[wire.AnyFrame] = []
        if hello_interval_s is not None:
            frames.append(machines.hello(self.number, self.name, self.epoch + t, seq, hello_interval_s))
        frames.append(self._sample(seq + 1, t, before))
        if due(RANKS_S, t, before, self.number):
            processes = list(self.processes(t))
            frames.append(wire.Ranks(t=self.epoch + t, seq=seq + 2, processes=processes))
        frames += self._events(seq + 3, t, before)
        return frames

    def _sample(self, seq: int, t: float, before: float | None) -> wire.Sample:
        readings = [scenario.reading(self.seed, self.number, gpu, t) for gpu in range(GPUS_PER_NODE)]
        gpus = [self._gpu(gpu, reading, t, before) for gpu, reading in enumerate(readings)]
        cost = wire.AgentCost(cpu_pct=0.6, rss_bytes=27 << 20, threads=12, nvml_calls_per_gpu_s=6.8)
        host = self._host(readings, t, before)
        return wire.Sample(t=self.epoch + t, seq=seq, gpus=gpus, host=host, agent=cost)

    def _gpu(self, gpu: int, reading: SimulatedReading, t: float, before: float | None) -> wire.GpuSample:
        uuid = machines.uuid(self.number, gpu)
        if reading.phase == "lost":
            return wire.GpuSample(uuid, state="lost", reason="GPU is lost")
        at = self.epoch + t
        return wire.GpuSample(
            uuid,
            fast=fast_tier(reading, at, self._energy(gpu, t)),
            medium=medium_tier(at) if due(MEDIUM_S, t, before, gpu) else None,
            slow=slow_tier(at) if due(SLOW_S, t, before, gpu) else None,
        )

    def _energy(self, gpu: int, t: float) -> float:
        """Return a GPU's energy since the driver was loaded (joules), from the mean power of each phase."""
        stop = scenario.ends_at(self.seed, self.number, gpu)
        legs = (("training", 0.0, FALL_AT), ("spinning", FALL_AT, stop), ("stopped", stop, math.inf))
        spent = sum(MEAN_WATTS[name] * max(0.0, min(t, end) - begin) for name, begin, end in legs)
        return round(9.1e8 + 1e6 * scenario.noise(self.seed, self.number, gpu, 11) + spent, 1)

    def _host(self, readings: list[SimulatedReading], t: float, before: float | None) -> wire.HostSample:
        jitter = scenario.noise(self.seed, self.number, 99, math.floor(t))
        training = readings[0].phase == "training"
        running = sum(reading.phase != "stopped" for reading in readings)
        reduce_bps = 0.12 * readings[0].nvlink_bps
        cpu = 2.0 + (9.5 if training else 1.2) * running / GPUS_PER_NODE + 1.5 * max(0.0, jitter)
        load = 1.2 + (31.0 if training else 9.0) * running / GPUS_PER_NODE
        return wire.HostSample(
            t=self.epoch + t,
            cpu_pct=round(cpu, 1),
            iowait_pct=round(0.3 + 0.2 * jitter, 1),
            load_1m=round(load + jitter, 2),
            load_5m=round(load, 2),
            load_15m=round(load - 0.4, 2),
            memory_total_bytes=machines.HOST_MEMORY,
            memory_used_bytes=(90 << 30) + running * (41 << 30),
            swap_total_bytes=0,
            swap_used_bytes=0,
            nics=[_nic(2.1e7 * (1.0 + 0.3 * jitter) if training else 4e4)],
            ib=[_ib_port(port, reduce_bps) for port in range(8)],
            disks=_disks(self.number) if due(DISKS_S, t, before, 0) else None,
        )

    def processes(self, t: float) -> Iterator[wire.Process]:
        """Yield the processes of the node's ranks that run at second `t` of the scenario."""
        for gpu in range(GPUS_PER_NODE):
            if t < scenario.ends_at(self.seed, self.number, gpu):
                yield self._rank_process(gpu, scenario.reading(self.seed, self.number, gpu, t))

    def _rank_process(self, gpu: int, reading: SimulatedReading) -> wire.Process:
        rank, world = self.number * GPUS_PER_NODE + gpu, self.nodes * GPUS_PER_NODE
        lost = reading.phase == "lost"
        hold = wire.ProcessGpu(
            machines.uuid(self.number, gpu),
            memory_bytes=None if lost else reading.memory_bytes - scenario.MEMORY_IDLE,
            sm_pct=None if lost else round(reading.utilization_pct),
        )
        return wire.Process(
            pid=texts.FIRST_PID + gpu,
            name="python3",
            start=self.epoch + texts.STARTED_AT,
            user="demo-ada",
            command="python3 -u pretrain.py --config helios-13b.yaml",
            state="D" if lost else "R",
            gpus=[hold],
            cpu_pct=0.0 if lost else 104.0,
            rss_bytes=41 << 30,
            rank=rank,
            local_rank=gpu,
            world_size=world,
            master="gpu-001:29500",
            job="418207",
            variables={"RANK": str(rank), "LOCAL_RANK": str(gpu), "SLURM_JOB_ID": "418207"},
            logs=[texts.rank_path(rank)],
        )

    def _events(self, seq: int, t: float, before: float | None) -> list[wire.AnyFrame]:
        def now(at: float) -> bool:
            return t >= at and (before is None or before < at)

        found: list[wire.AnyFrame] = []
        if now(FALL_AT) and self.number == LOST_GPU[0]:
            found += fall_events(seq, self.epoch + FALL_AT)
        return found


def due(every: float, t: float, before: float | None, offset: int) -> bool:
    """Return True if a periodic event (every `every` seconds) is due in this tick, or it is the first tick.

    `offset`: shifts its moment, so that nodes differ.
    """
    return before is None or math.floor((t + offset) / every) > math.floor((before + offset) / every)


def fast_tier(reading: SimulatedReading, at: float, energy_j: float) -> wire.GpuFast:
    """Return the values of a demo GPU's 1 s tier. `at`: unix time."""
    slowed = round(reading.slowdown_pct, 1)
    reasons = ["idle"] if reading.phase == "stopped" else ["sw_thermal"] if slowed > 2.0 else []
    shares = dict.fromkeys(
        ("power_cap", "thermal", "sync_boost", "sw_thermal", "hw_thermal", "power_brake"), 0.0
    )
    return wire.GpuFast(
        t=at,
        utilization_pct=round(reading.utilization_pct),
        memory_utilization_pct=round(reading.dram_pct),
        memory_used_bytes=reading.memory_bytes,
        memory_total_bytes=scenario.MEMORY_TOTAL,
        memory_reserved_bytes=scenario.MEMORY_IDLE,
        temperature_c=round(reading.temperature_c),
        memory_temperature_c=round(reading.temperature_c + 2.0),
        power_w=round(reading.power_w, 1),
        energy_j=energy_j,
        sm_clock_mhz=reading.clock_mhz,
        throttle=reasons,
        throttle_pct={**shares, "thermal": slowed, "sw_thermal": slowed},
        pcie_rx_bps=short(reading.pcie_bps),
        pcie_tx_bps=short(reading.pcie_bps * 0.6),
        nvlink_rx_bps=short(reading.nvlink_bps),
        nvlink_tx_bps=short(reading.nvlink_bps * 0.99),
        sm_activity_pct=round(reading.sm_pct, 1),
        sm_occupancy_pct=round(reading.sm_pct * 0.31, 1),
        tensor_activity_pct=round(reading.tensor_pct, 1),
        dram_activity_pct=round(reading.dram_pct, 1),
        fp32_activity_pct=round(reading.tensor_pct * 0.09, 1),
    )


def medium_tier(at: float) -> wire.GpuMedium:
    """Return the values of a demo GPU's 5 s tier; an H100 SXM has no fan. `at`: unix time."""
    return wire.GpuMedium(
        at, memory_clock_mhz=2619, power_limit_w=scenario.POWER_LIMIT_W, pcie_gen=5, pcie_width=16,
        performance_state=0, encoder_pct=0.0, decoder_pct=0.0,
    )  # fmt: skip


def slow_tier(at: float) -> wire.GpuSlow:
    """Return the values of a demo GPU's 30 s tier: no errors. `at`: unix time."""
    return wire.GpuSlow(
        at, ecc_corrected=0, ecc_uncorrected=0, ecc_corrected_total=0, ecc_uncorrected_total=0,
        remapped_correctable=0, remapped_uncorrectable=0, remap_pending=False, remap_failed=False,
        pcie_replays=0, nvlink_active=18, nvlink_errors={"crc": 0, "replay": 0, "recovery": 0, "ecc": 0},
        recovery_action="none",
    )  # fmt: skip


def fall_events(seq: int, at: float) -> Iterator[wire.Event]:
    """Yield the events of the lost GPU: the Xid from the kernel log, then the loss in the next tick."""
    node, gpu = LOST_GPU
    uuid = machines.uuid(node, gpu)
    _, _, title, remedy = meaning(79)
    yield wire.Event(t=at, seq=seq, event="xid", title=title, severity="critical", gpu=uuid, code=79,
                     pid=texts.FIRST_PID + gpu, detail=texts.fall_record(), remedy=remedy,
                     source="kernel")  # fmt: skip
    yield wire.Event(t=at + 0.4, seq=seq + 1, event="gpu_lost", title="GPU is lost", severity="critical",
                     gpu=uuid, detail="GPU is lost", remedy=remedy, source="agent")  # fmt: skip


def _nic(bps: float) -> wire.Nic:
    return wire.Nic("eno1", "up", 25e9 / 8, short(bps), short(bps * 0.4), 0, 0)


def _ib_port(number: int, bps: float) -> wire.IbPort:
    errors = dict.fromkeys(("symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors"), 0)
    return wire.IbPort(
        f"mlx5_{number}", 1, "ACTIVE", "LinkUp", "InfiniBand", 400.0, short(bps), short(bps * 0.98), errors
    )


def _disks(node: int) -> list[wire.Disk]:
    tera = 1 << 40
    return [
        wire.Disk("/", "ext4", int((0.31 + 0.01 * (node % 40)) * 1.7 * tera), int(1.7 * tera)),
        wire.Disk("/scratch", "lustre", 611 * tera, 900 * tera),
    ]
