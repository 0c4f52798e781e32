"""An agent that reads logs: what it finds, lists and answers."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest
from msgspec import structs

from gpuwatch.rules.load import load_packs
from gpuwatch.wire import AnyFrame, Cancel, LeaveFiles, Progress, ReadLines, Reply, Search, Tail
from tests.agent.logs.conftest import BOOM, LogAgent, agents_in, append, children, stopped, texts
from tests.agent.running import newest
from tests.parts import SEEN_BY_EVERY_AGENT
from tests.sentences import Sentences

pytestmark = SEEN_BY_EVERY_AGENT

Start = Callable[..., LogAgent]
NUMBERS = itertools.count(5)


def test_what_was_there_and_what_comes_is_found_once(folder: Path, agent_of: Start) -> None:
    log = folder / "rank_3.log"
    log.write_text("quiet\n" * 1000 + "BOOM code=1\n" + "quiet\n" * 1000)
    agent = agent_of()
    old = agent.found()
    assert (old.rule, old.file, old.offset, old.backlog) == ("test.boom", str(log), 6000, True)
    assert (old.rank, old.rank_from, old.fields) == (3, "path", {"code": 1})
    agent.file(log, lambda one: one.backlog_pct is None)
    append(log, "still quiet\nBOOM code=2\n")
    new = agent.found(lambda one: one.fields == {"code": 2})
    assert (new.offset, new.backlog, new.lines[new.key]) == (12012 + 12, False, "BOOM code=2")
    assert new.id != old.id
    assert agent.file(log, lambda one: one.lines == 2).ranks == [3]
    assert [one.id for one in agent.findings()] == [old.id, new.id]


def test_a_file_that_appears_later_is_new_from_its_first_byte(folder: Path, agent_of: Start) -> None:
    (folder / "a.log").write_text("x\n")
    agent = agent_of()
    agent.file(folder / "a.log")
    (folder / "b.log").write_text("BOOM code=7\n")
    assert not agent.found(lambda one: one.file.endswith("b.log")).backlog


def test_a_rotated_file_goes_on_and_its_old_part_is_not_scanned_again(folder: Path, agent_of: Start) -> None:
    log = folder / "train.log"
    log.write_text("BOOM code=1\n")
    agent = agent_of(logs=[f"{folder}/*"])
    agent.file(log, lambda one: one.backlog_pct is None)
    log.rename(folder / "train.log.1")
    log.write_text("BOOM code=2\n")
    agent.found(lambda one: one.fields == {"code": 2})
    agent.file(log, lambda one: one.seams == 1)
    (folder / "other").write_text("BOOM code=3\n")
    agent.found(lambda one: one.fields == {"code": 3})  # the folder has been looked through again
    assert sorted(str(one.fields) for one in agent.findings()) == [f"{{'code': {n}}}" for n in (1, 2, 3)]


def test_files_behind_the_descriptors_of_ranks_are_found(folder: Path, agent_of: Start) -> None:
    out = folder / "anything.txt"
    code = "import time\nprint('BOOM code=5', flush=True)\ntime.sleep(60)"
    env = {**os.environ, "RANK": "13", "LOCAL_RANK": "5", "WORLD_SIZE": "16", "SLURM_JOB_ID": "4242"}
    with out.open("wb") as file, subprocess.Popen([sys.executable, "-c", code], stdout=file, env=env) as rank:
        try:
            agent = agent_of(logs=[])
            found = agent.found()
            assert (found.rank, found.rank_from, found.local_rank, found.job) == (13, "process", 5, "4242")
            listed = agent.file(out)
            assert (listed.source, listed.pids, listed.ranks) == ("process", [rank.pid], [13])
        finally:
            rank.kill()


def test_what_cannot_be_read_is_listed_with_the_reason(folder: Path, agent_of: Start) -> None:
    (folder / "a.log").symlink_to(folder / "nowhere.log")
    (folder / "b.log").symlink_to("b.log")
    (folder / "fifo.log").touch()
    (folder / "c.log").write_text("x\n")
    agent = agent_of()
    agent.file(folder / "c.log")
    loop = agent.file(folder / "b.log")
    assert loop.state == "unreadable"
    assert loop.reason is not None
    assert "symbolic links" in loop.reason


def test_a_line_without_an_end_is_looked_at_after_a_while(folder: Path, agent_of: Start) -> None:
    log = folder / "a.log"
    log.write_text("")
    agent = agent_of()
    agent.file(log)
    append(log, "BOOM code=9")
    assert agent.found().fields == {"code": 9}
    append(log, "\nBOOM code=10\n")
    agent.found(lambda one: one.fields == {"code": 10})
    assert len({one.id for one in agent.findings()}) == 2


def test_a_flood_in_one_file_does_not_delay_another(folder: Path, agent_of: Start) -> None:
    loud, calm = folder / "a.log", folder / "b.log"
    loud.touch()
    calm.touch()
    agent = agent_of()
    agent.file(loud)
    agent.file(calm)
    with stopped(children(agent.process.pid)):  # so that it meets both files' lines at once
        append(loud, "so much to say about nothing at all\n" * 1_000_000 + "BOOM code=1\n")
        append(calm, "BOOM code=2\n")
    agent.found(lambda one: one.fields == {"code": 1})
    assert [one.fields["code"] for one in agent.findings()] == [2, 1]


def written(folder: Path) -> Path:
    """A log of ten minutes."""
    log = folder / "a.log"
    log.write_text("".join(f"2024-05-01 10:{n // 60:02}:{n % 60:02} line {n}\n" for n in range(600)))
    return log


LookedAt: TypeAlias = "tuple[LogAgent, Path, int]"
"""An agent, the log that it follows, and the number of the next request."""


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LogAgent, Path]]:
    """An agent and its log, for tests that change no file."""
    folder = tmp_path_factory.mktemp("looked_at")
    log = written(folder)
    with agents_in(folder) as begin:
        agent = begin()
        agent.file(log)
        yield agent, log


class TestAskingOneAgent:
    """What changes no file is asked of one agent, one after the other."""

    @pytest.fixture
    def looked_at(self, followed: tuple[LogAgent, Path]) -> LookedAt:
        return (*followed, next(NUMBERS))

    def test_a_tail_goes_on_at_an_offset(self, looked_at: LookedAt) -> None:
        agent, log, number = looked_at
        agent.send(Tail(id=number, file=str(log), offset=log.stat().st_size - 29))
        assert texts(agent.lines(number, bool)) == ["2024-05-01 10:09:59 line 599"]

    def test_a_page_around_an_offset(self, looked_at: LookedAt) -> None:
        agent, log, number = looked_at
        offset = log.read_text().index("line 300")
        agent.send(ReadLines(id=number, file=str(log), offset=offset, before=2, after=3))
        assert [text[-8:] for text in texts(agent.lines(number))] == [f"line {n}" for n in range(298, 303)]

    def test_a_page_at_a_time(self, looked_at: LookedAt) -> None:
        agent, log, number = looked_at
        at = time.mktime((2024, 5, 1, 10, 5, 0, 0, 0, -1))
        agent.send(ReadLines(id=number, file=str(log), time=at, after=1))
        assert [text[-8:] for text in texts(agent.lines(number))] == ["line 300"]

    def test_a_search_streams_what_it_finds(self, looked_at: LookedAt) -> None:
        agent, log, number = looked_at
        agent.send(Search(id=number, pattern=r"line \d*99$"))
        frames = agent.lines(number)
        found = [text[-8:].strip() for text in texts(frames)]
        assert found == ["line 99", *(f"line {n}99" for n in range(1, 6))]
        assert frames[-1].progress == 1.0
        assert frames[0].file == str(log)

    def test_a_search_in_any_case_and_with_a_limit(self, looked_at: LookedAt) -> None:
        agent, log, number = looked_at
        agent.send(Search(id=number, pattern="LINE 5", ignore_case=True, limit=3, files=[str(log)]))
        assert [text[-7:].strip() for text in texts(agent.lines(number))] == ["line 5", "line 50", "line 51"]

    @pytest.mark.parametrize(
        ("request_", "why"),
        [
            (Tail(id=5, file="/etc/passwd"), "not among the log files"),
            (ReadLines(id=5, file="/etc/passwd"), "not among the log files"),
            (Search(id=5, pattern="("), "no regular expression"),
            (Search(id=5, pattern="x", files=["/etc/passwd"]), "not among the log files"),
        ],
    )
    def test_what_cannot_be_done_is_refused(
        self, looked_at: LookedAt, request_: Tail | ReadLines | Search, why: str
    ) -> None:
        agent, _, number = looked_at
        agent.send(structs.replace(request_, id=number))
        assert why in (agent.reply(number).error or "")


class TestLookingAtFiles:
    """Tails, pages and searches."""

    @pytest.fixture
    def log(self, folder: Path) -> Path:
        return written(folder)

    @pytest.fixture
    def agent(self, log: Path, agent_of: Start) -> LogAgent:
        agent = agent_of()
        agent.file(log)
        return agent

    def test_a_tail_begins_with_the_last_lines_and_grows(self, agent: LogAgent, log: Path) -> None:
        agent.send(Tail(id=5, file=str(log), lines=2))
        first = agent.lines(5, bool)
        assert [text[-8:] for text in texts(first)] == ["line 598", "line 599"]
        assert first[0].lines[0].arrived is None
        append(log, "fresh\n")
        grown = agent.lines(5, lambda fs: "fresh" in texts(fs))
        assert grown[-1].lines[-1].arrived is not None
        agent.send(Cancel(id=6, of=5))
        assert agent.lines(5)[-1].error is None
        append(log, "unseen\n")
        agent.send(ReadLines(id=7, file=str(log), before=1))
        assert texts(agent.lines(7)) == ["unseen"]
        assert "unseen" not in texts(agent.lines(5))

    def test_a_tail_tells_of_a_seam(self, agent: LogAgent, log: Path) -> None:
        agent.send(Tail(id=5, file=str(log), lines=1))
        agent.lines(5, bool)
        log.write_text("anew\n")
        frames = agent.lines(5, lambda fs: "anew" in texts(fs))
        assert [frame.seam for frame in frames if frame.seam] == ["truncated"]

    def test_a_bar_is_one_line_that_changes(self, agent: LogAgent, log: Path) -> None:
        agent.send(Tail(id=5, file=str(log), lines=0))
        agent.lines(5, bool)
        append(log, "\r 10%|#   | 1/10 [00:01<00:09, 1.00it/s]")
        first = agent.lines(5, lambda fs: any(" 1/10" in text for text in texts(fs)))
        append(log, "\r 20%|##  | 2/10 [00:02<00:08, 1.00it/s]")
        both = agent.lines(5, lambda fs: any(" 2/10" in text for text in texts(fs)))
        assert both[-1].lines[-1].offset == first[-1].lines[-1].offset

    def test_a_page_of_long_lines_is_shorter_and_comes_in_several_frames(
        self, agent: LogAgent, log: Path
    ) -> None:
        append(log, ("\u00e9" * 8000 + "\n") * 150)
        agent.send(ReadLines(id=5, file=str(log), offset=log.stat().st_size // 2, before=75, after=75))
        frames = agent.lines(5)
        assert 20 < len(texts(frames)) < 150
        assert len(frames) > 1

    def test_a_search_that_never_ends_is_given_up_and_delays_nobody(
        self, agent: LogAgent, log: Path, sentences: Sentences
    ) -> None:
        append(log, "a" * 60 + "!\n")
        agent.send(Search(id=5, pattern=r"^(a+)+$"))
        append(log, "BOOM code=1\n")
        agent.found()
        sentences(agent.lines(5)[-1].error or "")

    def test_a_search_is_cancelled_at_once(self, agent: LogAgent, log: Path) -> None:
        append(log, "a" * 60 + "!\n")
        agent.send(Search(id=5, pattern=r"^(a+)+$"))
        agent.send(Cancel(id=6, of=5))
        assert agent.lines(5)[-1].error is None

    def test_a_file_that_another_node_follows_is_left_alone(self, agent: LogAgent, log: Path) -> None:
        agent.send(LeaveFiles(id=0, files=[str(log)]))
        agent.until(lambda fs: newest(fs, Reply, lambda r: r.id == 0), "reply")
        assert agent.file(log, lambda one: one.state == "elsewhere").size == log.stat().st_size
        append(log, "BOOM code=1\n")
        agent.send(ReadLines(id=6, file=str(log), before=1))
        assert texts(agent.lines(6)) == ["BOOM code=1"]
        assert agent.findings() == []
        agent.send(LeaveFiles(id=0, files=[]))
        agent.file(log, lambda one: one.state == "following")
        assert agent.found().fields == {"code": 1}


def test_training_progress_comes_a_frame_a_tick_with_the_newest_values(folder: Path, agent_of: Start) -> None:
    log = folder / "rank_3.log"
    log.write_text("".join(f"step: {step} loss: 2.5 lr: 0.001\n" for step in range(5000)))
    hung = time.time() - 2400.0
    os.utime(log, (hung, hung))
    agent = agent_of(rules=load_packs().dialects)
    old = agent.until(lambda frames: _step(frames, 4999), "the last step of the past")
    assert old.at == pytest.approx(hung, abs=0.1), "no line has a time, but none is younger than its file"
    assert agent.file(log).grown_at == pytest.approx(hung, abs=0.1)
    assert (old.rank, old.rank_from, old.backlog, old.file) == (3, "path", True, str(log))
    past = agent.until(partial(_past, log=log), "the steps of the past")
    assert (past.rank, past.past[0].step, past.past[-1].step) == (3, 0, 4999)
    after = len(agent.frames)
    append(log, "".join(f"step: {step} loss: 2.25 lr: 0.001\n" for step in range(5000, 5100)))
    new = agent.until(lambda frames: _step(frames, 5099), "the newest step")
    assert (new.fields["loss"], new.backlog, new.dialect) == (2.25, False, "progress.common")
    reported = [
        frame for frame in agent.frames[after:] if isinstance(frame, Progress) and frame.file == str(log)
    ]
    assert len(reported) <= 5  # whatever the writing was cut into: not a frame a step


def test_rows_of_a_table_are_progress_by_its_header(folder: Path, agent_of: Start) -> None:
    log = folder / "rank_3.csv"
    log.write_text("epoch,step,loss,lr\n" + "".join(f"0,{step},2.5,0.001\n" for step in range(500)))
    agent = agent_of(logs=[f"{folder}/*.csv"], rules=load_packs().dialects)
    past = agent.until(partial(_past, log=log), "the steps of the past")
    assert (past.rank, past.past[0].step, past.past[-1].step) == (3, 0, 499)
    append(log, "1,500,2.25,0.001\n1,501,nan,0.001\n")
    new = agent.until(lambda frames: _step(frames, 501), "the newest step")
    assert (new.rank, new.fields["loss"], new.dialect) == (3, "nan", "progress.table")


def test_what_was_there_is_no_younger_than_its_file(folder: Path, agent_of: Start) -> None:
    """A job that hangs has hung since its log last grew, not since somebody looked; also within a bar."""
    log, bar = folder / "rank_3.log", folder / "rank_4.log"
    log.write_text("BOOM code=7\nstep: 40 loss: 2.5 lr: 0.001\n")
    bar.write_text("start\nstep: 41 loss: 2.5 lr: 0.001")
    hour_ago = time.time() - 3600
    for file in (log, bar):
        os.utime(file, (hour_ago, hour_ago))
    agent = agent_of(rules=[*load_packs().dialects, BOOM])
    found = agent.found()
    steps = [agent.until(partial(_step, step=step), "the step") for step in (40, 41)]
    grown = [agent.file(file, lambda one: one.grown_at is not None).grown_at for file in (log, bar)]
    assert [found.at, *(one.at for one in steps), *grown] == pytest.approx([hour_ago] * 5, abs=1)


def _past(frames: Sequence[AnyFrame], log: Path) -> Progress | None:
    """Return the first frame with past steps of this log, else None; other tests' jobs send their own."""
    reported = (one for one in frames if isinstance(one, Progress) and one.past)
    return next((one for one in reported if one.file == str(log)), None)


def _step(frames: Sequence[AnyFrame], step: int) -> Progress | None:
    found = [one for one in frames if isinstance(one, Progress) and one.fields.get("step") == step]
    return found[-1] if found else None
