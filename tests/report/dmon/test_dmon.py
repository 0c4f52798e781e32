from __future__ import annotations

import pytest

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.link.stream.inbox import LinkStatus
from gpuwatch.report.dmon.columns import GroupError, Layout, columns
from gpuwatch.report.dmon.stream import HEADER_EVERY, DmonStream
from gpuwatch.wire import Event, GpuSample, Notice
from tests.report.fleets import NODE_TIME, START, feed, healthy_fleet, hello, plan, reading, sample
from tests.sentences import Sentences

NVIDIA_SMI = [
    "# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa   mclk   pclk  pviol  tviol     fb"
    "   bar1   ccpm  sbecc  dbecc    pci  rxpci  txpci",
    "# Idx      W      C      C      %      %      %      %      %      %    MHz    MHz      %   bool     MB"
    "     MB     MB   errs   errs   errs   MB/s   MB/s",
]
"""What `nvidia-smi dmon -s pucvmet` prints first (driver 550)."""


def stream(groups: str = "pucvmet", count: int | None = None, stamps: str = "") -> DmonStream:
    return DmonStream(Layout(columns(groups), len("gpu-001"), stamps), count)


def rows(lines: list[str]) -> list[list[str]]:
    return [line.split() for line in lines if not line.startswith("#")]


def test_the_header_is_that_of_nvidia_smi_behind_the_node() -> None:
    ours = Layout(columns("pucvmet"), 7).header()
    assert [line.replace("node     gpu", "gpu").replace("name     Idx", "Idx") for line in ours] == NVIDIA_SMI


def test_rows_stand_under_their_headings() -> None:
    header, _, row = stream().lines(healthy_fleet(gpus=1), START, NODE_TIME)
    titles = header[1:].split()
    values = dict(zip(titles, row.split(), strict=True))
    assert len(row) == len(header)
    expected = {
        "node": "gpu-001", "gpu": "0", "pwr": "640", "gtemp": "61", "mtemp": "-", "sm": "98", "mem": "44",
        "enc": "0", "dec": "-", "jpg": "-", "mclk": "2619", "pclk": "1980", "pviol": "12", "tviol": "0",
        "fb": "73728", "bar1": "-", "sbecc": "-", "rxpci": "2", "txpci": "-",
    }  # fmt: skip
    assert expected.items() <= values.items()


def test_groups_come_in_the_order_they_are_named() -> None:
    assert [column.title for column in columns("tc")] == ["rxpci", "txpci", "mclk", "pclk"]


@pytest.mark.parametrize("letters", ["px", "", "P"])
def test_an_unknown_group_names_the_allowed_ones(letters: str) -> None:
    with pytest.raises(GroupError, match=r"p \(power and temperature\).*t \(PCIe throughput\)"):
        columns(letters)


def test_a_row_is_printed_once_per_new_sample() -> None:
    fleet, out = healthy_fleet(gpus=2), stream()
    assert len(rows(out.lines(fleet, START, NODE_TIME))) == 2
    assert out.lines(fleet, START + 0.1, NODE_TIME) == []
    feed(fleet, "gpu-001", sample(reading(1, t=NODE_TIME + 1), at=START + 1), at=START + 1)
    assert [row[:2] for row in rows(out.lines(fleet, START + 1, NODE_TIME))] == [["gpu-001", "1"]]


def test_a_silent_gpu_says_how_long_and_never_repeats_its_old_values() -> None:
    fleet, out = healthy_fleet(gpus=1), stream()
    out.lines(fleet, START, NODE_TIME)
    lines = out.lines(fleet, START + 12, NODE_TIME)
    assert rows(lines) == [["gpu-001", "0", "stale", "12s"]]
    assert out.lines(fleet, START + 12.5, NODE_TIME) == []
    assert rows(out.lines(fleet, START + 13, NODE_TIME)) == [["gpu-001", "0", "stale", "13s"]]


def test_stuck_and_lost_gpus_say_so_beside_the_healthy_ones(sentences: Sentences) -> None:
    fleet = healthy_fleet(gpus=3)
    stuck = GpuSample(uuid="GPU-0001", state="stuck", stuck_in="nvmlDeviceGetPowerUsage", stuck_s=5.0)
    feed(fleet, "gpu-001", sample(stuck, GpuSample(uuid="GPU-0002", state="lost", reason="GPU is lost")))
    first, second, third = rows(stream("p").lines(fleet, START, NODE_TIME))
    assert first[2:] == ["640", "61", "-"]
    assert " ".join(second[2:]) == "stuck 5s in nvmlDeviceGetPowerUsage"
    sentences(" ".join(third[2:]))


def test_a_node_in_trouble_is_a_comment_reported_once(sentences: Sentences) -> None:
    fleet, out = Fleet(plan("gpu-001")), stream()
    feed(fleet, "gpu-001", LinkStatus("lost", "connection refused"))
    sentences(out.lines(fleet, START, NODE_TIME))
    assert out.lines(fleet, START + 1, NODE_TIME) == []


def test_a_node_that_is_tried_again_stays_lost_and_is_not_reported_anew(sentences: Sentences) -> None:
    fleet, out = Fleet(plan("gpu-001")), stream()
    feed(fleet, "gpu-001", LinkStatus("connecting"))
    assert out.lines(fleet, START, NODE_TIME) == []
    feed(fleet, "gpu-001", LinkStatus("lost", "connection refused"))
    sentences(out.lines(fleet, START, NODE_TIME))
    feed(fleet, "gpu-001", LinkStatus("connecting", "connection refused", attempt=2))
    assert fleet.nodes["gpu-001"].state(START) == "lost"
    assert out.lines(fleet, START, NODE_TIME) == []


def test_a_node_that_comes_back_is_reported_and_a_good_start_is_not(sentences: Sentences) -> None:
    fleet, out = healthy_fleet(gpus=0), stream()
    feed(fleet, "gpu-001", hello(1))
    assert out.lines(fleet, START, NODE_TIME) == []
    feed(fleet, "gpu-001", LinkStatus("lost", "the connection was reset"))
    sentences(out.lines(fleet, START, NODE_TIME))
    feed(fleet, "gpu-001", LinkStatus("live"))
    assert out.lines(fleet, START, NODE_TIME) == ["# gpu-001: live"]


def test_what_an_agent_warns_of_is_a_comment_reported_once(sentences: Sentences) -> None:
    fleet, out = healthy_fleet(gpus=0), stream()
    notice = Notice("nvml_error", "GPU 2 does not answer.", "critical", "Reset the GPU.")
    feed(fleet, "gpu-001", hello(1, notices=[notice, Notice("no_proc", "processes are hidden")]))
    sentences(out.lines(fleet, START, NODE_TIME))
    assert out.lines(fleet, START, NODE_TIME) == []


def test_the_header_comes_again() -> None:
    fleet, out = healthy_fleet(gpus=8), stream()
    headers = []
    for tick in range(HEADER_EVERY // 8 + 1):
        new = [reading(n, t=NODE_TIME + tick) for n in range(8)]
        feed(fleet, "gpu-001", sample(*new, at=START + tick), at=START + tick)
        headers += [line for line in out.lines(fleet, START + tick, NODE_TIME) if line.startswith("# node ")]
    assert len(headers) == 2


def test_a_count_ends_it_when_every_gpu_has_its_rows() -> None:
    fleet, out = healthy_fleet(gpus=2), stream(count=1)
    assert not out.done(fleet, START)
    out.lines(fleet, START, NODE_TIME)
    assert out.done(fleet, START)
    feed(fleet, "gpu-001", sample(reading(1, t=NODE_TIME + 1), at=START + 1), at=START + 1)
    assert out.lines(fleet, START + 1, NODE_TIME) == []


def test_a_node_under_way_is_waited_for_before_the_count_ends() -> None:
    fleet, out = healthy_fleet(gpus=1), stream(count=1)
    fleet.nodes["late"] = Fleet(plan("late")).nodes["late"]
    out.lines(fleet, START, NODE_TIME)
    assert not out.done(fleet, START)
    feed(fleet, "late", LinkStatus("lost", "no route to host"))
    assert out.done(fleet, START)


def test_time_stamps_stand_under_their_headings() -> None:
    header, units, row = stream("p", stamps="DT").lines(healthy_fleet(gpus=1), START, NODE_TIME)
    assert header.split()[:4] == ["#Date", "Time", "node", "gpu"]
    assert units.split()[:4] == ["#YYYYMMDD", "HH:MM:SS", "name", "Idx"]
    date, time, node, *_ = row.split()
    assert (len(date), len(time), node) == (8, 8, "gpu-001")
    assert header.index("node") == row.index("gpu-001")


STARTING = Notice("nvml_starting", "NVML has not answered yet (nvmlInitWithFlags)", "info")


def test_a_driver_that_has_not_answered_is_waited_for_and_named() -> None:
    fleet, out = Fleet(plan("gpu-001")), stream("p", count=1)
    feed(fleet, "gpu-001", LinkStatus("live"), hello(0, notices=[STARTING]), sample())
    reported = "\n".join(out.lines(fleet, START, NODE_TIME))
    assert "no GPU" not in reported
    assert "nvmlInitWithFlags" in reported
    assert not out.done(fleet, START)
    feed(fleet, "gpu-001", hello(1), sample(reading(0)))
    assert len(rows(out.lines(fleet, START, NODE_TIME))) == 1
    assert out.done(fleet, START)
    assert not out.unanswered(fleet)


def test_a_driver_that_never_answers_ends_the_wait_and_is_no_success() -> None:
    fleet, out = Fleet(plan("gpu-001")), stream("p", count=1)
    feed(fleet, "gpu-001", LinkStatus("live"), hello(0, notices=[STARTING]), sample())
    feed(fleet, "gpu-001", sample(at=START + 60), at=START + 60)
    assert out.done(fleet, START + 60)
    assert out.unanswered(fleet)


def test_an_xid_of_nvml_alone_is_a_comment_once() -> None:
    fleet, out = healthy_fleet(gpus=2), stream("p")
    xid = Event(
        t=NODE_TIME, seq=5, event="xid", title="off the bus", severity="critical", gpu="GPU-0001", code=79
    )
    out.lines(fleet, START, NODE_TIME)
    feed(fleet, "gpu-001", xid)
    (comment,) = [line for line in out.lines(fleet, START, NODE_TIME) if line.startswith("# gpu-001:")]
    assert "GPU 1" in comment
    assert "79" in comment
    assert not any("79" in line for line in out.lines(fleet, START, NODE_TIME) if line.startswith("#"))
