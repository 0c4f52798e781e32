"""A fault of gpuwatch's over one file is named in the report, and the rest is scanned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.agent.logs.scanning.line_findings import LineFindings
from gpuwatch.rules.load import load_packs
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.scan import reading
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


@pytest.mark.parametrize("stage", ["census_of", "take_tools"])
def test_a_fault_over_a_file_ends_no_scan(
    stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2):
        (tmp_path / f"rank{number}.log").write_text(OUT_OF_MEMORY)
    original = getattr(reading, stage)

    def fail(part: Any, *more: Any) -> Any:
        if "rank0" in part.log.name:
            raise IndexError(part.log.name)
        return original(part, *more)

    monkeypatch.setattr(reading, stage, fail)
    found = scanned(tmp_path)
    assert ["IndexError" in (file.trouble or "") for file in found.files] == [True, False]
    assert "oom.cuda" in rules_of(found)


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
