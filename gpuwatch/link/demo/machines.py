"""The demo cluster's static inventory. All names are fictional."""

from __future__ import annotations

from gpuwatch import __version__
from gpuwatch.link.demo import scenario
from gpuwatch.wire import GpuInfo, Hello, Notice, Topology

BUS_NUMBERS = (0x1B, 0x43, 0x52, 0x61, 0x9D, 0xC3, 0xD1, 0xDF)
HOST_MEMORY = 2 << 40
CPU_COUNT = 224
NOTICE = Notice("demo", "DEMO: a simulated node; no machine, GPU or job behind it exists")


def uuid(node: int, gpu: int) -> str:
    """Return a GPU's UUID, the same in every run."""
    return f"GPU-de300000-0000-4000-8000-{node:08x}{gpu:04x}"


def bus_id(gpu: int) -> str:
    """Return a GPU's PCI address in NVML's format."""
    return f"00000000:{BUS_NUMBERS[gpu]:02X}:00.0"


def gpu_info(node: int, gpu: int) -> GpuInfo:
    """Return the constant properties of one GPU, with the limits of an H100 SXM."""
    return GpuInfo(
        uuid=uuid(node, gpu),
        index=gpu,
        name="DEMO H100 80GB",
        bus_id=bus_id(gpu),
        memory_total_bytes=scenario.MEMORY_TOTAL,
        power_limit_default_w=scenario.POWER_LIMIT_W,
        power_limit_max_w=scenario.POWER_LIMIT_W,
        temperature_slowdown_c=scenario.SLOWDOWN_C,
        temperature_shutdown_c=scenario.SHUTDOWN_C,
        temperature_memory_max_c=scenario.MEMORY_MAX_C,
        sm_clock_max_mhz=scenario.CLOCK_MAX_MHZ,
        memory_clock_max_mhz=2619,
        pcie_gen_max=5,
        pcie_width_max=16,
        nvlink_count=18,
        ecc_enabled=True,
        persistence=True,
        mig_enabled=False,
        gpm=True,
        numa_node=gpu // 4,
        cpu_affinity="0-55,112-167" if gpu < 4 else "56-111,168-223",
        vbios="DE.M0.00.00.01",
        serial=f"DEMO{node:03}{gpu}",
        architecture="hopper",
    )


def topology(node: int) -> Topology:
    """Return the topology of a node: all GPUs behind one NVSwitch fabric."""
    size = scenario.GPUS_PER_NODE
    links = [["X" if row == column else "NV18" for column in range(size)] for row in range(size)]
    return Topology([uuid(node, gpu) for gpu in range(size)], links)


def hello(node: int, name: str, t: float, seq: int, interval_s: float) -> Hello:
    """Return the first frame of a demo node. `t`: unix time."""
    return Hello(
        t=t,
        seq=seq,
        host=name,
        agent=__version__,
        python="3.10.12",
        addresses=[f"10.0.{(node + 1) // 256}.{(node + 1) % 256}"],
        pid=4000 + node,
        interval_s=interval_s,
        gpus=[gpu_info(node, gpu) for gpu in range(scenario.GPUS_PER_NODE)],
        gpus_expected=scenario.GPUS_PER_NODE,
        topology=topology(node),
        notices=[NOTICE],
        driver="580.00.00-demo",
        cuda="13.0",
        nvml="13.580.0-demo",
        kernel="6.8.0-demo",
        os="Demo Linux 24.04",
        cpu_model="DEMO CPU 2x56",
        cpu_count=CPU_COUNT,
        memory_total_bytes=HOST_MEMORY,
        boot_id=f"de300000-0000-4000-8000-{node:012x}",
        kernel_log="/dev/kmsg",
    )
