"""Reads an output folder of any trainer as one session."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from gpuwatch.runs.files.file_kinds import LOG_SUFFIXES
from gpuwatch.runs.sessions.model.session import TrainingSession
from gpuwatch.runs.sessions.model.summary import SessionSummary
from gpuwatch.runs.sessions.sources import event_files, telemetry_files, trainer_state
from gpuwatch.runs.sessions.sources.event_files import read_event_files
from gpuwatch.runs.sessions.sources.rank_logs import NO_STEPS, read_rank_logs
from gpuwatch.runs.sessions.sources.recording import is_recording, read_recording
from gpuwatch.runs.sessions.sources.telemetry_files import read_telemetry_files
from gpuwatch.runs.sessions.sources.trainer_state import read_trainer_state
from gpuwatch.runs.sessions.sources.wandb_runs import read_wandb_run

MAX_DEPTH = 6
MAX_ENTRIES = 50_000
SKIPPED_FOLDERS = {".git", "__pycache__", ".venv", "node_modules", ".cache"}
SLURM_LOG = re.compile(r"slurm-\d+(?:[._]\d+)?\.out")
RANK_FILE = re.compile(r"rank[_-]?\d{1,6}(?:\.\w{1,8})?(?:\.\d)?")
CHECKPOINT = re.compile(r"checkpoint-(\d{1,12})")
NOT_LOGS = re.compile(r"requirements\.txt|debug(?:-[\w.]{1,40})?\.log")
"""Matches files of W&B runs that are no logs of the training: debug-internal.log, ..."""
SUMMARY_MIN_FIELDS = {"format", "version", "id", "parts"}


@dataclass
class OutputFiles:
    """The readable files of a folder, by kind."""

    states: list[Path] = field(default_factory=list)
    telemetry: list[Path] = field(default_factory=list)
    events: list[Path] = field(default_factory=list)
    wandb: list[Path] = field(default_factory=list)
    logs: list[Path] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.states or self.telemetry or self.events or self.wandb or self.logs)


def read_outputs(path: Path) -> list[TrainingSession]:
    """Return the sessions of a folder or file; empty if nothing belongs to a training.

    Each of several W&B runs is a session of its own; all other files are one session.
    """
    if path.is_file() and is_recording(path):
        return [read_recording(path)]
    files = output_files(path)
    if len(files.wandb) > 1:
        return [read_wandb_run(each) for each in files.wandb]
    return [read_files(files, path)] if files else []


def read_files(files: OutputFiles, path: Path) -> TrainingSession:
    """Return the files of one training as one session."""
    folder = path if path.is_dir() else path.parent
    found: list[TrainingSession] = []
    if files.telemetry:
        found.append(read_telemetry_files(files.telemetry, folder))
    if files.states:
        found.append(read_trainer_state(last_state(files.states), folder))
    found += [read_wandb_run(each) for each in files.wandb]
    if files.events:
        found.append(read_event_files(files.events, folder))
    if files.logs:
        found.append(read_rank_logs(files.logs, folder))
    session = joined(found, folder)
    session.summary.id = path.name if path.is_dir() else path.stem
    return session


def output_files(path: Path) -> OutputFiles:
    """Return the files of a folder by kind; links to folders are not followed."""
    files = OutputFiles()
    for each in walked(path) if path.is_dir() else (path,):
        name = each.name
        if name == trainer_state.NAME:
            files.states.append(each)
        elif telemetry_files.NAME.fullmatch(name):
            files.telemetry.append(each)
        elif event_files.NAME.search(name):
            files.events.append(each)
        elif name.endswith(".wandb"):
            files.wandb.append(each)
        elif not NOT_LOGS.fullmatch(name) and is_log(name):
            files.logs.append(each)
    return files


def is_log(name: str) -> bool:
    """Return True for the name of a launcher's, rank's or Slurm log."""
    return name.endswith(tuple(LOG_SUFFIXES)) or bool(RANK_FILE.fullmatch(name) or SLURM_LOG.fullmatch(name))


def walked(top: Path) -> Iterator[Path]:
    """Yield files at and below a folder, in order, up to `MAX_DEPTH` and `MAX_ENTRIES`.

    `SKIPPED_FOLDERS` are left out.
    """
    entries = 0
    for folder, names, files in os.walk(top):
        depth = len(Path(folder).relative_to(top).parts)
        names[:] = sorted(name for name in names if name not in SKIPPED_FOLDERS) if depth < MAX_DEPTH else []
        for name in sorted(files):
            entries += 1
            if entries > MAX_ENTRIES:
                return
            yield Path(folder, name)


def last_state(paths: list[Path]) -> Path:
    """Return the trainer state of the last checkpoint; one outside of a checkpoint folder is preferred."""

    def order(path: Path) -> tuple[bool, int, str]:
        checkpoint = CHECKPOINT.fullmatch(path.parent.name)
        return checkpoint is None, int(checkpoint[1]) if checkpoint else 0, str(path)

    return max(paths, key=order)


def joined(found: list[TrainingSession], folder: Path) -> TrainingSession:
    """Return the sources merged into one session: each value and curve comes from the first that has it."""
    session = TrainingSession(
        folder, " + ".join(dict.fromkeys(each.source for each in found)), SessionSummary()
    )
    for each in found:
        for name in msgspec.structs.fields(SessionSummary):
            if name.name not in SUMMARY_MIN_FIELDS and getattr(session.summary, name.name) in (None, [], {}):
                setattr(session.summary, name.name, getattr(each.summary, name.name))
        session.curves.absorb(each.curves)
        session.problems += [problem for problem in each.problems if problem != NO_STEPS]
    if not session.curves.by_name:
        session.problems.append(NO_STEPS)
    take_mode(session.summary)
    return session


def take_mode(summary: SessionSummary) -> None:
    """Set the mode from the number of ranks, if known."""
    if summary.mode is None and summary.world_size is not None:
        summary.mode = "multi" if summary.world_size > 1 else "single"
