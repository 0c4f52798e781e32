"""The demo's log files: stable, cheap, and answered for as an agent answers."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest

from gpuwatch import wire
from gpuwatch.hosts.builtin import demo_plan
from gpuwatch.link.demo import scenario, texts
from gpuwatch.link.demo.links import EPOCH, SEED, demo_links
from gpuwatch.link.demo.log_files import LogText
from gpuwatch.link.demo.logs import NodeLogs
from gpuwatch.link.stream.inbox import Inbox

FALLEN_NODE = "gpu-011"


def rank_log(node: int, gpu: int) -> LogText:
    return texts.rank_log(texts.Writer(SEED, node, f"gpu-{node + 1:03}", gpu, 128, EPOCH))


def node_logs(began: float = 0.0) -> NodeLogs:
    return NodeLogs(SEED, 10, FALLEN_NODE, 16, EPOCH, began)


FILES = (
    rank_log(0, 3),
    rank_log(*scenario.LOST_GPU),
    texts.launcher_log(SEED, 10, FALLEN_NODE, 16, EPOCH),
    texts.kernel_log(10, FALLEN_NODE),
)


@pytest.mark.parametrize("log", FILES, ids=lambda log: log.path)
def test_lines_follow_each_other_in_offset_and_in_time(log: LogText) -> None:
    lines = list(log.lines(0, log.count(1000.0)))
    assert lines[0].offset == 0
    assert all(before.end == after.offset for before, after in pairwise(lines))
    assert all(before.second <= after.second for before, after in pairwise(lines))
    assert all(log.number(line.offset) == log.number(line.end - 1) == n for n, line in enumerate(lines))
    assert log.size(1000.0) == lines[-1].end
    if log.path != wire.KERNEL_LOG:
        assert all(line.end - line.offset == len(line.text) + 1 for line in lines)
    assert "DEMO" in lines[0].text


def test_a_file_only_grows_and_what_is_written_stays() -> None:
    log = rank_log(4, 4)
    counts = [log.count(t / 2) for t in range(-16_000, 240)]
    assert counts == sorted(counts)
    assert counts[0] == 0
    assert rank_log(4, 4).line(2000) == log.line(2000)
    second = log.line(log.count(30.0) - 1).second
    assert second <= 30.0 < log.line(log.count(30.0)).second


def test_the_lost_rank_says_nothing_after_its_gpu_is_gone_and_all_others_wait_for_it() -> None:
    silent = rank_log(*scenario.LOST_GPU)
    assert silent.count(scenario.FALL_AT) == silent.count(1000.0)
    for node, gpu in ((0, 0), (10, 4), (15, 7)):
        log = rank_log(node, gpu)
        stated = [line for line in log.lines(0, log.count(1000.0)) if "ran for" in line.text]
        ran_ms = int(stated[0].text.split("ran for ")[1].split()[0])
        assert stated[0].second - ran_ms / 1000 == pytest.approx(scenario.FALL_AT, abs=0.2)
        assert f"SeqNum={scenario.LAST_STEP + 1}" in stated[0].text


def test_a_step_line_tells_the_straggler() -> None:
    def waiting(node: int, gpu: int) -> float:
        log = rank_log(node, gpu)
        return float(log.line(log.count(44.0) - 1).text.split("waiting")[1].split()[0])

    assert waiting(*scenario.STRAGGLER) + 1.0 < waiting(0, 0)


def test_reads_go_to_an_offset_a_time_and_the_end() -> None:
    logs, path = node_logs(), texts.rank_path(80)
    log = logs.files[path]
    line = log.line(1000)

    (around,) = logs.answer(wire.ReadLines(id=1, file=path, offset=line.offset + 5, before=2, after=3), 50.0)
    assert [each.offset for each in around.lines] == [log.line(n).offset for n in range(998, 1003)]
    assert around.done
    assert around.lines[2].t == pytest.approx(EPOCH + line.second, abs=0.01)
    assert around.lines[2].arrived is None, "it was there before"

    (later,) = logs.answer(wire.ReadLines(id=2, file=path, time=EPOCH + line.second, after=1), 50.0)
    assert later.lines[0].offset == line.offset
    (end,) = logs.answer(wire.ReadLines(id=3, file=path, before=2), 50.0)
    assert end.lines[-1].end == end.size == log.size(50.0)
    assert end.lines[-1].arrived is not None
    (nothing,) = logs.answer(wire.ReadLines(id=4, file="/etc/passwd"), 50.0)
    assert nothing.done
    assert nothing.error


def test_a_long_read_comes_in_several_frames_and_ends() -> None:
    logs, path = node_logs(), texts.rank_path(80)
    frames = list(logs.answer(wire.ReadLines(id=1, file=path, offset=0, after=2000), 50.0))
    assert [frame.done for frame in frames] == [False] * (len(frames) - 1) + [True]
    lines = [line for frame in frames for line in frame.lines]
    assert len(lines) == 2000
    assert all(before.end == after.offset for before, after in pairwise(lines))


def test_a_tail_brings_every_new_line_until_it_is_cancelled() -> None:
    logs, path = node_logs(), texts.rank_path(80)
    (first,) = logs.answer(wire.Tail(id=7, file=path, lines=3), 10.0)
    came = [*first.lines]
    for second in range(11, 80):
        came += [line for f in logs.follow(float(second), 0) if isinstance(f, wire.Lines) for line in f.lines]
    written = list(
        logs.files[path].lines(logs.files[path].number(came[0].offset), logs.files[path].count(79.0))
    )
    assert [line.text for line in came] == [line.text for line in written]
    assert any(line.level == "error" for line in came)
    (last,) = logs.answer(wire.Cancel(id=8, of=7), 80.0)
    assert last.done
    assert not any(isinstance(frame, wire.Lines) for frame in logs.follow(90.0, 0))


def test_a_search_goes_file_by_file_and_can_be_cancelled() -> None:
    logs = node_logs()
    assert list(logs.answer(wire.Search(id=1, pattern="STEP +2000/", ignore_case=True), 50.0)) == []
    frames = []
    while (frame := logs.work()) is not None:
        frames.append(frame)
    assert frames[-1].done
    assert frames[-1].progress == 1.0
    found = [frame for frame in frames if frame.lines]
    assert [len(frame.lines) for frame in found] == [1] * 8, "eight ranks; not the launcher, not the kernel"

    list(logs.answer(wire.Search(id=2, pattern="step +7/"), 50.0))
    logs.work()
    assert [frame.done for frame in logs.answer(wire.Cancel(id=3, of=2), 50.0)] == [True]
    assert logs.work() is None

    list(logs.answer(wire.Search(id=4, pattern="loss", limit=10), 50.0))
    limited = logs.work()
    assert limited is not None
    assert (len(limited.lines), limited.done) == (10, True)
    list(logs.answer(wire.Search(id=5, pattern="(", ignore_case=True), 50.0))
    wrong = logs.work()
    assert wrong is not None
    assert wrong.error


@pytest.mark.long
def test_a_search_runs_between_the_ticks_of_a_live_demo() -> None:
    inbox = Inbox()
    links = demo_links(demo_plan(), inbox, start_s=5.0)
    for link in links:
        link.start()
    try:
        assert all(link.send(wire.Search(id=9, pattern=r"step +2000/")) for link in links)
        found: list[wire.Lines] = []
        limit = time.monotonic() + 60
        while sum(frame.done for frame in found) < len(links) and time.monotonic() < limit:
            found += [each.what for each in inbox.drain() if isinstance(each.what, wire.Lines)]
            time.sleep(0.01)
    finally:
        for link in links:
            link.close()
    assert sum(len(frame.lines) for frame in found) == 128


def test_the_inventory_names_ranks_and_sizes() -> None:
    logs = node_logs()
    files = {each.path: each for each in logs.inventory(50.0, 0).files}
    own = files[texts.rank_path(85)]
    assert (own.ranks, own.local_rank, own.rank_from, own.pids) == ([85], 5, "process", [52005])
    assert own.size == logs.files[own.path].size(50.0)
    assert own.grown_at is not None
    assert own.grown_at < EPOCH + scenario.FALL_AT
    assert files[wire.KERNEL_LOG].source == "kernel"
    assert len(files) == 10
