"""What the agent says of a real GPU against what `nvidia-smi` says of it, seconds apart.

Set GPUWATCH_KEEP_FRAMES=FILE to keep the frames of the run, one JSON object a line, as a fixture.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuwatch.fleet.nodes.node import Node
from gpuwatch.hosts.builtin import local_plan
from gpuwatch.link.stream.inbox import Arrival, Content
from gpuwatch.session import Session
from gpuwatch.wire import Bye, Event, Hello, Ranks, Reply, Sample, encode
from tests.end_to_end.cluster import watch

pytestmark = pytest.mark.gpu

NVML_BYTES = 35e6
"""What libnvidia-ml and libcuda take beside the agent's own memory: 31 MB on an H200 with driver 580."""
FRAMES = Hello | Sample | Ranks | Event | Reply | Bye


def smi(*fields: str) -> list[list[str]]:
    """A row of strings per GPU, in nvidia-smi's order."""
    argv = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    done = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60)
    return [[cell.strip() for cell in line.split(",")] for line in done.stdout.splitlines()]


class Kept:
    """Every frame that arrived, for the fixture."""

    def __init__(self) -> None:
        self.frames: list[Content] = []

    def put(self, arrival: Arrival) -> None:
        self.frames.append(arrival.what)

    def write(self, path: Path) -> None:
        path.write_bytes(b"".join(encode(frame) for frame in self.frames if isinstance(frame, FRAMES)))


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """This machine after three slow ticks' worth of samples."""
    if shutil.which("nvidia-smi") is None or not smi("uuid"):
        pytest.skip("no NVIDIA GPU here")
    kept = Kept()
    with Session(local_plan()) as session:
        put = session.inbox.put

        def keep(arrival: Arrival) -> None:
            kept.put(arrival)
            put(arrival)

        session.inbox.put = keep  # type: ignore[method-assign]
        (found,) = session.fleet.nodes.values()
        watch(
            session,
            lambda _fleet, _now: (
                bool(found.gpus)
                and all(gpu.fast and gpu.medium and gpu.slow for gpu in found.gpus.values())
                and sum(isinstance(frame, Sample) for frame in kept.frames) >= 12
            ),
            90,
        )
        yield found
    if target := os.environ.get("GPUWATCH_KEEP_FRAMES"):
        kept.write(Path(target))


def test_the_inventory_is_nvidia_smis(node: Node) -> None:
    rows = smi("uuid", "name", "memory.total", "power.default_limit", "clocks.max.sm")
    for uuid, name, memory, limit, clock in rows:
        info = node.gpus[uuid].info
        assert info.name == name
        assert info.memory_total_bytes == pytest.approx(float(memory) * (1 << 20), rel=0.02)
        assert info.power_limit_default_w == pytest.approx(float(limit), abs=1)
        assert info.sm_clock_max_mhz == int(clock)


def test_the_values_are_nvidia_smis(node: Node) -> None:
    rows = smi("uuid", "temperature.gpu", "memory.used", "enforced.power.limit", "power.draw")
    for uuid, temperature, used, limit, power in rows:
        gpu = node.gpus[uuid]
        assert gpu.fast is not None
        assert gpu.medium is not None
        assert gpu.fast.temperature_c == pytest.approx(float(temperature), abs=5)
        assert gpu.fast.memory_used_bytes == pytest.approx(float(used) * (1 << 20), abs=1 << 29)
        assert gpu.medium.power_limit_w == pytest.approx(float(limit), abs=1)
        assert gpu.fast.power_w == pytest.approx(float(power), rel=0.5, abs=30)


def test_a_gpu_that_offers_activity_counters_gives_them(node: Node) -> None:
    for gpu in node.gpus.values():
        if not gpu.info.gpm:
            pytest.skip(f"{gpu.info.name} has no GPM")
        assert gpu.fast is not None
        assert gpu.fast.sm_activity_pct is not None
        assert gpu.fast.tensor_activity_pct is not None
        assert gpu.fast.dram_activity_pct is not None


def test_watching_costs_little(node: Node) -> None:
    assert node.cost is not None
    assert node.cost.nvml_calls_per_gpu_s is not None
    assert node.cost.nvml_calls_per_gpu_s <= 8.5
    assert node.cost.rss_bytes is not None
    assert node.cost.rss_bytes <= NVML_BYTES + 40e6


def test_nothing_is_wrong_with_the_driver(node: Node) -> None:
    assert node.hello is not None
    assert node.hello.driver
    trouble = [notice for notice in node.hello.notices if notice.severity == "critical"]
    assert trouble == []
