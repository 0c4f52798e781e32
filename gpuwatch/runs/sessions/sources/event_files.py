"""Reads TensorBoard event files: scalars as curves; of a growing file, up to its current end."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpuwatch.agent.ranks.path_ranks import ranks_of_path
from gpuwatch.number_text import limit_text
from gpuwatch.runs.files.files import reason
from gpuwatch.runs.files.opening import open_buffered
from gpuwatch.runs.sessions.folders.session_folder import complete_losses, complete_rates
from gpuwatch.runs.sessions.model.session import TrainingSession
from gpuwatch.runs.sessions.model.summary import MAX_NUMBER, SessionSummary, known_time
from gpuwatch.runs.sessions.sources.metric_names import add_metric
from gpuwatch.runs.sessions.sources.protobuf import BYTES, fields, first, inner

SOURCE = "TensorBoard"
NAME = re.compile(r"events\.out\.tfevents\.")
MAX_FILE_BYTES = 1 << 30
MAX_RECORD_BYTES = 1 << 20
"""Largest record in bytes that is read; longer records are images or histograms."""
HEADER = struct.Struct("<QI")
EVENT_TIME, EVENT_STEP, EVENT_SUMMARY = 1, 2, 5
"""Field numbers of `Event`."""
SUMMARY_VALUE, VALUE_TAG, VALUE_SIMPLE, VALUE_TENSOR = 1, 1, 2, 8
TENSOR_TYPE, TENSOR_CONTENT, TENSOR_FLOATS, TENSOR_DOUBLES = 1, 4, 5, 6
FLOAT_TYPE = 1
"""DT_FLOAT."""


def read_event_files(paths: Sequence[Path], folder: Path) -> TrainingSession:
    """Return all event files as one session; files below `rank_N` belong to ranks."""
    session = TrainingSession(folder, SOURCE, SessionSummary(id=folder.name))
    begin: list[float] = []
    for path in paths:
        inside = path.relative_to(folder).parts[:-1] if path.is_relative_to(folder) else ()
        rank, _ = ranks_of_path("/".join(inside))
        writer = "" if rank is None else f"rank {rank}"
        for time, step, tag, value in scalars(path, session.problems):
            begin.append(time)
            if add_metric(session, tag, step, time, value, writer):
                session.summary.last_step = max(session.summary.last_step or 0, step)
        del begin[2:-1]  # the first and the last
    session.summary.start, session.summary.end = min(begin, default=None), max(begin, default=None)
    complete_rates(session.summary, ())
    complete_losses(session)
    return session


def scalars(path: Path, problems: list[str]) -> Iterator[tuple[float, int, str, float]]:
    """Yield time (unix seconds), step, tag and value of each scalar in a file; unknown time or step is 0."""
    for record in records(path, problems):
        time = first(record, EVENT_TIME)
        step = first(record, EVENT_STEP)
        when = known_time(time.number_value if time else None) or 0.0
        number = step.value if step and isinstance(step.value, int) and step.value < MAX_NUMBER else 0
        for summary in inner(record, EVENT_SUMMARY):
            for value in inner(summary, SUMMARY_VALUE):
                tag, found = first(value, VALUE_TAG), scalar(value)
                if tag is not None and found is not None:
                    yield when, number, tag.text, found


def scalar(value: bytes) -> float | None:
    """Return the number in a protobuf `Value`: a simple one, or a tensor with one float; else None."""
    simple = first(value, VALUE_SIMPLE)
    if simple is not None and simple.kind != BYTES:
        return simple.number_value
    tensor = next(inner(value, VALUE_TENSOR), None)
    if tensor is None:
        return None
    for field in fields(tensor):
        if field.number == TENSOR_FLOATS and len(field.data) == 4:
            return float(struct.unpack("<f", field.data)[0])
        if field.number == TENSOR_DOUBLES and len(field.data) == 8:
            return float(struct.unpack("<d", field.data)[0])
    kind, content = first(tensor, TENSOR_TYPE), first(tensor, TENSOR_CONTENT)
    if kind is not None and kind.value == FLOAT_TYPE and content is not None and len(content.data) == 4:
        return float(struct.unpack("<f", content.data)[0])
    return None


def records(path: Path, problems: list[str]) -> Iterator[bytes]:
    """Yield the records of a file (length, checksum, data, checksum), without verifying checksums.

    Records larger than `MAX_RECORD_BYTES` are left out. The file ends, without a problem, where it is cut off
    within a record; an impossible length and a file longer than `MAX_FILE_BYTES` each add a problem.
    """
    try:
        with open_buffered(path) as file:
            while file.tell() < MAX_FILE_BYTES:
                header = file.read(HEADER.size)
                if len(header) < HEADER.size:
                    return
                size, _ = HEADER.unpack(header)
                if size > MAX_RECORD_BYTES or not size:
                    if size > MAX_FILE_BYTES or not size:  # no event is empty: a hole of the file
                        problems.append(f"{path.name}: damaged behind byte {file.tell()}")
                        return
                    file.seek(size + 4, 1)
                    continue
                record = file.read(size)
                if len(record) < size:
                    return
                file.seek(4, 1)
                yield record
            problems.append(f"{path.name}: only its first {limit_text(MAX_FILE_BYTES)} are read")
    except OSError as error:
        problems.append(f"{path.name}: {reason(error)}")
