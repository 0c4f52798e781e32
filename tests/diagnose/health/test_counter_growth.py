"""Conditions that show only in time or beside others: growing counters, outliers, idle but held GPUs."""

from __future__ import annotations

import pytest
from msgspec import structs

from gpuwatch import wire
from gpuwatch.diagnose.health.counter_growth import Growth
from gpuwatch.diagnose.health.idle_gpus import idle_conditions
from gpuwatch.diagnose.health.peer_comparison import peer_conditions
from gpuwatch.fleet.nodes.node import Gpu
from gpuwatch.hosts.plan import Thresholds
from tests.diagnose.story import EPOCH, FINE, LIMITS, NOW, SLOW, Story, info


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"replay": 5}, {"replay": 5}, []),
        ({"replay": 5}, {"replay": 6}, ["nvlink_errors"]),
        ({"crc": 0}, {"crc": 99}, []),
        ({"crc": 0}, {"crc": 100}, ["nvlink_errors"]),
        ({"recovery": 9}, {"recovery": 0}, []),
        ({}, {"recovery": 4}, []),
        (None, {"recovery": 4}, []),
    ],
)
def test_nvlink_errors_count_by_how_they_grow(
    before: dict[str, int] | None, after: dict[str, int], expected: list[str]
) -> None:
    old, new = (
        structs.replace(SLOW, nvlink_errors=before),
        structs.replace(SLOW, t=EPOCH + 30, nvlink_errors=after),
    )
    assert [each.code for each in Growth(old, new).conditions(Gpu(info(), "n1"), LIMITS)] == expected


@pytest.mark.parametrize(("grown", "expected"), [(15, []), (16, ["pcie_replays"])])
def test_pcie_replays_have_the_limit_of_the_link(grown: int, expected: list[str]) -> None:
    old = structs.replace(SLOW, pcie_replays=100)
    new = structs.replace(SLOW, t=EPOCH + 30, pcie_replays=100 + grown)  # gen 5 x16: 31 a minute
    assert [each.code for each in Growth(old, new).conditions(Gpu(info(), "n1"), LIMITS)] == expected


def eight(**odd: object) -> Story:
    story = Story(gpus=8)
    usual = structs.replace(FINE, sm_clock_mhz=1800)
    readings = [
        wire.GpuSample(f"GPU-{index}", fast=structs.replace(usual, **(odd if index == 5 else {})))
        for index in range(8)
    ]
    story.report(NOW, wire.Sample(t=EPOCH, seq=1, gpus=readings))
    return story


@pytest.mark.parametrize(
    ("odd", "expected"),
    [
        ({"temperature_c": 74}, []),
        ({"temperature_c": 75}, [("hotter_than_peers", 5)]),
        ({"sm_clock_mhz": 1650}, []),
        ({"sm_clock_mhz": 1590}, [("slower_than_peers", 5)]),
        ({"sm_clock_mhz": 345, "utilization_pct": 0}, []),
        ({"sm_clock_mhz": 1500, "utilization_pct": 60}, []),
    ],
)
def test_a_gpu_is_compared_with_neighbours_that_work_as_it_does(
    odd: dict[str, object], expected: list[tuple[str, int]]
) -> None:
    """Document 001, line 164."""
    story = eight(**odd)
    assert [(each.code, each.gpu) for each in peer_conditions(story.node, Thresholds(), NOW)] == expected


def test_a_gpu_that_is_held_and_idle_names_who_holds_it() -> None:
    story = eight(utilization_pct=0)
    holder = wire.Process(pid=4711, name="python", gpus=[wire.ProcessGpu("GPU-5", 30 << 30)])
    other = wire.Process(pid=4712, name="python", gpus=[wire.ProcessGpu("GPU-4", 30 << 30)])
    story.report(NOW, wire.Ranks(t=EPOCH, seq=2, processes=[holder, other]))
    (found,) = idle_conditions(story.node, NOW)
    assert (found.code, found.gpu) == ("idle_held", 5)
    assert "pid 4711 (python) holds 30.0 GiB" in found.text
