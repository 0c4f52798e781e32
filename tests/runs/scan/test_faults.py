"""A fault of gpuwatch's over one file is named in the report, and the rest is scanned."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gpuwatch.agent.logs.scanning.line_findings import LineFindings
from gpuwatch.diagnose.past_jobs import judgement
from gpuwatch.diagnose.past_jobs.folder import folder_judgement
from gpuwatch.report.scan.report import judged
from gpuwatch.rules.load import load_packs
from gpuwatch.runs.files import files
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.model.containment import from_sound
from gpuwatch.runs.scan import assembly, dating, placing, reading
from gpuwatch.runs.scan import scan as scanning
from gpuwatch.runs.scan.result import Scan
from gpuwatch.runs.scan.scan import scan

OUT_OF_MEMORY = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n"


def scanned(folder: Path) -> Scan:
    return scan(gather([folder]), load_packs().rules, "agent")


def rules_of(found: Scan) -> set[str]:
    return {each.finding.rule for each in found.located}


def test_a_form_of_lines_that_holds_the_sign_of_a_number_is_read(tmp_path: Path) -> None:
    """In place of a number stood a NUL: a line with one of its own looked like those with two numbers."""
    lines = [f"copy {number} of {number} files\n" for number in range(100)]
    (tmp_path / "rank0.log").write_text("".join(lines) + "copy 7 of \0 files\n" + OUT_OF_MEMORY)
    found = scanned(tmp_path)
    assert [file.trouble for file in found.files] == [None]
    assert "oom.cuda" in rules_of(found)


STAGES = (
    (files, "form_of_text"), (files, "last_year_time"), (files, "sections_of"), (files, "ranks_of_path"),
    (scanning, "sample_of"), (scanning, "learned_tags"), (scanning, "files_with_day_first"),
    (reading, "census_of"), (reading, "take_tools"), (reading, "speaker_of"),
    (dating, "gathered"), (placing, "joins"), (placing, "ranks_by_banner"), (placing, "with_census"),
    (placing, "rank_map"), (assembly, "unfinished"), (assembly, "give_neighbours"), (assembly, "epochs_of"),
)  # fmt: skip


@pytest.mark.parametrize(("module", "stage"), STAGES, ids=[name for _, name in STAGES])
def test_a_fault_over_a_file_ends_no_scan(
    module: ModuleType, stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a-rank0.log", "b-rank1.log", "notes.log"):
        (tmp_path / name).write_text(f"{OUT_OF_MEMORY}({name})\n")
    original = getattr(module, stage)
    faulty = "notes" if stage == "give_neighbours" else "a-rank0"

    def fail(*given: Any) -> Any:
        if faulty in repr(given[:2] if stage == "give_neighbours" else given[0]):
            raise re.error(faulty)
        return original(*given)

    monkeypatch.setattr(module, stage, fail)
    found = scanned(tmp_path)
    named = {file.name for file in found.files if f"('{faulty}')" in (file.trouble or "")}
    assert [Path(name).name for name in named] == [f"{faulty}.log"]
    assert {place.rank for place in found.places.ranks} >= {1}
    assert "oom.cuda" in rules_of(found)
    assert judged(found, load_packs(), 0.0, 0.0).unread


JUDGED_BY = (
    (judgement, "alerts_of"), (judgement, "tracks_of"), (judgement, "incidents"), (judgement, "job_end"),
    (judgement, "with_later_lines"), (folder_judgement, "tracks_of"),
)  # fmt: skip


@pytest.mark.parametrize(("module", "stage"), JUDGED_BY, ids=[f"{m.__name__[-8:]}-{n}" for m, n in JUDGED_BY])
def test_a_fault_of_the_judgement_over_a_file_ends_no_report(
    module: ModuleType, stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a-rank0.log", "b-rank1.log", "c-rank2.log"):
        (tmp_path / name).write_text(f"{OUT_OF_MEMORY}({name})\n")
    original, found = getattr(module, stage), scanned(tmp_path)

    def fail(*given: Any, **named: Any) -> Any:
        if stage == "job_end" or "a-rank0" in repr(given[0]):
            raise KeyError("a-rank0")
        return original(*given, **named)

    monkeypatch.setattr(module, stage, fail)
    report = judged(found, load_packs(), 0.0, 0.0)
    everything = stage == "job_end" or module is folder_judgement
    why = {file.name: file.trouble for file in report.scan.files}
    why.update((each.name, each.why) for each in report.scan.skipped)
    named = [Path(name).name for name, text in why.items() if "KeyError" in (text or "")]
    assert named == (["all files"] if everything else ["a-rank0.log"])
    assert report.unread and report.has_problems
    reported = {rank for each in report.incidents for alert in each.alerts for rank in (alert.rank,)}
    reported |= {alert.rank for alert in report.outside if alert.code == "oom.cuda"}
    assert reported >= {1, 2}
    assert bool(report.incidents) is (stage != "job_end")


def test_of_files_that_fail_only_together_the_last_is_left_out() -> None:
    def made(parts: Sequence[int]) -> list[int]:
        if {3, 5} <= set(parts) or 1 in parts:
            raise IndexError
        return list(parts)

    parts, faults = from_sound(made, range(8))
    assert (parts, sorted(faults)) == ([0, 2, 3, 4, 6, 7], [1, 5])


def test_a_record_that_is_searched_in_part_is_named(tmp_path: Path) -> None:
    record = json.dumps({"level": "INFO", "message": "\n".join(["CUDA out of memory x"] * 1500)})
    (tmp_path / "rank0.log").write_text(record)
    (tmp_path / "rank1.log").write_text("step 1\n")
    found = scanned(tmp_path)
    assert [file.trouble is not None for file in found.files] == [True, False]


def test_a_fault_over_the_last_line_without_an_end_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> int:
        raise ValueError

    monkeypatch.setattr(LineFindings, "take", fail)
    (tmp_path / "rank0.log").write_text(OUT_OF_MEMORY.rstrip())
    assert "ValueError" in (scanned(tmp_path).files[0].trouble or "")
