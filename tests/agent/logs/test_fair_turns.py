"""A log that is full of findings takes its share of the reader and of the link, and no more."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

from gpuwatch.agent.logs.files.entry import (
    AIM_FINDINGS,
    AIM_S,
    FIRST_BYTES,
    MAX_BYTES,
    MIN_BYTES,
    StepSize,
)
from gpuwatch.agent.logs.ipc.allowance import (
    BYTES_AT_ONCE,
    BYTES_PER_S,
    FINDINGS_AT_ONCE,
    FINDINGS_PER_S,
    FindingAllowance,
)
from gpuwatch.agent.logs.matching.ruleset import RuleSet
from gpuwatch.agent.logs.scanning.dedup import GROWN_AT_ONCE, Gatherer
from gpuwatch.agent.logs.scanning.scanner import Scanner
from gpuwatch.link.stream.frame_stream import StreamLimits
from gpuwatch.rules.compiling.compile import compiled
from gpuwatch.wire import Logs
from tests.agent.logs.conftest import BOOM, LogAgent, append
from tests.agent.running import newest

Start = Callable[..., LogAgent]


def flood(count: int, begin: int = 0) -> str:
    return "".join(f"[rank{rank}]: BOOM code={rank}\n" for rank in range(begin, begin + count))


def test_an_old_log_full_of_findings_does_not_delay_the_log_beside_it(folder: Path, agent_of: Start) -> None:
    (folder / "rank0.log").write_text(flood(12_000))
    (folder / "rank3.log").write_text("step 1\n" * 3000 + "[rank3]: BOOM code=99999\n")
    agent = agent_of()
    agent.found(lambda one: one.fields == {"code": 99999})
    before = [one for one in agent.findings() if one.file.endswith("rank0.log")]
    assert len(before) < 1500


def test_a_live_log_full_of_findings_does_not_delay_the_log_beside_it(folder: Path, agent_of: Start) -> None:
    (folder / "rank0.log").write_text(flood(8_000))
    (folder / "rank3.log").write_text("step 1\n")
    agent = agent_of()
    agent.file(folder / "rank3.log")
    append(folder / "rank0.log", flood(1, 8000))
    append(folder / "rank3.log", "[rank3]: BOOM code=99999\n")
    agent.found(lambda one: one.fields == {"code": 99999})
    before = [one for one in agent.findings() if one.file.endswith("rank0.log")]
    assert len(before) < 1500


def test_a_live_line_waits_for_the_small_backlog_of_its_file_and_is_not_lost(
    folder: Path, agent_of: Start
) -> None:
    log = folder / "rank0.log"
    log.write_text("step 1\n" * 40_000 + "[rank1]: BOOM code=1\n")
    agent = agent_of()
    agent.file(log)
    append(log, "[rank1]: BOOM code=1\n[rank2]: BOOM code=2\n")
    agent.found(lambda one: one.fields == {"code": 2})
    agent.file(log, lambda row: row.searched_to == log.stat().st_size)
    newest = {one.id: one for one in agent.findings()}
    assert sorted((one.rank, one.count) for one in newest.values()) == [(1, 2), (2, 1)]


def test_the_reader_tells_less_than_the_cockpit_takes() -> None:
    limits, now = StreamLimits(), [100.0]
    allowance = FindingAllowance(lambda: now[0])
    reported = size = 0
    for _ in range(600):  # of a tenth of a second
        now[0] += 0.1
        while not allowance.used_up:
            allowance.spend(20_000)
            reported, size = reported + 1, size + 20_000
    assert size <= BYTES_AT_ONCE + 60 * BYTES_PER_S + 20_000
    assert reported <= FINDINGS_AT_ONCE + 60 * FINDINGS_PER_S
    assert limits.frames_burst > FINDINGS_AT_ONCE and limits.frames_per_s / 2 >= FINDINGS_PER_S
    assert limits.kept_bytes_burst / 2 > BYTES_AT_ONCE and limits.kept_bytes_per_s / 2 > BYTES_PER_S


def test_a_step_is_as_long_as_its_lines_are_quick() -> None:
    now = [0.0]
    step = StepSize(lambda: now[0])
    assert step.bytes == FIRST_BYTES
    for cost, expected in ((AIM_S / 100 / FIRST_BYTES, MAX_BYTES), (1.0 / FIRST_BYTES, MIN_BYTES)):
        for _ in range(8):
            step.begin()
            now[0] += cost * step.bytes
            step.end(step.bytes, 0)
        assert step.bytes == expected
    for found, expected in ((0, MAX_BYTES), (100 * AIM_FINDINGS, MIN_BYTES)):
        for _ in range(8):
            step.begin()
            step.end(step.bytes, found)
        assert step.bytes == expected
    step.begin()
    step.end(100, 0)  # a short piece says nothing of what a longer one costs
    assert step.bytes == MIN_BYTES


def test_counts_that_grow_get_an_errorme_at_a_time() -> None:
    scanner = Scanner(RuleSet(compiled((BOOM,))), "a.log", itertools.count(1).__next__)
    data = flood(500).encode()
    assert len(scanner.feed(data, 0, 1e9)) == 500
    assert not scanner.feed(data, len(data), 1e9 + 1)
    reported = [scanner.quiet(1e9 + 10 + each) for each in range(30)]
    assert max(map(len, reported)) == GROWN_AT_ONCE
    assert sorted(one["rank"] for one in itertools.chain(*reported)) == list(range(500))
    assert Gatherer(iter(()).__next__).grown(1e9) == []


def test_findings_in_a_flood_are_cut_short(folder: Path, agent_of: Start) -> None:
    frames = "".join(f'  File "/x/{"é" * 7000}.py", line {n}, in f\n' for n in range(12))
    text = "Traceback (most recent call last):\n" + frames
    (folder / "rank0.log").write_text(
        text + "".join(f"[rank{rank}]: RuntimeError: BOOM code={rank}\n" for rank in range(2000))
    )
    agent = agent_of()
    agent.found(lambda one: one.rank == 1999)
    sizes = sum(
        len(line.encode("ascii", "backslashreplace")) for one in agent.findings() for line in one.lines
    )
    assert sizes < BYTES_AT_ONCE + 4_000_000


def test_names_of_any_length_do_not_keep_the_list_of_files_from_coming(folder: Path, agent_of: Start) -> None:
    long = folder
    for _ in range(8):
        long = long / ("\u202e" * 80)
    long.mkdir(parents=True)
    for number in range(300):
        (long / f"{number}.log").write_text("step 1\n")
    (folder / "rank3.log").write_text("BOOM code=1\n")
    agent = agent_of(logs=[f"{folder}/*.log", f"{long}/*.log"])
    agent.file(folder / "rank3.log", lambda row: row.searched_to == 12)
    listed = agent.until(lambda fs: newest(fs, Logs, lambda one: one.truncated > 0), "list that is cut")
    assert len(listed.files) > 100
