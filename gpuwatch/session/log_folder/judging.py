"""The process that reads and judges the files of a folder, and reports what it has found so far."""

from __future__ import annotations

import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path

from msgspec import Struct

from gpuwatch.diagnose.past_jobs.folder.folder_judgement import judge_folder
from gpuwatch.diagnose.past_jobs.folder.sound_judgement import with_faults
from gpuwatch.diagnose.past_jobs.judgement import Judgement
from gpuwatch.rules.load import Packs
from gpuwatch.runs.files.files import Gathered, gather, with_sections
from gpuwatch.runs.flight.dump_files import dumps_beside
from gpuwatch.runs.scan.result import Scan
from gpuwatch.runs.scan.scan import Begin, FolderScan, Watch, default_engine
from gpuwatch.session.log_folder.frames import node_frames
from gpuwatch.session.log_folder.listing import with_unread
from gpuwatch.session.log_folder.processes import become_child
from gpuwatch.session.log_folder.report import FolderReport, ReadSoFar
from gpuwatch.session.log_folder.shown_judgement import shown_judgement
from gpuwatch.session.log_folder.writers import writers_of

FIRST_REPORT_S, REPORT_EVERY_S = 0.5, 2.0
"""Seconds of reading after which the first partial judgement is made, and least seconds between two."""
REPORT_SHARE = 4.0
"""Pause between partial judgements, as a multiple of the last one's duration.

They thus take a fifth of the time at most.
"""
POLL_S, AGAIN_SHARE = 3.0, 4.0
"""Seconds between two checks for grown files, and the pause between two readings.

The pause is a multiple of the last reading's duration.
"""


class FolderTask(Struct, frozen=True):
    """The input of the process that judges a folder's logs."""

    paths: tuple[Path, ...]
    packs: Packs
    job: str
    """Name of the job: that of its folder."""
    found: Gathered
    """The logs under the paths, each file as one."""


def report_of(
    found: Gathered, scan: Scan, job: str, judgement: Judgement | None = None, *, share: float = 1.0
) -> FolderReport:
    """Return a report of what is known so far; without a judgement, only what the paths show.

    `share`: how much of the files is read, 0 to 1.
    """
    scan = scan if judgement is None else with_faults(scan, judgement.faults)
    ended_at = end_of(scan)
    return FolderReport(
        tuple(found.files),
        tuple(found.skipped),
        node_frames(scan, job, ended_at),
        writers_of(scan.files, job, ended_at),
        Judgement() if judgement is None else shown_judgement(judgement, scan, job, share),
        ended_at,
        judged=judgement is not None,
        whole=judgement is not None and share >= 1.0,
    )


def end_of(scan: Scan) -> float:
    """Return the end of the logs (unix seconds): the last time in a line, else change of a file, else 0.

    Lines of the kernel log do not count.
    """
    lines = [file.last_time for file in scan.files if file.last_time is not None and not file.kernel]
    return max(lines or [file.mtime for file in scan.files], default=0.0)


def serve_judgement(pipe: Connection, parent: int, task: FolderTask) -> None:
    """Read a folder's logs, and send `ReadSoFar` and `FolderReport` messages until the pipe is closed.

    The logs are read again when they have grown.
    """
    become_child(parent)
    begin = Begin.of(task.packs.all, default_engine())
    try:
        found = with_sections(task.found)  # the first listing reads no whole files
        while True:
            began = time.monotonic()
            _read_once(pipe, task, found, begin)
            took = time.monotonic() - began
            found = _grown(task, found, AGAIN_SHARE * took)
    except (EOFError, OSError):
        return


def _read_once(pipe: Connection, task: FolderTask, found: Gathered, begin: Begin) -> None:
    sent = 0.0
    total = max(1, sum(log.size for log in found.files))
    done = 0

    def note(size: int, files: int) -> None:
        nonlocal sent, done
        done = size
        if time.monotonic() - sent > 0.2:
            sent = time.monotonic()
            pipe.send(ReadSoFar(size, files))

    running = FolderScan(found, begin)
    due = time.monotonic() + FIRST_REPORT_S
    for _ in running.read(Watch(note)):
        if time.monotonic() < due:
            continue
        began = time.monotonic()
        scan = running.result_so_far()
        judgement = judge_folder(scan, task.packs, time.time())
        share = min(0.99, done / total)
        pipe.send(report_of(found, with_unread(scan, found), task.job, judgement, share=share))
        due = time.monotonic() + max(REPORT_EVERY_S, REPORT_SHARE * (time.monotonic() - began))
    scan, dumps = dumps_beside(found, running.result())
    pipe.send(report_of(found, scan, task.job, judge_folder(scan, task.packs, time.time(), dumps)))


def _grown(task: FolderTask, found: Gathered, pause_s: float) -> Gathered:
    """Wait at least `pause_s`, until a file has grown or the set of files changed; return the new set."""
    due = time.monotonic() + pause_s
    before = _sizes(found)
    while True:
        time.sleep(POLL_S)
        if time.monotonic() >= due:
            now = gather(task.paths, task.packs.column_words)
            if _sizes(now) != before:
                return now


def _sizes(found: Gathered) -> Mapping[str, tuple[int, float]]:
    return {log.name: (log.size, log.mtime) for log in found.files}
