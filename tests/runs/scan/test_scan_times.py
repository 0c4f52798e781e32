"""What a scan says of the time of lines that carry none."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.report.scan.report import judged, scan_facts
from gpuwatch.rules.load import load_packs
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.scan.scan import scan

PACKS = load_packs()
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB."
EARLY = "2026-03-11 03:10:00 INFO step 1 loss 2.0"
LATE = "2026-03-11 03:12:06 INFO rank 1 said goodbye"
NOW = 1_800_000_000.0


def first(folder: Path, *lines: str) -> dict[str, Any]:
    path = folder / "train.log"
    path.write_text("\n".join(lines) + "\n")
    os.utime(path, (NOW, NOW))  # copied later
    facts = scan_facts(judged(scan(gather([folder]), PACKS.rules, "agent", cores=1), PACKS, NOW, 0.0))
    incident: dict[str, Any] = facts["incidents"][0]
    return incident


@pytest.mark.parametrize(
    ("lines", "bound", "words"),
    [
        ((EARLY, OOM, LATE), "before", "before 2026-03-11 03:12:06"),
        ((EARLY, OOM), "after", "at or after 2026-03-11 03:10:00"),
        ((OOM,), "undated", "(undated)"),
        ((f"2026-03-11 03:11:00 ERROR {OOM}", LATE), None, "2026-03-11 03:11:00"),
    ],
)
def test_a_sentence_says_what_bounds_the_time(
    tmp_path: Path, lines: tuple[str, ...], bound: str | None, words: str
) -> None:
    incident = first(tmp_path, *lines)
    assert incident["first_seen_bound"] == bound
    assert incident["sentence"].endswith(words)
    assert (incident["first_seen"] is None) == (bound == "undated")
    assert (incident["not_before"] is None) == (bound in (None, "undated"))
    assert incident["first_seen_exact"] == (bound is None)


def test_a_hang_in_lines_without_a_time_is_undated(tmp_path: Path) -> None:
    waited = "WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000)"
    line = f"[rank3]: [Rank 3] Watchdog caught collective operation timeout: {waited} ran for 600050"
    incident = first(tmp_path, f"{line} milliseconds before timing out.")
    assert (incident["first_seen"], incident["first_seen_bound"]) == (None, "undated")
    assert "(undated)" in incident["sentence"]
    assert all(moment["at"] is None for moment in incident["timeline"])


def test_a_kernel_log_and_file_stamps_do_not_date_the_lines_of_a_job(tmp_path: Path) -> None:
    kernel = tmp_path / "kern.log"
    kernel.write_text(
        "2026-03-11T03:12:06+00:00 gpu-1 kernel: NVRM: loading NVIDIA UNIX x86_64 Kernel Module\n"
    )
    written = 1_773_198_726.0  # 2026-03-11 03:12:06 UTC
    os.utime(kernel, (written, written))
    path = tmp_path / "rank3.log"
    path.write_text(f"{OOM}\n")
    os.utime(path, (written + 5, written + 5))
    facts = scan_facts(judged(scan(gather([tmp_path]), PACKS.rules, "agent", cores=1), PACKS, NOW, 0.0))
    (incident,) = facts["incidents"]
    assert (incident["first_seen_bound"], incident["first_seen"]) == ("undated", None)


def test_the_stamps_of_other_files_do_not_bound_a_line(tmp_path: Path) -> None:
    (tmp_path / "gx-1").mkdir()
    (tmp_path / "gx-2").mkdir()
    (tmp_path / "gx-1" / "stderr").write_text("ImportError: libquux.so.2: cannot open shared object file\n")
    (tmp_path / "gx-2" / "stderr").write_text("2026-03-11 03:12:06 waiting for the others\n")
    facts = scan_facts(judged(scan(gather([tmp_path]), PACKS.rules, "agent", cores=1), PACKS, NOW, 0.0))
    (incident,) = facts["incidents"]
    assert (incident["first_seen_bound"], incident["first_seen"]) == ("undated", None)
