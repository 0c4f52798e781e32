"""The parts of the agent that judge: pure, so that every case can be tried."""

from __future__ import annotations

from typing import Any

import pytest

from gpuwatch.agent.base import notices
from gpuwatch.agent.base.rates import Rate
from gpuwatch.agent.gpu import topology
from gpuwatch.agent.gpu.field_values import FactSource, decoded
from gpuwatch.agent.kernel.xid_join import HOLD_S, XidJoin

FULL = 1 << 64


@pytest.mark.parametrize(
    ("readings", "rate"),
    [
        ([(100, 1_000_000)], None),
        ([(100, 1_000_000), (600, 1_500_000)], 1000.0),
        ([(100, 1_000_000), (100, 2_000_000)], 0.0),
        ([(FULL - 50, 1_000_000), (50, 2_000_000)], 100.0),  # ran over
        ([(5_000, 1_000_000), (50, 2_000_000)], None),  # began again
        ([(100, 2_000_000), (600, 2_000_000)], None),  # the driver has not counted since
        ([(100, 1_000_000), (None, 2_000_000), (600, 3_000_000)], None),  # no bridge over a gap
    ],
)
def test_a_counter_and_its_time_stamps_make_a_rate(
    readings: list[tuple[int | None, int]], rate: float | None
) -> None:
    counter, last = Rate(), None
    for value, at_us in readings:
        last = counter.advance(value, at_us)
    assert last == rate


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        (1, 0xABCD000000000007, 7),  # an unsigned int leaves rubbish in the upper half
        (3, 7, 7),
        (5, 0xFFFFFFFF, -1),
        (0, 0x3FF8000000000000, 1.5),
        (0, 0x7FF8000000000000, None),  # not a number
        (3, 0x7FFFFFFFFFFFFFF0, None),
        (1, 0x7FFFFFF0, None),
        (3, FULL - 1, None),
    ],
)
def test_a_field_is_decoded_by_its_type_and_blanks_are_none(kind: int, raw: int, value: float | None) -> None:
    assert decoded(kind, raw) == value


def test_a_refused_way_gives_place_to_the_next_and_a_failure_does_not() -> None:
    wanted = FactSource("power_w", (1, [(186, 0)]), (1, [(185, 0)]))
    assert not wanted.give_up(999) and wanted.entries() == [(186, 0)]
    assert not wanted.give_up(2) and wanted.give_up(2)
    assert wanted.entries() == [(185, 0)]
    assert wanted.give_up(3) and wanted.entries() == []


def xid(code: int, t: float, source: str, gpu: str | None = "GPU-a") -> dict[str, Any]:
    return {"event": "xid", "code": code, "t": t, "source": source, "gpu": gpu}


def test_an_xid_seen_by_both_is_reported_once_with_the_kernels_words() -> None:
    join = XidJoin()
    assert join.take([xid(79, 100.0, "nvml")], [], True, 0.0) == []
    reported = join.take([], [xid(79, 100.2, "kernel")], True, 0.5)
    assert [event["source"] for event in reported] == ["kernel"]
    assert join.take([], [], True, 60.0) == []


def test_the_kernel_may_be_first_and_nvml_may_be_alone() -> None:
    join = XidJoin()
    assert len(join.take([], [xid(31, 10.0, "kernel")], True, 0.0)) == 1
    assert join.take([xid(31, 10.1, "nvml")], [], True, 0.1) == []
    assert join.take([], [], True, 9.0) == []
    assert join.take([xid(31, 50.0, "nvml")], [], True, 10.0) == []
    assert [event["source"] for event in join.take([], [], True, 10.0 + HOLD_S)] == ["nvml"]
    assert len(join.take([xid(31, 60.0, "nvml")], [], False, 20.0)) == 1


def test_equal_xids_of_two_gpus_and_two_moments_are_different() -> None:
    join = XidJoin()
    reported = join.take(
        [xid(79, 10.0, "nvml"), xid(79, 10.0, "nvml", "GPU-b")],
        [xid(79, 10.0, "kernel"), xid(79, 500.0, "kernel")],
        True,
        0.0,
    )
    reported += join.take([], [], True, 5.0)
    assert sorted((event["gpu"], event["source"]) for event in reported) == [
        ("GPU-a", "kernel"),
        ("GPU-a", "kernel"),
        ("GPU-b", "nvml"),
    ]


def test_a_silent_gpu_is_placed_by_what_the_others_know_of_it() -> None:
    found = topology.matrix({"a": {"b": "NV18", "c": "SYS"}, "b": {"a": "NV18"}, "c": {}})
    assert found == {
        "uuids": ["a", "b", "c"],
        "links": [["X", "NV18", "SYS"], ["NV18", "X", "?"], ["SYS", "?", "X"]],
    }
    assert topology.matrix({"a": {}}) is None


def test_seven_of_eight_is_an_alarm_except_in_a_container() -> None:
    alarm = notices.fewer_than_on_bus(7, 8, hidden=False)
    assert alarm is not None and alarm["code"] == "gpu_missing" and alarm["severity"] == "critical"
    assert "7 of 8" in alarm["text"]
    meant = notices.fewer_than_on_bus(2, 8, hidden=True)
    assert meant is not None and meant["severity"] == "info"
    assert notices.fewer_than_on_bus(8, 8) is None
    assert notices.fewer_than_on_bus(8, None) is None


@pytest.mark.parametrize(
    ("code", "notice"), [(9, "driver_not_loaded"), (12, "library_missing"), (18, "driver_mismatch")]
)
def test_a_machine_with_gpus_on_its_bus_and_no_driver_gets_a_remedy(code: int, notice: str) -> None:
    found = notices.of_init(code, 8)
    assert found["code"] == notice and found["remedy"]
