"""A log reader that hangs or dies: the agent goes on, the next reader does without what hung."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpuwatch.wire import AnyFrame, Logs, Ping, ReadLines, Sample, Tail
from tests.agent.logs.conftest import BOOM, ENDLESS, LogAgent, append, children, texts, wait_for
from tests.agent.pythons import VERSIONS, all_at_work, interpreter
from tests.agent.running import newest
from tests.agent.trees import Kmsg
from tests.waiting import alive

Start = Callable[..., LogAgent]
BAIT = "ENDLESS " + "a" * 60 + "!\n"


def test_a_rule_that_never_ends_is_suspended_and_the_others_go_on(folder: Path, agent_of: Start) -> None:
    log, other = folder / "a.log", folder / "b.log"
    log.write_text("")
    other.write_text("BOOM code=1\n")
    agent = agent_of(rules=(BOOM, ENDLESS))
    agent.found()
    agent.file(log, lambda one: one.backlog_pct is None)
    agent.file(other, lambda one: one.backlog_pct is None)
    append(log, BAIT + "BOOM code=2\n")
    begun = len(agent.frames)
    hello = agent.hello(lambda h: any(n.code == "rule_suspended" for n in h.notices))
    meanwhile = agent.frames[begun : agent.frames.index(hello)]
    assert sum(isinstance(frame, Sample) for frame in meanwhile) >= 3, "sampling never waited for the reader"
    notice = next(n for n in hello.notices if n.code == "rule_suspended")
    assert "test.endless" in notice.text
    assert notice.remedy
    assert agent.found(lambda one: one.fields == {"code": 2}).file == str(log)
    assert [one.fields for one in agent.findings()].count({"code": 1}) == 1, (
        "the old finding is not reported again"
    )


@pytest.mark.long
def test_a_line_that_a_second_rule_hangs_on_is_skipped_and_no_second_rule_suspended(
    folder: Path, agent_of: Start
) -> None:
    log, other = folder / "a.log", folder / "b.log"
    log.write_text("BOOM code=1\n")
    second = replace(ENDLESS, id="test.endless_too")
    agent = agent_of(rules=(BOOM, ENDLESS, second))
    agent.file(log, lambda one: one.searched_to == 12)
    append(log, "BOOM code=2\n" + BAIT + "BOOM code=3\n")
    notices = agent.hello(lambda h: any(n.code == "log_part_skipped" for n in h.notices)).notices
    assert [n.code for n in notices if n.code.startswith("rule_")] == ["rule_suspended"]
    begin = log.read_bytes().index(b"ENDLESS")
    (skipped,) = (n.text for n in notices if n.code == "log_part_skipped")
    assert re.findall(r"byte (\d+) to (\d+)", skipped) == [(str(begin), str(begin + len(BAIT)))]
    agent.found(lambda one: one.fields == {"code": 3})
    assert sorted(one.fields["code"] for one in agent.findings()) == [1, 2, 3]
    assert agent.file(log, lambda one: one.size == log.stat().st_size).searched_to is None
    other.write_text("ENDLESS aab\n")
    rules = {agent.found(lambda one, rule=rule: one.rule == rule).file for rule in (ENDLESS.id, second.id)}  # type: ignore[misc]
    assert rules == {str(other)}, "a rule that is suspended in one file is tried in the next one"


@pytest.mark.long
def test_kernel_records_that_a_reader_hung_on_are_skipped_and_the_others_searched(
    folder: Path, agent_of: Start
) -> None:
    kernel = Kmsg(folder / "kmsg")
    agent = agent_of(rules=(BOOM, ENDLESS, replace(ENDLESS, id="test.endless_too")), kmsg=kernel.path)
    agent.file("kernel log")
    for line in ("BOOM code=1", BAIT.strip(), "BOOM code=2"):
        kernel.emit(line, ago=10)
    agent.found(lambda one: one.fields == {"code": 2})
    os.close(kernel.writer)
    assert sorted(one.fields["code"] for one in agent.findings()) == [1, 2]
    assert agent.file("kernel log").searched_to is None


@pytest.mark.long
def test_who_waits_for_a_reader_that_hangs_is_reported(folder: Path, agent_of: Start) -> None:
    log = folder / "a.log"
    log.write_text("x\n")
    agent = agent_of(rules=(BOOM, ENDLESS))
    agent.file(log)
    agent.send(Tail(id=5, file=str(log)))
    agent.lines(5, bool)
    append(log, BAIT)
    assert "test.endless" in (agent.lines(5)[-1].error or "")
    agent.hello(lambda h: any(n.code == "rule_suspended" for n in h.notices))
    agent.send(ReadLines(id=6, file=str(log), before=1))
    assert texts(agent.lines(6)) == [BAIT.strip()]


def test_a_reader_that_dies_is_started_again_where_it_was(folder: Path, agent_of: Start) -> None:
    log = folder / "a.log"
    log.write_text("BOOM code=1\n")
    agent = agent_of()
    agent.found()
    agent.file(log, lambda one: one.backlog_pct is None)
    append(log, "BOOM code=2\n")
    agent.found(lambda one: one.fields == {"code": 2})
    agent.file(log, lambda one: one.size == log.stat().st_size)
    first = agent.reader()
    os.kill(first, signal.SIGKILL)
    append(log, "BOOM code=3\n")
    agent.found(lambda one: one.fields == {"code": 3})
    assert sorted(str(one.fields) for one in agent.findings()) == [f"{{'code': {n}}}" for n in (1, 2, 3)]
    assert len({one.id for one in agent.findings()}) == 3
    assert agent.reader() != first
    assert any(n.code == "log_reader_ended" for n in agent.hello().notices)


def test_the_reader_ends_with_an_agent_that_is_killed(folder: Path, agent_of: Start) -> None:
    (folder / "a.log").write_text("x\n")
    agent = agent_of()
    agent.file(folder / "a.log")
    reader = agent.reader()
    agent.process.kill()
    wait_for(lambda: not alive(reader), "the reader outlives its agent")


def test_a_reader_that_hangs_ends_with_an_agent_that_is_killed(folder: Path, agent_of: Start) -> None:
    log = folder / "a.log"
    log.write_text("x\n")
    agent = agent_of(rules=(ENDLESS,))
    agent.file(log)
    reader = agent.reader()
    append(log, BAIT)
    wait_for(lambda: _cpu_ticks(reader) > 50, "the reader is at work")
    agent.process.kill()
    wait_for(lambda: not alive(reader), "the reader outlives its agent")


def test_a_search_ends_with_the_agent(folder: Path, agent_of: Start) -> None:
    log = folder / "a.log"
    log.write_text("a" * 60 + "!\n")
    agent = agent_of()
    agent.file(log)
    agent.send(b'{"do":"search","id":5,"pattern":"^(a+)+$"}\n')
    reader = agent.reader()
    (search,) = wait_for(lambda: children(reader), "a search runs")
    agent.process.kill()
    wait_for(lambda: not alive(search) and not alive(reader), "something outlives the agent")


def test_the_cost_of_the_reader_is_the_agents(folder: Path, agent_of: Start) -> None:
    (folder / "a.log").write_text("x\n")
    agent = agent_of()
    agent.file(folder / "a.log")
    cost = agent.sample(lambda s: s.agent is not None and s.agent.cpu_pct is not None).agent
    assert cost is not None and cost.rss_bytes is not None
    alone = int(Path(f"/proc/{agent.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    assert alone < cost.rss_bytes < 40e6


def _cpu_ticks(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])


def live_a_little(version: str, folder: Path) -> None:
    """Find, list, look and search on one Python; nothing may be said on stderr."""
    folder.mkdir()
    log = folder / "rank_2.log"
    log.write_text("BOOM code=1\n")
    agent = LogAgent(folder, python=interpreter(version))
    try:
        assert agent.found().rank == 2
        agent.file(log, lambda one: one.backlog_pct is None)
        append(log, "BOOM code=2\n")
        agent.found(lambda one: one.fields == {"code": 2} and not one.backlog)
        agent.send(Tail(id=5, file=str(log)))
        assert texts(agent.lines(5, bool)) == ["BOOM code=1", "BOOM code=2"]
        agent.send(b'{"do":"search","id":6,"pattern":"code=\\\\d"}\n')
        assert texts(agent.lines(6)) == ["BOOM code=1", "BOOM code=2"]
        agent.send(Ping(id=7))
        agent.reply(7)
        assert not any(getattr(frame, "event", "") == "agent" for frame in agent.frames), agent.frames
        agent.stdin.close()
        assert agent.wait() == 0
        assert agent.stderr.read() == b""
    finally:
        agent.end()


@pytest.fixture(scope="module")
def lives(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[None]]]:
    folder = tmp_path_factory.mktemp("readers")
    yield from all_at_work(request, lambda version: live_a_little(version, folder / version))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("version", VERSIONS)
def test_logs_are_read_on(version: str, lives: dict[str, Future[None]]) -> None:
    assert lives[version].result() is None


def test_a_killed_readers_files_count_as_searched_only_when_the_next_one_says_so(
    folder: Path, agent_of: Start
) -> None:
    log = folder / "rank_0.log"
    log.write_text("quiet\n" * 1000)
    agent = agent_of()
    assert agent.file(log, lambda one: one.searched_to == 6000).backlog_pct is None
    seen = len(agent.frames)
    os.kill(agent.reader(), signal.SIGKILL)

    def listed(frames: Sequence[AnyFrame]) -> list[tuple[bool, int | None]]:
        lists = [frame for frame in frames if isinstance(frame, Logs)]
        return [
            (each.complete, one.searched_to) for each in lists for one in each.files if one.path == str(log)
        ]

    agent.until(lambda fs: listed(fs) and listed(fs)[-1] == (True, 6000), "file searched anew", seen)
    assert listed(agent.frames[seen:])[0] == (False, None)


def test_a_node_without_log_files_says_so(folder: Path, agent_of: Start) -> None:
    agent = agent_of()
    frame = agent.until(lambda fs: newest(fs, Logs, lambda one: one.complete), "complete list")
    assert [file.path for file in frame.files if str(folder) in file.path] == []
