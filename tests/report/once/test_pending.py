"""What has not answered when a report is due is neither healthy nor left out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec import structs
from msgspec.structs import replace

from gpuwatch.fleet.nodes.node import Node
from gpuwatch.link.serving.server_reading import ServerReading
from gpuwatch.link.stream.inbox import LinkStatus
from gpuwatch.report.once.json_output import fleet_facts
from gpuwatch.report.once.problems.active import healthy
from gpuwatch.report.once.problems.health import placed_conditions
from gpuwatch.report.once.problems.pending import pending
from gpuwatch.report.once.text import report
from gpuwatch.tui.toolkit.text import models
from gpuwatch.wire import GpuInfo, GpuSample, LogFile, Logs, Notice, Ranks
from tests.report.fleets import (
    NODE_TIME,
    START,
    fast,
    feed,
    healthy_fleet,
    hello,
    process,
    rank_logs,
    reading,
    sample,
)
from tests.sentences import Sentences


def of(*files: LogFile, complete: bool = True) -> Logs:
    """A list with the logs of all ranks besides."""
    return Logs(t=NODE_TIME, seq=9, files=[*rank_logs(2), *files], complete=complete)


def forget_processes(node: Node) -> None:
    node.processes_at = None


def forget_host(node: Node) -> None:
    node.host_at = None


def never_answered(node: Node) -> None:
    gpu = node.gpus["GPU-0001"]
    gpu.fast_at, gpu.state = None, "unanswered"


@pytest.mark.parametrize(
    ("part", "lose"),
    [("processes", forget_processes), ("host", forget_host), ("gpu", never_answered)],
)
def test_a_part_that_has_not_answered_is_not_healthy(
    part: str, lose: Callable[[Node], None], sentences: Sentences
) -> None:
    fleet = healthy_fleet()
    assert healthy(fleet, placed_conditions(fleet, START), START)
    lose(fleet.nodes["gpu-001"])
    assert [each.part for each in pending(fleet, START)] == [part]
    assert not healthy(fleet, [], START)
    sentences(report(fleet, [], START, NODE_TIME).verdict.text)


@pytest.mark.parametrize(
    ("logs", "parts"),
    [
        (of(complete=False), ["log_reader"]),
        (of(LogFile("/a.log", size=10)), ["log"]),
        (of(LogFile("/a.log", size=10, searched_to=10, backlog_pct=40.0)), ["log"]),
        (of(LogFile("/a.log", size=5 << 20, searched_to=10)), ["log"]),
        (of(LogFile("/a.log", size=10, searched_to=10)), []),
        (of(LogFile("/a.log", size=1000, searched_to=990)), ["log"]),
        (of(LogFile("/a.log", size=1000, searched_to=990, grown_at=NODE_TIME - 60)), ["log"]),
        (of(LogFile("/a.log", size=1000, searched_to=990, grown_at=NODE_TIME - 1)), []),  # it grows
        (of(LogFile("/a.log", state="elsewhere", size=10)), []),
        (of(LogFile("/a.log", state="unreadable", reason="Permission denied")), ["unreadable_log"]),
        (of(LogFile("kernel log", state="unreadable", source="kernel")), []),
        (of(LogFile("/a.log", size=9 << 30, backlog_pct=3.0, searched_from=8 << 30)), ["log_start"]),
        (of(LogFile("/a.log", size=9 << 30, searched_to=9 << 30, searched_from=8 << 30)), ["log_start"]),
        (of(LogFile("/empty.log", size=0, searched_to=0)), []),
    ],
)
def test_a_log_counts_as_searched_only_by_the_agents_own_word(logs: Logs, parts: list[str]) -> None:
    fleet = healthy_fleet()
    feed(fleet, "gpu-001", logs)
    assert [each.part for each in pending(fleet, START)] == parts
    assert healthy(fleet, [], START) is (not parts)


@pytest.mark.parametrize(
    ("path", "command"),
    [("/scratch/rank0.log", True), ("/scratch/$(id).log", False), ("rank0.log", False), ("/a b;id", False)],
)
def test_the_start_of_a_long_log_is_named_with_what_searches_it(path: str, command: bool) -> None:
    fleet = healthy_fleet()
    feed(fleet, "gpu-001", of(LogFile(path, size=9 << 30, searched_from=8 << 30)))
    (waited,) = pending(fleet, START)
    assert "8,192 MiB" in waited.text and "--wait" in waited.text
    assert (f"`gpuwatch scan {path}`" in waited.text) is command
    assert waited.may_answer


@pytest.mark.parametrize(
    ("files", "ranks"),
    [
        ([], "ranks 0-1"),
        ([LogFile("/r0.log", size=9, searched_to=9, ranks=[0])], "rank 1"),
        ([LogFile("/0", size=9, searched_to=9, pids=[100])], "rank 1"),
        ([LogFile("/launcher", size=9, searched_to=9, pids=[90])], "rank 1"),
        ([LogFile("/train.log", size=9, searched_to=9)], None),
        ([LogFile("kernel log", source="kernel", size=9, searched_to=9, ranks=[0, 1])], "ranks 0-1"),
    ],
)
def test_ranks_without_a_log_are_named_and_not_healthy(files: list[LogFile], ranks: str | None) -> None:
    fleet = healthy_fleet()
    listed = [process(100 + n, n, rank=n, launcher=90, piped=n == 0, logs=[f"/{n}"]) for n in range(2)]
    logs = Logs(t=NODE_TIME, seq=9, files=files, complete=True)
    feed(fleet, "gpu-001", Ranks(t=NODE_TIME, seq=8, processes=listed), logs)
    waited = [each for each in pending(fleet, START) if each.part == "rank_log"]
    assert [each.text.partition(" for ")[2].partition(" (")[0] for each in waited] == [ranks] * bool(ranks)
    assert healthy(fleet, [], START) is (ranks is None)


def test_nobody_waits_for_a_log_that_may_not_be_read(sentences: Sentences) -> None:
    fleet = healthy_fleet()
    feed(fleet, "gpu-001", of(LogFile("/r3.log", state="unreadable", reason="Permission denied")))
    (waited,) = pending(fleet, START)
    assert waited.file is not None
    assert (waited.file.path, waited.may_answer) == ("/r3.log", False)
    reported = report(fleet, [], START, NODE_TIME)
    assert [line.text for line in reported.notices if "/r3.log" in line.text]
    sentences(reported.verdict.text)


def test_a_new_agent_has_to_find_the_logs_itself() -> None:
    fleet = healthy_fleet()
    feed(fleet, "gpu-001", LinkStatus("live"))
    assert [each.part for each in pending(fleet, START)] == ["log_reader"]


def test_a_driver_and_a_kernel_log_that_have_not_answered() -> None:
    fleet = healthy_fleet(gpus=1)
    starting = Notice("nvml_starting", "NVML has not answered yet", "info")
    feed(fleet, "gpu-001", hello(1, kernel_log=None, notices=[starting]), sample())
    assert [each.part for each in pending(fleet, START)] == ["driver", "kernel_log"]
    unreadable = Notice("kernel_log_unreadable", "no permission", "info")
    feed(fleet, "gpu-001", hello(1, kernel_log=None, notices=[unreadable]))
    assert pending(fleet, START) == []


def test_how_many_gpus_a_driver_lists_is_not_known_before_it_answers(sentences: Sentences) -> None:
    fleet = healthy_fleet(gpus=0)
    starting = Notice("nvml_starting", "NVML has not answered yet", "info")
    feed(fleet, "gpu-001", hello(0, gpus_expected=8, notices=[starting]), sample())
    reported = report(fleet, [], START, NODE_TIME)
    for line in (reported.nodes[0].heading.text, reported.verdict.text):
        sentences(line)
    mismatch = Notice("driver_mismatch", "different versions", "critical")
    feed(fleet, "gpu-001", hello(0, notices=[mismatch]))
    sentences(report(fleet, [], START, NODE_TIME).nodes[0].heading.text)


def test_an_all_clear_says_what_it_is_not_about(sentences: Sentences) -> None:
    fleet = healthy_fleet()
    fleet.nodes["gpu-001"].processes = []
    feed(fleet, "gpu-001", Logs(t=NODE_TIME, seq=9, complete=True))
    feed(fleet, "gpu-001", sample(*(reading(index, utilization_pct=0.0) for index in range(2))))
    reported = report(fleet, [], START, NODE_TIME).verdict.text
    sentences(reported)


def test_an_all_clear_of_an_agent_that_sees_no_other_users_is_not_that_no_job_runs(
    sentences: Sentences,
) -> None:
    fleet = healthy_fleet()
    fleet.nodes["gpu-001"].processes = []
    hidden = Notice("processes_hidden", "not visible", "info")
    feed(fleet, "gpu-001", structs.replace(hello(2), notices=[hidden]))
    feed(fleet, "gpu-001", sample(*(reading(index, utilization_pct=0.0) for index in range(2))))
    reported = report(fleet, [], START, NODE_TIME).verdict.text
    sentences(reported)


def test_a_gpu_without_a_name_does_not_count_as_another_model(sentences: Sentences) -> None:
    fleet = healthy_fleet(gpus=1)
    nameless = GpuInfo(uuid="unidentified-gpu-001-1", index=1, name="", identified=False)
    before = hello(1)
    feed(fleet, "gpu-001", structs.replace(before, gpus=[*before.gpus, nameless]))
    node = fleet.nodes["gpu-001"]
    sentences(models(node))
    assert (node.gpus_present(), node.gpus_expected()) == (1, 2)
    feed(fleet, "gpu-001", hello(2))
    assert [gpu.info.uuid for gpu in node.gpu_list()] == ["GPU-0000", "GPU-0001"]


def test_a_busy_gpu_without_a_visible_process_is_not_idle(sentences: Sentences) -> None:
    fleet = healthy_fleet()
    fleet.nodes["gpu-001"].processes = []
    feed(fleet, "gpu-001", Logs(t=NODE_TIME, seq=9, complete=True))
    reported = report(fleet, [], START, NODE_TIME).verdict.text
    sentences(reported)
    assert fleet_facts(fleet, [], START, NODE_TIME)["busy_unseen"][0]["node"] == "gpu-001"


def test_a_utilisation_that_cannot_be_read_is_not_healthy() -> None:
    fleet = healthy_fleet(gpus=1)
    broken = GpuSample("GPU-0000", fast=fast(utilization_pct=None), missing={"utilization_pct": "error 999"})
    feed(fleet, "gpu-001", sample(broken))
    found = placed_conditions(fleet, START)
    assert [each.condition.code for each in found] == ["values_unreadable"]
    assert not healthy(fleet, found, START)


def test_a_log_option_that_leads_to_no_file_is_not_healthy() -> None:
    fleet = healthy_fleet(gpus=1)
    assert healthy(fleet, [], START)
    fleet.plan = replace(fleet.plan, log_options=("/scratch/fifo", "/scratch/good"))
    misses = {"/scratch/fifo": "a FIFO"}
    reported = Logs(t=NODE_TIME, seq=9, complete=True, misses=misses)
    feed(fleet, "gpu-001", Ranks(t=NODE_TIME, seq=8), reported)
    assert not healthy(fleet, [], START)
    listed = fleet_facts(fleet, [], START, NODE_TIME)["log_misses"]
    assert listed == [{"option": "/scratch/fifo", "why": "a FIFO"}]


def test_a_server_that_has_never_answered_is_unknown() -> None:
    fleet = healthy_fleet()
    assert pending(fleet, START) == []
    fleet.servers.expect(["llama"])
    assert [(each.part, each.node) for each in pending(fleet, START)] == [("server", "server llama")]
    assert not healthy(fleet, [], START)
    fleet.servers.take("llama", "refused", START)
    assert [each.part for each in pending(fleet, START)] == ["server"]
    assert not fleet.servers.is_waiting
    fleet.servers.take("llama", ServerReading(START, "vLLM"), START)
    assert pending(fleet, START) == []
