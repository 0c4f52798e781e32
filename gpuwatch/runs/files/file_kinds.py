"""Decides by file name and first bytes which files are logs."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from gpuwatch.agent.logs.discovery.walk import SAVED_SCREEN_NAME
from gpuwatch.agent.logs.progress.metrics_table import HEADER_BYTES, table_of
from gpuwatch.agent.logs.scanning.table_prefilter import is_table_name
from gpuwatch.runs.files.byte_samples import is_text, is_utf8, looked_into
from gpuwatch.runs.files.exports.finding import export_packing
from gpuwatch.runs.files.json_documents import holds_records
from gpuwatch.runs.files.opening import beginning, open_file
from gpuwatch.runs.saved_outputs.sections import BEGIN_BYTES, begins_with_tool_output

KINDS: dict[str, str] = {
    "picture": "png jpg jpeg gif bmp svg webp pdf mp4 wav mp3",
    "checkpoint or weights": "pt pth bin safetensors ckpt onnx gguf distcp h5 hdf5 pkl pickle joblib",
    "data": "npy npz parquet arrow tfrecord mdb lmdb db sqlite idx csv tsv wandb tok",
    "trace or profile": "nsys-rep qdrep prof cpuprofile pprof",
    "archive": "zip tar tgz tbz2 whl jar 7z",
    "program": "so o a pyc pyd exe dll cubin ptx fatbin",
    "source or settings": "py pyi ipynb c cc cpp cu cuh h hpp js ts css html md rst yaml yml toml ini cfg "
    "lock sh sbatch slurm proto",
}
"""Kind -> name suffixes of files that are skipped in a folder; a file named directly is read anyway."""
BINARY = {"picture", "checkpoint or weights", "program"}
TEXT_ALL_THE_SAME = (".svg", ".pdf", ".ptx")
"""Suffixes in KINDS whose files are text but no logs."""
SAVED_SCREEN = "saved screen"
PASTED_INTO = {"data", "source or settings"}
"""Kinds of files into which people paste tool output."""
ENDINGS = {f".{ending}": kind for kind, endings in KINDS.items() for ending in endings.split()}
PACKED_ENDINGS = (".gz", ".zst", ".xz", ".bz2", ".lz4", ".lzma", ".z")
"""Suffixes of compressed files, including compressions that cannot be read."""
LOG_SUFFIXES = (".log", ".out", ".err")
"""A binary file with this suffix counts as unreadable; other binary files as skipped."""
JSON_BEGINS = (b"{", b"[", b'"')
JSON_LOGS = {"error.json"}
"""Names of JSON files that are logs: torchrun's exception file. Others are settings and traces."""
RECORDS = re.compile(
    rb'\s{0,8}\{[^\n]{0,8000}"(?:MESSAGE|message|msg|log|textPayload|body|event|line)"\s?:[^\n]{0,8000}\}\s{0,4}\n\s{0,8}\{'
)
"""Matches the beginning of a log with one JSON object per line."""
DATED_RECORDS = re.compile(
    rb'\s{0,8}\{[^\n]{0,4000}"\d{4}-\d\d-\d\d[T ]\d\d:\d\d[^\n]{0,4000}\}\s{0,4}\n\s{0,8}\{'
)
TROUBLE = re.compile(rb'"(?:ERROR|CRITICAL|FATAL|error|critical|fatal)"|\b[A-Z]\w{0,60}(?:Error|Exception): ')
"""Matches a grave level or an exception, by which dated JSON objects count as a log."""
RECORD_BYTES = 16_384
NO_NUMBERS = re.compile(rb"(?i)[^\d\s,;.+\-enaif]")
"""Matches a character that no row of numbers (NaN and infinity included) contains."""
SETTINGS_TEXT = re.compile(
    r"(?:[\w.-]{0,40}requirements?[\w.-]{0,40}|constraints|environment|pip[_-]?(?:freeze|list)|conda[_-]?list"
    r"|cmakelists|licen[cs]e|readme|vocab|merges)\.txt$"
)
"""Matches names of text files beside logs that list packages, words or terms."""
TENSORBOARD = re.compile(r"events\.out\.tfevents\.")


def unpacked_name(name: str) -> str:
    """Return the name in lower case, without compression suffixes."""
    name = name.lower()
    for ending in PACKED_ENDINGS:
        name = name.removesuffix(ending)
    return name


def kind_of_name(name: str) -> str | None:
    """Return the kind of a file that is no log by its name (`data`, ...); None: it may be a log."""
    plain = unpacked_name(name)
    if SAVED_SCREEN_NAME.match(plain):
        return SAVED_SCREEN
    if TENSORBOARD.match(plain):
        return "data"
    if SETTINGS_TEXT.match(plain):
        return "source or settings"
    if plain.endswith(".json") and plain not in JSON_LOGS:
        return "trace or profile" if "trace" in plain else "source or settings"
    return ENDINGS.get(os.path.splitext(plain)[1])  # noqa: PTH122  a Path is not needed for a plain name


def may_be_log(path: Path, kind: str, columns: Mapping[str, str]) -> bool:
    """Return True if the first bytes show that a file is a log, although its name has a suffix of `kind`.

    PBS, LSF and many scripts name a job's output `task2.o`; `journalctl -o json` and structured loggers write
    `.json`; tool output is pasted into notes.
    """
    try:
        with open_file(path) as file:
            head = file.read(max(BEGIN_BYTES, RECORD_BYTES))
    except OSError:
        return False
    if path.name.lower().endswith((".o", ".e")):
        return b"\0" not in head and is_text(head)
    if path.name.lower().endswith(".json") and is_text(head) and not head.lstrip().startswith(JSON_BEGINS):
        return True
    if kind in BINARY and not path.name.lower().endswith(TEXT_ALL_THE_SAME) and is_plain_text(head):
        return True  # such files are binary: a text file's writer only chose the name
    dated = DATED_RECORDS.match(head) is not None and TROUBLE.search(head) is not None
    records = dated or RECORDS.match(head) is not None or holds_records(head, columns)
    return kind in PASTED_INTO and (
        records
        or begins_with_tool_output(head[:BEGIN_BYTES])
        or export_packing(head, beginning(path)) is not None
    )


def is_metrics_table(path: Path, columns: Mapping[str, str]) -> bool:
    """Return True if a file is a table of training metrics, by name and header."""
    if not columns or not is_table_name(unpacked_name(path.name)):
        return False
    try:
        _, sample = looked_into(path, path.stat().st_size)
    except OSError:
        return False
    return is_text(sample) and table_of(sample[:HEADER_BYTES], dict(columns)) is not None


def is_table_of_numbers(path: Path, sample: bytes, columns: Mapping[str, str]) -> bool:
    """Return True if a table contains only numbers that are not training metrics."""
    rows = [line for line in sample[:HEADER_BYTES].splitlines()[1:-1] if line.strip()]
    named = is_table_name(unpacked_name(path.name)) and bool(columns) and bool(rows)
    return (
        named
        and not any(NO_NUMBERS.search(row) for row in rows)
        and table_of(sample[:HEADER_BYTES], dict(columns)) is None
    )


def is_plain_text(head: bytes) -> bool:
    """Return True if the bytes begin with lines of UTF-8."""
    lines = head[: head.rfind(b"\n") + 1]
    return bool(lines.strip()) and b"\0" not in head and is_text(head) and is_utf8(lines)
