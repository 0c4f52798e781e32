"""Reads JSON documents with log records: one array, or arrays in one object (`trainer_state.json`).

A document is converted to one record per line. Blank lines after a record keep the line numbers of a
pretty-printed file; in a single-line document the line number is that of the record.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any, NamedTuple

from gpuwatch.agent.logs.progress.key_values import canonical
from gpuwatch.agent.logs.progress.metrics_table import METRICS
from gpuwatch.agent.logs.progress.quantities import QUANTITIES
from gpuwatch.runs.files.record_splitter import RecordSplitter

DOCUMENT = "json-document"
NOTEBOOK = "notebook"
NOTEBOOK_ENDING = ".ipynb"
MAX_NOTEBOOK_BYTES = 64 << 20
"""Most bytes of a Jupyter notebook that are read; most of them are pictures."""
HEAD_BYTES = 32_768
MAX_RECORDS_TRIED = 8
"""Number of records at the beginning that classify a document; half of them must be log records."""
_BEGIN = re.compile(rb'(?:\xef\xbb\xbf)?\s{0,200}(?:\[\s{0,200}\{|\{\s{0,200}"(?:[^"\\\n]{1,200})"\s{0,4}:)')
_MESSAGES = ("message", "msg", "log", "MESSAGE", "textPayload", "body", "event")
_LEVEL = re.compile(r"(?i)level|^severity(?:_?text)?$|^lvl$|^priority$")
_TIME = re.compile(r"(?i)^@?ts$|time|^date$|^asctime$")
_SOURCE = re.compile(
    r"(?i)^(?:(?:global_|local_)?rank|host(?:_?name)?|node|pod|pid|logger|process|stream|reason|source|container|app|labels)$"
)
"""Matches keys of a logger's record (level, time, source), which a chat or commit record lacks."""
_SERVICE_KEYS = frozenset(("ingestionTime", "logStreamName", "eventId", "insertId", "receiveTimestamp"))
"""Keys that log services add to a record."""
_CHECKPOINT = re.compile(r"checkpoint-\d{1,12}$")
_PATIENCE = re.compile(rb'"early_stopping_patience"\s{0,4}:\s{0,4}(\d{1,6})\b')
_PATIENCE_USED = re.compile(rb'"early_stopping_patience_counter"\s{0,4}:\s{0,4}(\d{1,6})\b')


class TrainerState(NamedTuple):
    """Data in the saved state of a Hugging Face `Trainer` other than its records."""

    step: int
    total_steps: int | None
    """Number of steps of the training; None: it is unknown whether it ended at `step`."""


def document_packing(total_steps: int | None) -> str:
    """Return the packing name of a document; `total_steps`, if known, is added to each record with a step."""
    return DOCUMENT if total_steps is None else f"{DOCUMENT} {total_steps}"


def is_document(packing: str | None) -> bool:
    """Return True if the packing is that of a JSON document."""
    return packing is not None and packing.startswith(DOCUMENT)


def holds_records(head: bytes, columns: Mapping[str, str]) -> bool:
    """Return True if a file is one JSON document with log records or training steps.

    Args:
        head: The first bytes of the file.
        columns: Names of the values of a step -> quantities.
    """
    if _BEGIN.match(head) is None:
        return False
    splitter = RecordSplitter()
    found = [line for line in splitter.feed(head).splitlines() if line.strip()][:MAX_RECORDS_TRIED]
    if not found or splitter.is_broken:
        return False
    return 2 * sum(_is_record(line, columns) for line in found) >= len(found)


def _is_record(line: bytes, columns: Mapping[str, str]) -> bool:
    try:
        record: dict[str, Any] = json.loads(line)
    except (ValueError, RecursionError):
        return False
    payload = record.get("jsonPayload")
    if isinstance(payload, dict):
        record = {**payload, **record}
    if any(isinstance(record.get(name), str) for name in _MESSAGES):
        if not _SERVICE_KEYS.isdisjoint(record):
            return True
        timed, sourced = (any(each.search(name) for name in record) for each in (_TIME, _SOURCE))
        return any(_LEVEL.search(name) for name in record) or (timed and sourced)
    numbers = [canonical(name) for name, value in record.items() if isinstance(value, (int, float))]
    quantities = {QUANTITIES[columns[name]][0] for name in numbers if columns.get(name) in QUANTITIES}
    return "step" in quantities and not METRICS.isdisjoint(quantities)


def trainer_state(path: PurePath, head: bytes, tail: bytes) -> TrainerState | None:
    """Return the step and length of the training in a state that a Hugging Face `Trainer` saved.

    None for another document. A state in a checkpoint folder (`checkpoint-500/`) belongs to a training in
    progress; its length is known only if the next checkpoint is due before the last step. A callback may also
    end a training early.

    Args:
        path: The path of the file.
        head: The first bytes of the file.
        tail: The last bytes of the file.
    """
    if b'"log_history"' not in head:
        return None
    step, total = _number(b"global_step", head, tail), _number(b"max_steps", head, tail)
    if step is None or not total:
        return None
    step, total = int(step), int(total)
    patience, used = _PATIENCE.search(tail), _PATIENCE_USED.search(tail)
    early = patience is not None and used is not None and int(used[1]) >= int(patience[1])
    due = total
    if _CHECKPOINT.match(path.parent.name):
        every = _number(b"save_steps", head, tail) or 0.0
        epochs = _number(b"num_train_epochs", head, tail) or 1.0
        every = every * total if every < 1 else every
        in_steps = every >= 1 and step % int(every) == 0
        due = step + int(every if in_steps else max(every, total / max(1.0, epochs)))
    unknown = step < total and (early or due > total)
    return TrainerState(step, None if unknown else total)


def document_of(path: PurePath, sample: bytes, columns: Mapping[str, str]) -> tuple[str | None, int | None]:
    """Return the packing of a file (None: no document), and the step of the trainer state in it, if any.

    Args:
        path: The path of the file.
        sample: The first and last bytes of the file.
        columns: The same as for `holds_records`.
    """
    head = sample[:HEAD_BYTES]
    if not holds_records(head, columns):
        return None, None
    state = trainer_state(path, head, sample[-HEAD_BYTES:])
    return (
        (document_packing(None), None) if state is None else (document_packing(state.total_steps), state.step)
    )


def training_folder(path: PurePath) -> PurePath:
    """Return the folder of the training whose state a file contains: above a checkpoint's folder."""
    return path.parent.parent if _CHECKPOINT.match(path.parent.name) else path.parent


def _number(name: bytes, *texts: bytes) -> float | None:
    pattern = re.compile(rb'"' + name + rb'"\s{0,4}:\s{0,4}(\d{1,12}(?:\.\d{1,12})?)\b')
    found = next((each for text in texts if (each := pattern.search(text))), None)
    return None if found is None else float(found[1])


def as_records(pieces: Iterator[bytes], packing: str) -> Iterator[bytes]:
    """Convert a document to lines, one per record; text behind or between is returned as it is."""
    total = packing.split()[1:]
    splitter = RecordSplitter(int(total[0]) if total else None)
    for piece in pieces:
        yield splitter.feed(piece)
    yield splitter.finish()


def is_notebook(path: PurePath, head: bytes) -> bool:
    """Return True if a file is a notebook, by its name and its first bytes."""
    return path.name.lower().endswith(NOTEBOOK_ENDING) and head.lstrip()[:1] == b"{" and b'"cell' in head


def outputs_of(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the texts that the cells of a notebook printed, and the exceptions that ended them.

    Raises:
        ValueError: the file is no JSON, or is longer than `MAX_NOTEBOOK_BYTES`.
    """
    data = b""
    for piece in pieces:
        data += piece
        if len(data) > MAX_NOTEBOOK_BYTES:
            raise ValueError("the notebook is too long")
    document: Any = json.loads(data)
    cells = document.get("cells") if isinstance(document, dict) else None
    for cell in cells if isinstance(cells, list) else ():
        outputs = cell.get("outputs") if isinstance(cell, dict) else None
        for output in outputs if isinstance(outputs, list) else ():
            text = _printed(output) if isinstance(output, dict) else ""
            if text:
                yield (text.rstrip("\n") + "\n").encode("utf-8", "replace")


def _printed(output: dict[str, Any]) -> str:
    if output.get("output_type") == "error":
        return f"Traceback (most recent call last):\n{output.get('ename')}: {output.get('evalue')}"
    text = output.get("text") if output.get("output_type") == "stream" else None
    return "".join(str(line) for line in text) if isinstance(text, list) else str(text or "")
