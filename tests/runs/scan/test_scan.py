from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuwatch.report.scan.report import ScanReport, judged
from gpuwatch.rules.load import Packs
from gpuwatch.rules.model.rule import Rule
from gpuwatch.rules.parsing.parse import parse_pack
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.prefilter import hyperscan_database
from gpuwatch.runs.scan import file_parts, reading, workers
from gpuwatch.runs.scan.file_parts import FilePart
from gpuwatch.runs.scan.result import Engine, Scan
from gpuwatch.runs.scan.scan import Watch, scan
from tests.runs import jobs
from tests.sentences import Sentences


@pytest.fixture
def packs() -> Packs:
    by_id = {rule.id: rule for rule, _ in parse_pack(jobs.PACK, "pack.yaml") if isinstance(rule, Rule)}
    return Packs(tuple(by_id.values()), by_id, dict.fromkeys(by_id, "pack.yaml"))


def report_of(folder: Path, packs: Packs) -> ScanReport:
    return judged(scan(gather([folder]), packs.rules, "agent"), packs, 1.8e9, 0.1)


@pytest.mark.parametrize("layout", jobs.LAYOUTS, ids=lambda layout: layout.__name__)
def test_every_layout_gives_the_same_incident(
    tmp_path: Path, packs: Packs, layout: Callable[[Path], None]
) -> None:
    layout(tmp_path)
    (incident,) = report_of(tmp_path, packs).incidents
    assert (incident.code, incident.rank, incident.node) == ("oom.cuda", jobs.VICTIM, "gpu-002")
    assert incident.followers == jobs.RANKS - 1


def test_the_kernel_log_of_a_node_names_the_rank_on_its_gpu(tmp_path: Path, packs: Packs) -> None:
    for rank in range(jobs.RANKS):
        if rank != jobs.VICTIM:
            (tmp_path / f"rank_{rank}.log").write_text(jobs.rank_text(rank))
    (tmp_path / f"rank_{jobs.VICTIM}.log").write_text(jobs.nccl_lines(jobs.VICTIM) + jobs.steps())
    (tmp_path / "dmesg-gpu-002.log").write_text(jobs.xid())
    (tmp_path / "dmesg-gpu-001.log").write_text("[Sun Mar  2 09:00:00 2025] eth0: link up\n")
    (incident,) = report_of(tmp_path, packs).incidents
    assert (incident.code, incident.node, incident.gpu, incident.rank) == (
        "gpu.xid.fell_off",
        "gpu-002",
        3,
        jobs.VICTIM,
    )


def test_a_line_without_a_time_is_dated_by_its_ranks_line_before(tmp_path: Path, packs: Packs) -> None:
    jobs.torchrun(tmp_path)
    (incident,) = report_of(tmp_path, packs).incidents
    assert incident.cause is not None
    assert not incident.cause.timed
    others = [alert.first for alert in incident.alerts if alert.code == "nccl.watchdog_timeout"]
    assert max(others) - incident.first == pytest.approx(10 * 60 + 40, abs=2)


def test_years_come_from_the_jobs_own_lines_though_the_files_were_copied_later(
    tmp_path: Path, packs: Packs
) -> None:
    jobs.flat(tmp_path)
    (tmp_path / "rank_0.log").write_text(jobs.timed_out(0))  # no line in it tells the year
    found = scan(gather([tmp_path]), packs.rules, "agent")
    times = [each.finding.at for each in found.located if each.finding.timed]
    assert max(times) == min(times)


def test_files_of_another_year_are_not_taken_for_this_years(tmp_path: Path, packs: Packs) -> None:
    path = tmp_path / "rank_0.log"
    path.write_text(jobs.timed_out(0))
    os.utime(path, (1_700_000_000, 1_700_000_000))  # November 2023
    (located,) = scan(gather([tmp_path]), packs.rules, "agent").located
    assert 1_677_000_000 < located.finding.at < 1_678_500_000


def big_log(path: Path, lines: int = 6_000) -> None:
    """Failures at every distance of part borders, equal ones over many parts, blocks and bars among them."""
    seed = random.Random(5)
    with path.open("w") as log:
        for number in range(lines):
            match seed.randrange(60):
                case 0:
                    log.write("[rank3]: OVERFLOW! Skipping step\n")
                case 1:
                    log.write(f"[rank{seed.randrange(20)}]: {jobs.oom()}")
                case 2:
                    log.write(f"\r 10%|#  | {number}/999\r 20%|## | {number}/999")
                case 3:
                    log.write(jobs.timed_out(seed.randrange(16)))
                case _:
                    log.write(f"2025-03-02 11:20:{number % 60:02} step {number} \x1b[32mloss\x1b[0m 2.0\n")


def facts(found: Scan) -> list[tuple[object, ...]]:
    return [
        (f.rule, f.file, f.offset, f.at, f.timed, f.rank, f.count, f.last_at, tuple(f.lines), f.key)
        for f in (located.finding for located in found.located)
    ]


def test_a_file_in_parts_gives_what_it_gives_as_a_whole(
    tmp_path: Path, packs: Packs, monkeypatch: pytest.MonkeyPatch
) -> None:
    big_log(tmp_path / "job.log")
    whole = facts(scan(gather([tmp_path]), packs.rules, "agent", cores=1))
    monkeypatch.setattr(file_parts, "PART_BYTES", 30_001)
    monkeypatch.setattr(reading, "AROUND_BYTES", 20_000)
    parted = scan(gather([tmp_path]), packs.rules, "agent", cores=1)
    assert sum(row[6] for row in whole) > 250  # type: ignore[misc]
    assert facts(parted) == whole
    assert parted.bytes == (tmp_path / "job.log").stat().st_size


@pytest.mark.skipif(not hyperscan_database.installed(), reason="the extra hyperscan is not installed")
def test_both_engines_find_the_same(tmp_path: Path, packs: Packs) -> None:
    big_log(tmp_path / "job.log")
    jobs.flat(tmp_path)
    found = gather([tmp_path])
    by_engine = {engine: facts(scan(found, packs.rules, engine)) for engine in engines()}
    assert len(by_engine["agent"]) > 30
    assert by_engine["hyperscan"] == by_engine["agent"]


def engines() -> tuple[Engine, ...]:
    return ("agent", "hyperscan")


def test_all_cores_give_what_one_gives(tmp_path: Path, packs: Packs, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs.flat(tmp_path)
    alone = scan(gather([tmp_path]), packs.rules, "agent", cores=1)
    monkeypatch.setattr("gpuwatch.runs.scan.scan.SMALL_BYTES", 0)
    shared = scan(gather([tmp_path]), packs.rules, "agent", cores=3)
    assert facts(shared) == facts(alone)
    assert shared.places == alone.places


def test_a_reader_that_dies_costs_its_file_only(
    tmp_path: Path, packs: Packs, monkeypatch: pytest.MonkeyPatch, sentences: Sentences
) -> None:
    jobs.flat(tmp_path)
    read_part = reading.read_part

    def deadly(part: FilePart, *rest: object) -> reading.PartRead:
        if part.log.name.endswith("rank_5.log"):
            os.kill(os.getpid(), 9)
        return read_part(part, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(reading, "read_part", deadly)
    monkeypatch.setattr("gpuwatch.runs.scan.scan.SMALL_BYTES", 0)
    found = scan(gather([tmp_path]), packs.rules, "agent", cores=2)
    trouble = {Path(file.name).name: file.trouble for file in found.files if file.trouble}
    assert list(trouble) == ["rank_5.log"]
    sentences(trouble)
    assert {each.finding.rank for each in found.located} == set(range(jobs.RANKS)) - {5}


def test_a_reader_that_dies_among_small_files_costs_one_of_them(
    tmp_path: Path, packs: Packs, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(96):
        (tmp_path / f"rank{number}.log").write_text(
            "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
        )
    read_part = reading.read_part

    def deadly(part: FilePart, *rest: object) -> reading.PartRead:
        if part.log.name.endswith("rank50.log"):
            os.kill(os.getpid(), 9)
        return read_part(part, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(reading, "read_part", deadly)
    monkeypatch.setattr("gpuwatch.runs.scan.scan.SMALL_BYTES", 0)
    found = scan(gather([tmp_path]), packs.rules, "agent", cores=2)
    assert [Path(file.name).name for file in found.files if file.trouble] == ["rank50.log"]
    assert {each.finding.rank for each in found.located} == set(range(96)) - {50}


def test_stopping_keeps_what_was_found(tmp_path: Path, packs: Packs, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs.flat(tmp_path)
    monkeypatch.setattr("gpuwatch.runs.scan.scan.SMALL_BYTES", 0)
    monkeypatch.setattr(workers, "POLL_S", 0.01)
    reported: list[int] = []
    watch = Watch(lambda _bytes, files: reported.append(files), lambda: bool(reported) and reported[-1] >= 3)
    found = scan(gather([tmp_path]), packs.rules, "agent", watch, cores=1 + 1)
    assert found.stopped
    assert found.located
    unread = [file for file in found.files if file.trouble]
    assert unread
    assert all("stopped" in (file.trouble or "") for file in unread)


def test_repeated_lines_are_one_finding_with_their_number(tmp_path: Path, packs: Packs) -> None:
    (tmp_path / "rank_2.log").write_text("OVERFLOW! Skipping step\n" * 1500)
    (located,) = scan(gather([tmp_path]), packs.rules, "agent").located
    assert located.finding.count == 1500


def calls_for(folder: Path, count: int, packs: Packs) -> int:
    """Python calls that a scan of so many small files takes."""
    folder.mkdir()
    for rank in range(count):
        (folder / f"rank_{rank}.log").write_text(f"step {rank}\n")
    calls = 0

    def counted(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(counted)
    try:
        judged(scan(gather([folder]), packs.rules, "agent", cores=1), packs, 1.8e9, 0.1)
    finally:
        sys.setprofile(None)
    return calls


def test_the_cost_of_a_scan_grows_with_the_number_of_files_and_no_faster(
    tmp_path: Path, packs: Packs
) -> None:
    few, many = calls_for(tmp_path / "few", 200, packs), calls_for(tmp_path / "many", 1600, packs)
    assert many < 9 * few
