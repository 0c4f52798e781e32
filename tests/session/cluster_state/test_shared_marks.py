"""Two cockpits share one file: neither can make it unreadable or acknowledge the other's future."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from msgspec import structs

from gpuwatch.diagnose.alerts.operator_marks import AHEAD_S, Acknowledgement, OperatorMarks
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.session.cluster_state import marks_file
from gpuwatch.session.cluster_state.marks import (
    ClusterMarks,
    KeptAcknowledgement,
    KeptNote,
    KeptSilence,
    acknowledge,
    silence,
    with_note,
)
from gpuwatch.session.cluster_state.marks_file import MarksError, MarksFile

NOW = 1000.0


def test_a_change_whose_outcome_is_unknown_is_made_once() -> None:
    note = KeptNote("i1", "checked", NOW, "ada")
    assert with_note(with_note(ClusterMarks(), note), note).notes == (note,)


def test_a_file_that_others_could_not_read_is_not_written(tmp_path: Path) -> None:
    file = MarksFile(tmp_path / "own" / "marks.json")
    file.change(lambda marks: silence(marks, KeptSilence("oom.cuda")), NOW)
    with pytest.raises(MarksError):
        file.change(lambda marks: silence(marks, KeptSilence("gpu.xid", rank=10**9)), NOW)
    assert [each.code for each in file.read()[0].silences] == ["oom.cuda"]


def marked(number: int, marks: ClusterMarks) -> ClusterMarks:
    kept = KeptAcknowledgement(f"{number}" + "y" * 1500, NOW)
    return with_note(acknowledge(marks, [kept]), KeptNote("i1", f"{number} " + "x" * 1500, NOW, "ada"))


def test_many_notes_leave_the_silences_readable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks_file, "MAX_FILE_BYTES", 20_000)
    file = MarksFile(tmp_path / "own" / "marks.json")
    file.change(lambda marks: silence(marks, KeptSilence("oom.cuda")), NOW)
    for number in range(30):
        file.change(partial(marked, number), NOW)
    marks, _ = file.read()
    assert [each.code for each in marks.silences] == ["oom.cuda"]
    assert marks.notes[-1].text.startswith("29 ")
    assert marks.acknowledged[-1].alert.startswith("29")


def test_an_acknowledgement_from_the_future_covers_nothing() -> None:
    proof = Proof("line", "text")
    later = Alert("x", "temperature", "warning", "t", "t", (proof,), first=5000.0, last=5000.0)
    marks = OperatorMarks()
    marks.restore_acknowledged([Acknowledgement(later.id, 4e9, "mallory", 0.0)], NOW)
    assert not marks.applied(later, 5000.0).acknowledged
    marks.restore_acknowledged([Acknowledgement(later.id, NOW + AHEAD_S / 2, "ada", later.first)], NOW)
    assert marks.applied(later, 5000.0).acknowledged


def test_an_acknowledged_failure_covers_none_of_a_later_run_of_its_job() -> None:
    failed = Alert("x", "oom.cuda", "error", "t", "t", (Proof("line", "text"),), first=900.0, last=900.0)
    marks = OperatorMarks()
    marks.restore_acknowledged([Acknowledgement(failed.id, 950.0, "ada", failed.first)], NOW)
    assert marks.applied(failed, NOW).acknowledged  # known from an earlier session
    again = structs.replace(failed, first=1100.0, last=1100.0)
    assert not marks.applied(again, 1100.0).acknowledged
