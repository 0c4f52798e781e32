from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.link.stream.inbox import ClockReading, LinkStatus
from gpuwatch.report.once.csv_output import HEADER, to_csv
from gpuwatch.report.once.json_output import Facts, fleet_facts, to_json
from gpuwatch.report.once.problems.health import placed_conditions
from gpuwatch.wire import (
    AgentCost,
    Disk,
    Event,
    GpuSample,
    GpuSlow,
    HostSample,
    IbPort,
    MigInstance,
    Nic,
    Notice,
    Sample,
    Topology,
)
from tests.report.fleets import NODE_TIME, START, feed, healthy_fleet, hello, plan, process, reading, sample
from tests.sentences import Sentences

GPU_KEYS = {
    "index", "uuid", "name", "state", "age_s", "stuck_in", "utilization_pct", "memory_used_bytes",
    "memory_total_bytes", "temperature_c", "power_w", "power_limit_w", "processes",
}  # fmt: skip
NODE_KEYS = {"name", "state", "age_s", "error", "host", "gpus"}


def parsed(fleet: Fleet, now: float = START) -> Any:
    text = to_json(fleet_facts(fleet, placed_conditions(fleet, now), now, NODE_TIME))

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def table(facts: Facts) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(to_csv(facts))))


def facts_of(fleet: Fleet, now: float = START) -> Facts:
    return fleet_facts(fleet, placed_conditions(fleet, now), now, NODE_TIME)


def test_the_promised_keys_are_there() -> None:
    facts = parsed(healthy_fleet())
    assert facts["gpuwatch"]
    assert facts["time"] == NODE_TIME
    assert facts["healthy"] is True
    assert facts["conditions"] == []
    assert set(facts["nodes"][0]) >= NODE_KEYS
    assert set(facts["nodes"][0]["gpus"][0]) >= GPU_KEYS


def test_values_arrive_unchanged() -> None:
    gpu = parsed(healthy_fleet(), now=START + 0.25)["nodes"][0]["gpus"][1]
    assert (gpu["index"], gpu["uuid"], gpu["state"], gpu["age_s"]) == (1, "GPU-0001", "ok", 0.25)
    assert (gpu["utilization_pct"], gpu["memory_used_bytes"], gpu["memory_total_bytes"]) == (
        98,
        72 << 30,
        80 << 30,
    )
    assert (gpu["temperature_c"], gpu["power_w"], gpu["power_limit_w"]) == (61, 640.4, 700)
    assert [(p["pid"], p["rank"], p["user"], p["memory_bytes"]) for p in gpu["processes"]] == [
        (101, 1, "alice", 71 << 30)
    ]


def test_unknown_is_null_and_zero_stays_zero() -> None:
    fleet = healthy_fleet(gpus=0)
    feed(fleet, "gpu-001", hello(1), sample(reading(0, utilization_pct=None, power_w=0.0)))
    gpu = parsed(fleet)["nodes"][0]["gpus"][0]
    assert gpu["utilization_pct"] is None
    assert gpu["power_w"] == 0
    assert gpu["tensor_activity_pct"] is None


def test_a_node_that_never_answered_has_the_same_keys() -> None:
    full, empty = parsed(healthy_fleet())["nodes"][0], parsed(Fleet(plan("gpu-002")))["nodes"][0]
    assert set(full) == set(empty)
    assert (empty["state"], empty["age_s"], empty["host"], empty["gpus"]) == ("connecting", None, None, [])


def test_a_gpu_without_any_sample_has_the_same_keys() -> None:
    fleet = healthy_fleet(gpus=1)
    full = parsed(fleet)["nodes"][0]["gpus"][0]
    fresh = Fleet(plan("gpu-001"))
    feed(fresh, "gpu-001", LinkStatus("live"), hello(1))
    bare = parsed(fresh)["nodes"][0]["gpus"][0]
    assert set(full) == set(bare)
    assert bare["age_s"] is None
    assert bare["memory_total_bytes"] == 80 << 30


def test_a_lost_node_keeps_its_values_with_their_age_and_says_why(sentences: Sentences) -> None:
    fleet = healthy_fleet()
    feed(fleet, "gpu-001", LinkStatus("lost", "the connection was reset"), at=START + 40)
    facts = parsed(fleet, now=START + 60)
    node = facts["nodes"][0]
    assert (node["state"], node["age_s"]) == ("lost", 60)
    sentences(node["error"])
    assert (node["gpus"][0]["utilization_pct"], node["gpus"][0]["age_s"]) == (98, 60)
    assert facts["healthy"] is False
    assert facts["conditions"]


def test_a_stuck_gpu_says_in_which_call() -> None:
    fleet = healthy_fleet()
    feed(
        fleet, "gpu-001", sample(GpuSample(uuid="GPU-0000", state="stuck", stuck_in="nvmlInit", stuck_s=5.0))
    )
    facts = parsed(fleet)
    gpu = facts["nodes"][0]["gpus"][0]
    assert (gpu["state"], gpu["stuck_in"], gpu["stuck_s"]) == ("stuck", "nvmlInit", 5)
    assert facts["healthy"] is False
    assert {(c["node"], c["gpu_index"]) for c in facts["conditions"]} == {("gpu-001", 0)}


def test_a_number_that_is_not_finite_is_null() -> None:
    fleet = healthy_fleet(gpus=0)
    feed(fleet, "gpu-001", hello(1), sample(reading(0, power_w=float("nan"), temperature_c=float("inf"))))
    gpu = parsed(fleet)["nodes"][0]["gpus"][0]
    assert (gpu["power_w"], gpu["temperature_c"]) == (None, None)
    row = table(facts_of(fleet))[0]
    assert (row["power_w"], row["temperature_c"]) == ("", "")


def test_only_a_simulation_says_demo() -> None:
    assert parsed(healthy_fleet(demo=True))["demo"] is True
    assert "demo" not in parsed(healthy_fleet())


def test_every_key_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "json.md").read_text()
    documented = set(re.findall(r"`([A-Za-z0-9_]+)`", page))
    assert set(keys(parsed(rich_fleet()))) - documented == set()


def rich_fleet() -> Fleet:
    """Every structure that a report can hold, once."""
    fleet = healthy_fleet(gpus=1, demo=True)
    slow = GpuSlow(t=NODE_TIME, nvlink_errors={"crc": 1}, mig=[MigInstance(uuid="MIG-1", index=0)])
    host = HostSample(
        t=NODE_TIME,
        nics=[Nic("eth0")],
        ib=[IbPort("mlx5_0", 1, errors={"symbol": 1})],
        disks=[Disk("/")],
    )
    tick = Sample(
        t=NODE_TIME,
        seq=9,
        gpus=[GpuSample(uuid="GPU-0000", slow=slow)],
        host=host,
        agent=AgentCost(cpu_pct=0.5),
    )
    notice = Notice("kernel_log_unreadable", "the kernel log cannot be read")
    topology = Topology(uuids=["GPU-0000"], links=[["X"]])
    event = Event(t=NODE_TIME, seq=3, event="xid", title="GPU has fallen off the bus", code=79)
    lost = GpuSample(uuid="GPU-0000", state="lost", reason="GPU is lost")
    feed(fleet, "gpu-001", hello(1, notices=[notice], topology=topology), tick, event, sample(lost))
    feed(fleet, "gpu-001", ClockReading(0.1, 0.01))
    fleet.nodes["gpu-001"].processes.append(process(9, 0, rank=4, gpus=[]))
    return fleet


FREE_KEYS = {"labels", "variables", "missing", "throttle_pct", "nvlink_errors", "errors"}
"""Objects whose keys are data."""


def keys(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            if key not in FREE_KEYS:
                yield from keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from keys(inner)


def test_csv_has_one_row_a_gpu_under_the_header() -> None:
    rows = table(facts_of(healthy_fleet("gpu-001", "gpu-002", gpus=3)))
    assert [(row["node"], row["index"]) for row in rows] == [
        (node, str(index)) for node in ("gpu-001", "gpu-002") for index in range(3)
    ]
    assert rows[4]["utilization_pct"] == "98.0"
    assert rows[4]["sm_activity_pct"] == ""
    assert (rows[4]["pids"], rows[4]["ranks"], rows[4]["users"]) == ("101", "1", "alice")


def test_csv_does_not_leave_out_a_node_without_gpus(sentences: Sentences) -> None:
    fleet = Fleet(plan("gpu-001"))
    feed(fleet, "gpu-001", LinkStatus("lost", "no route to host"))
    (row,) = table(facts_of(fleet))
    assert (row["node"], row["node_state"]) == ("gpu-001", "lost")
    sentences(row["node_error"])
    assert row["index"] == ""


def test_csv_text_never_starts_a_formula() -> None:
    fleet = healthy_fleet(gpus=1)
    gpu = fleet.nodes["gpu-001"].gpus["GPU-0000"]
    for start in "=+-@":
        gpu.info = msgspec.structs.replace(gpu.info, name=f"{start}cmd|' /C calc'!A0")
        row = table(facts_of(fleet))[0]
        assert row["name"] == f"'{start}cmd|' /C calc'!A0"
    assert set(row) == set(HEADER)
