"""What an H200 and an H100 wrote: real NCCL logs, dumps, RAS answers and frames (torch 2.11, NCCL 2.28.9).

Four ranks shared the GPU; each claimed a host of its own (NCCL_HOSTID). The faulty rank was chosen.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from gpuwatch.diagnose.hang.flight_recorder.verdict import judge_flight
from gpuwatch.diagnose.hang.ras.json_format import read_json
from gpuwatch.diagnose.hang.ras.text_format import read_text
from gpuwatch.diagnose.hang.ras.verdict import judge_ras
from gpuwatch.link.smi.row import parse_row
from gpuwatch.report.scan.report import ScanReport, judged
from gpuwatch.rules.load import Packs, load_packs
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.flight.dump_files import gather_dumps
from gpuwatch.runs.scan.scan import Begin, scan
from gpuwatch.wire import Hello, Sample, decode

H200 = Path(__file__).parent / "recorded" / "h200"
H100 = H200.parent / "h100"
NOW = 1_796_000_000.0


@cache
def rules() -> tuple[Packs, Begin]:
    packs = load_packs()
    return packs, Begin.of(packs.all, "agent")


def report_of(job: str, *, with_dumps: bool = True, of: Path = H200) -> ScanReport:
    packs, begin = rules()
    found = gather([of / job], packs.column_words)
    dumps = gather_dumps(found.dumps).dumps if with_dumps else []
    return judged(scan(found, packs.all, begin=begin), packs, NOW, 0.1, dumps)


@pytest.mark.parametrize(
    ("job", "code", "rank"),
    [
        ("assert", "cuda.device_assert", 3),
        ("duplicate", "nccl.duplicate_gpu", 0),
        ("exception", "rank.exit_error", 0),
        ("hang", "nccl.watchdog_timeout", 2),
        ("mismatch", "nccl.collective_mismatch", 0),
        ("nan", "num.nan_loss", 0),
        ("oom", "oom.cuda", 2),
        ("sigkill", "rank.killed", 1),
    ],
)
def test_cause_and_rank_of_a_real_log(job: str, code: str, rank: int) -> None:
    (incident,) = report_of(job).incidents
    assert (incident.code, incident.rank, incident.severity) == (code, rank, "critical")


@pytest.mark.parametrize(("job", "before", "after"), [("mismatch", None, 0), ("hang", 2, 2)])
def test_dumps_beside_the_logs_name_the_rank(job: str, before: int | None, after: int) -> None:
    (logs_alone,) = report_of(job, with_dumps=False).incidents
    (incident,) = report_of(job).incidents
    assert (logs_alone.rank, logs_alone.hang_check) == (before, None)
    assert (incident.rank, incident.confidence) == (after, "high")
    assert incident.hang_check is not None
    assert incident.hang_check.verdict.culprits == (after,)


def test_a_logged_cause_outranks_the_dumps() -> None:
    """Rank 3 alone left a dump, so the dumps say that ranks 0 to 2 left none; the log has rank 2's error."""
    (incident,) = report_of("oom").incidents
    assert (incident.rank, incident.code) == (2, "oom.cuda")
    assert incident.hang_check is not None


def test_a_real_xid_is_of_the_rank_with_its_pid() -> None:
    ranks = {each.rank for each in report_of("illegal").incidents if each.code == "gpu.xid.app"}
    assert 1 in ranks


def test_the_cause_of_a_job_in_a_folder_named_gpu() -> None:
    """`/home/ann/gpu/train_job.py FAILED` states no lost GPU; Kineto without a daemon logs errors."""
    report = report_of("illegal", of=H100)
    (incident,) = report.incidents
    assert (incident.code, incident.rank, incident.node) == ("cuda.illegal_access", 1, None)
    assert "rank.error_unexplained" not in {alert.code for alert in report.outside}


def test_real_dumps_of_a_mismatch() -> None:
    verdict = judge_flight(gather_dumps([H200 / "mismatch"]).dumps).verdict
    assert (verdict.culprits, verdict.confidence) == ((0,), "high")


def test_real_dumps_without_start_times_blame_no_rank() -> None:
    """Rank 3's GPU was in an endless kernel; the dumps only say that all four queued the collective."""
    verdict = judge_flight(gather_dumps([H200 / "spin"]).dumps).verdict
    assert (verdict.wrong, verdict.culprits, verdict.confidence) == (True, (), "medium")
    assert "TORCH_NCCL_ENABLE_TIMING=1" in verdict.settle[0]


def test_real_answers_of_nccls_ras() -> None:
    """In both formats; rank 2 slept, and the others had launched eight operations more."""
    text = read_text((H200 / "ras_status.txt").read_text(), "vm", "localhost:28028")
    words = (H200 / "ras_status.json.txt").read_bytes().partition(b"\n")[2]
    for answer in (text, read_json(words, "vm", "localhost:28028")):
        verdict = judge_ras([answer])
        assert (verdict.wrong, verdict.culprits, verdict.confidence) == (True, (2,), "high")


def test_the_rank_that_does_not_answer_ras() -> None:
    """SIGSTOP held rank 2; the JSON lacks a comma in the entry of that rank."""
    for answer in (
        read_text((H100 / "ras_stopped_rank.txt").read_text(), "vm", "localhost:28028"),
        read_json((H100 / "ras_stopped_rank.json.txt").read_bytes(), "vm", "localhost:28028"),
    ):
        verdict = judge_ras([answer])
        assert (verdict.wrong, verdict.culprits) == (True, (2,))


def test_real_rows_of_nvidia_smi() -> None:
    rows = [parse_row(line) for line in (H200 / "nvidia-smi-lms.csv").read_text().splitlines()]
    assert [round(later.at - row.at) for row, later in pairwise(rows)] == [1, 1, 1]
    sample = rows[0].values
    assert (rows[0].index, sample["name"], sample["power.draw"], sample["pstate"]) == (
        0,
        "NVIDIA H200",
        "79.82",
        "P0",
    )


@pytest.mark.parametrize(("of", "name"), [(H200, "NVIDIA H200"), (H100, "NVIDIA H100 80GB HBM3")])
def test_real_frames_decode_to_all_tiers(of: Path, name: str) -> None:
    frames = [decode(line) for line in (of / "frames.jsonl").read_bytes().splitlines()]
    hello = next(frame for frame in frames if isinstance(frame, Hello))
    gpus = [gpu for frame in frames if isinstance(frame, Sample) for gpu in frame.gpus]
    assert hello.gpus[0].name == name
    assert all(gpu.state == "ok" for gpu in gpus)
    fast = [gpu.fast for gpu in gpus if gpu.fast is not None]
    assert {msgspec.structs.asdict(each)["sm_activity_pct"] for each in fast[-2:]} == {0.0}
    assert any(gpu.slow is not None and gpu.slow.ecc_uncorrected == 0 for gpu in gpus)
