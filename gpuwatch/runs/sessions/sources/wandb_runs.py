"""Reads Weights & Biases runs from disk (`.wandb` files), offline ones too: history, configuration, host.

The file is a LevelDB log of protobuf records; wandb itself no longer has a Python reader for it.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpuwatch.plain import plain
from gpuwatch.runs.files.files import reason
from gpuwatch.runs.files.opening import open_buffered
from gpuwatch.runs.sessions.folders.session_folder import complete_losses, complete_rates
from gpuwatch.runs.sessions.model.session import TrainingSession
from gpuwatch.runs.sessions.model.summary import (
    MAX_DEPTH,
    SessionSummary,
    SessionSystem,
    known_time,
    sanitized,
)
from gpuwatch.runs.sessions.sources.metric_names import add_metric
from gpuwatch.runs.sessions.sources.protobuf import Field, fields, first, inner

SOURCE = "W&B"
GLOBAL_STEP = "global_step"
MAGIC = b":W&B"
BLOCK = 32_768
HEADER = struct.Struct("<IHB")
FULL_RECORD, FIRST_PIECE, MIDDLE_PIECE, LAST_PIECE = 1, 2, 3, 4
MAX_FILE_BYTES = 1 << 30
MAX_RECORD_BYTES = 16 << 20
HISTORY, SUMMARY, CONFIG, RUN, EXIT = 2, 3, 5, 17, 18
"""Field numbers of W&B's message `Record`."""
ITEM_KEY, ITEM_NESTED, ITEM_VALUE = 1, 2, 16
RUN_CONFIG, RUN_NAME, RUN_HOST = 4, 8, 13


def read_wandb_run(path: Path) -> TrainingSession:
    """Return one `run-<id>.wandb` as a session."""
    session = TrainingSession(path.parent, SOURCE, SessionSummary(id=path.parent.name))
    times: list[float] = []
    steps = RowSteps()
    for record in records(path, session.problems):
        for field in fields(record):
            _take(session, field, times, steps)
    if times:
        session.summary.start, session.summary.end = min(times), max(times)
    complete_rates(session.summary, ())
    complete_losses(session)
    return session


class RowSteps:
    """Determines the training step of each row of the history, in order.

    W&B counts the calls of `log` in `_step`. A trainer that logs every few steps adds its own step number:
    HF Trainer `train/global_step`, Lightning `trainer/global_step`.
    """

    def __init__(self) -> None:
        self._global: int | None = None

    def of(self, row: Mapping[str, Any]) -> int | None:
        """Return the step number of the trainer in the row, else that of an earlier row, else `_step`.

        None: it has neither.
        """
        named = [value for name, value in row.items() if name.rpartition("/")[2] == GLOBAL_STEP]
        found = next((int(value) for value in named if _is_number(value)), None)
        if found is not None:
            self._global = found
        step = row.get("_step")
        own = int(step) if isinstance(step, (int, float)) and _is_number(step) else None
        return own if self._global is None else self._global


def _take(session: TrainingSession, field: Field, times: list[float], steps: RowSteps) -> None:
    summary = session.summary
    if field.number == HISTORY:
        _take_history(session, items(field.data, 1), times, steps)
    elif field.number == CONFIG:
        summary.configuration = {**(summary.configuration or {}), **nested(items(field.data, 1))}
    elif field.number == RUN:
        name, host, config = (
            first(field.data, RUN_NAME),
            first(field.data, RUN_HOST),
            first(field.data, RUN_CONFIG),
        )
        summary.name = plain(name.text) if name else summary.name
        if host is not None:
            summary.system = SessionSystem(hostname=plain(host.text))
        if config is not None:
            summary.configuration = {**(summary.configuration or {}), **nested(items(config.data, 1))}
    elif field.number == EXIT:
        code = first(field.data, 1)
        summary.exit_code = code.value if code and isinstance(code.value, int) else 0
        summary.status = "completed" if summary.exit_code == 0 else "failed"


def _take_history(
    session: TrainingSession, values: list[tuple[tuple[str, ...], Any]], times: list[float], steps: RowSteps
) -> None:
    row = {"/".join(path): value for path, value in values}
    time = row.get("_timestamp")
    number = steps.of(row)
    when = known_time(float(time)) if isinstance(time, (int, float)) and _is_number(time) else None
    if when is not None:
        times.append(when)
        del times[2:-1]
    for name, value in row.items():
        if not name.startswith("_") and _is_number(value):
            add_metric(session, name, number, when, float(value))
    if number is not None:
        session.summary.last_step = max(session.summary.last_step or 0, number)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def items(message: bytes, number: int) -> list[tuple[tuple[str, ...], Any]]:
    """Return the items of a record as (key path, value)."""
    found = []
    for item in inner(message, number):
        path: list[str] = []
        value = None
        for field in fields(item):
            if field.number in {ITEM_KEY, ITEM_NESTED}:
                path.append(plain(field.text))
            elif field.number == ITEM_VALUE:
                try:
                    value = sanitized(json.loads(field.text))
                except (ValueError, RecursionError):
                    value = None
        found.append((tuple(path), value))
    return found


def nested(values: list[tuple[tuple[str, ...], Any]]) -> dict[str, Any]:
    """Return key paths as nested objects, without W&B's internal keys and paths of over `MAX_DEPTH` keys."""
    found: dict[str, Any] = {}
    for path, value in values:
        if not path or path[0].startswith("_wandb") or len(path) > MAX_DEPTH:
            continue
        here = found
        for part in path[:-1]:
            deeper = here.setdefault(part, {})
            here = deeper if isinstance(deeper, dict) else {}
        here[path[-1]] = value
    return found


def records(path: Path, problems: list[str]) -> Iterator[bytes]:
    """Yield the records of a file, reassembled from their chunks, up to where it is truncated."""
    try:
        with open_buffered(path) as file:
            head = file.read(7)
            if not head.startswith(MAGIC):
                problems.append(f"{path.name}: no W&B file")
                return
            pieces: list[bytes] = []
            size_of_pieces = 0
            while file.tell() < MAX_FILE_BYTES:
                left = BLOCK - file.tell() % BLOCK
                if left < HEADER.size:
                    file.seek(left, 1)
                    continue
                header = file.read(HEADER.size)
                if len(header) < HEADER.size:
                    return
                _, size, kind = HEADER.unpack(header)
                data = file.read(size)
                if len(data) < size or kind not in {FULL_RECORD, FIRST_PIECE, MIDDLE_PIECE, LAST_PIECE}:
                    if kind:
                        problems.append(f"{path.name}: cut off or damaged at byte {file.tell()}")
                    return
                if kind in {FULL_RECORD, FIRST_PIECE}:
                    pieces, size_of_pieces = [], 0
                size_of_pieces += size + HEADER.size
                if size_of_pieces <= MAX_RECORD_BYTES:
                    pieces.append(data)
                if kind in {FULL_RECORD, LAST_PIECE} and size_of_pieces <= MAX_RECORD_BYTES:
                    yield b"".join(pieces)
    except OSError as error:
        problems.append(f"{path.name}: {reason(error)}")
