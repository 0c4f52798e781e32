"""Folders of logs whose culprit is known."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.report.scan.report import judged
from gpuwatch.rules.load import load_packs
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.scan.scan import scan

Job: TypeAlias = dict[str, str]


PACKS = load_packs()


OOM = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB"


def culprit(folder: Path, job: Job) -> int | None:
    return first_incident(folder, job).rank


def first_incident(folder: Path, job: Job) -> Incident:
    for name, text in job.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    report = judged(scan(gather([folder]), PACKS.rules, "agent", cores=1), PACKS, 1.8e9, 0.0)
    assert report.incidents, "nothing is found"
    return report.incidents[0]
