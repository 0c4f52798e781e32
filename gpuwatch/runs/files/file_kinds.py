"""Decides by file name and first bytes which files are logs."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from gpuwatch.agent.logs.discovery.walk import SAVED_SCREEN_NAME
from gpuwatch.agent.logs.lines.levels import has_stamp, own_level
from gpuwatch.agent.logs.lines.splitter import line_text
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
BINARY = {"picture", "checkpoint or weights", "program", "data", "archive", "trace or profile"}
TEXT_BEGINS = {
    ".svg": rb"\s{0,80}<",
    ".pdf": rb"%PDF",
    ".ptx": rb"\s{0,80}(?://|\.)",
    ".prof": rb"\S",
    ".cpuprofile": rb"\s{0,80}\{",
    ".json": rb"",
}
"""Suffixes of files of BINARY kinds that are text -> how such a file begins; a log begins otherwise."""
TABLES = {".csv": b",", ".tsv": b"\t", ".idx": b"\0", ".tok": b"\0"}
"""Suffixes of data that is text, and what separates its columns; NUL: nothing."""
MIN_LOGGED_SHARE, MAX_LINES_TRIED = 0.5, 50
"""Share of the first lines that have a time or level of their own, from which on a table is a log."""
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
TAR_BLOCK = 512
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
    if kind in BINARY and is_plain_text(head) and not _begins_as_named(path, head):
        return True  # such files are binary: a text file's writer only chose the name
    dated = DATED_RECORDS.match(head) is not None and TROUBLE.search(head) is not None
    records = dated or RECORDS.match(head) is not None or holds_records(head, columns)
    return kind in PASTED_INTO and (
        records
        or begins_with_tool_output(head[:BEGIN_BYTES])
        or export_packing(head, beginning(path)) is not None
    )


def _begins_as_named(path: Path, head: bytes) -> bool:
    """Return True if a text begins as its name's suffix says: as a drawing, a document, a table."""
    ending = os.path.splitext(unpacked_name(path.name))[1]  # noqa: PTH122  as in `kind_of_name`
    if ending in TABLES:
        return not _is_logged(head, TABLES[ending])
    return ending in TEXT_BEGINS and re.match(TEXT_BEGINS[ending], head) is not None


def _is_logged(head: bytes, separator: bytes) -> bool:
    """Return True if most lines have a time and a level of their own, or one of them and no columns."""
    lines = [line for line in head[: head.rfind(b"\n")].splitlines() if line.strip()][:MAX_LINES_TRIED]
    columns = lines[0].count(separator) if lines else 0
    alike = sum(line.count(separator) == columns for line in lines) if columns else 0
    texts = [line_text(line) for line in lines]
    signs = [has_stamp(text) + (own_level(text) is not None) for text in texts]
    least = MIN_LOGGED_SHARE * len(lines)
    return bool(lines) and (signs.count(2) >= least or alike <= least <= len(signs) - signs.count(0))


def names_logs(path: Path) -> bool:
    """Return True if an archive (tar or zip, packed or not) begins with a file that has the name of a log."""
    try:
        _, head = looked_into(path, 0)
    except OSError:
        return False
    return _is_log_name(_first_in_zip(head) or _first_in_tar(head))


def _first_in_zip(head: bytes) -> bytes:
    """Return the name of the first file of a zip archive, b"" if the beginning shows none."""
    at = 0
    while head[at : at + 4] == b"PK\3\4":
        size, extra = (int.from_bytes(head[at + each : at + each + 2], "little") for each in (26, 28))
        name = head[at + 30 : at + 30 + size]
        if not name.endswith(b"/"):
            return name
        at += 30 + size + extra
    return b""


def _first_in_tar(head: bytes) -> bytes:
    """Return the name of the first file of a tar archive, b"" if the beginning shows none."""
    at = 0
    while head[at + 257 : at + 262] == b"ustar":
        if head[at + 156] in b"0\0":
            return head[at : at + 100].partition(b"\0")[0]
        size = head[at + 124 : at + 135].strip(b" \0")
        if not size or size.strip(b"01234567"):
            break
        at += TAR_BLOCK * (1 - -int(size, 8) // TAR_BLOCK)
    return b""


def _is_log_name(name: bytes) -> bool:
    plain = name.decode("utf-8", "replace")
    return unpacked_name(plain).endswith((*LOG_SUFFIXES, ".txt"))


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
