"""Which files under the given paths are logs; what is left out, and why."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath

from gpuwatch.agent.logs.lines.splitter import shown
from gpuwatch.agent.logs.lines.timestamps import time_of
from gpuwatch.agent.logs.progress.metrics_table import HEADER_BYTES, table_of
from gpuwatch.agent.logs.scanning.table_sieve import is_table_name
from gpuwatch.plain import plain
from gpuwatch.runs.files.json_documents import document_of, holds_records, training_folder
from gpuwatch.runs.files.log_path import LogPath
from gpuwatch.runs.files.opening import open_file
from gpuwatch.runs.files.packing import READ_BYTES, Contents, packing_of
from gpuwatch.runs.files.pasted_sections import sections_of
from gpuwatch.runs.saved_outputs.sections import BEGIN_BYTES, begins_with_tool_output
from gpuwatch.wire import KERNEL_LOG

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
"""Kind -> name endings of files in a folder that are no logs; one named itself is read all the same."""
BINARY = {"picture", "checkpoint or weights", "program"}
TEXT_ALL_THE_SAME = (".svg", ".pdf", ".ptx")
"""Of these kinds, what is text and no log."""
PASTED_INTO = {"data", "source or settings"}
"""Kinds of files that people save a tool's output as."""
ENDINGS = {f".{ending}": kind for kind, endings in KINDS.items() for ending in endings.split()}
PACKED_ENDINGS = (".gz", ".zst", ".xz", ".bz2", ".lz4", ".lzma", ".z")
"""Also of packings that are not read."""
LOG_SUFFIXES = (".log", ".out", ".err")
"""A file of this name that is no text is one that could not be read; others are reported as skipped."""
JSON_BEGINS = (b"{", b"[", b'"')
JSON_LOGS = {"error.json"}
"""What torchrun leaves of an exception; other .json files are settings and traces."""
RECORDS = re.compile(
    rb'\s{0,8}\{[^\n]{0,8000}"(?:MESSAGE|message|msg|log|textPayload|body|event)"\s?:[^\n]{0,8000}\}\s{0,4}\n\s{0,8}\{'
)
"""How a log of one JSON object a line begins, whatever its name."""
FIRST_USER_ID = 1000
"""User ids below are the system's (UID_MIN of login.defs)."""
RECORD_BYTES = 16_384
NO_NUMBERS = re.compile(rb"(?i)[^\d\s,;.+\-enaif]")
"""What stands in no row of numbers, NaN and infinity among them."""
TENSORBOARD = re.compile(r"events\.out\.tfevents\.")
SKIPPED_FOLDERS = {".git", "__pycache__", ".venv", "node_modules", ".cache"}

SAMPLE_BYTES = 32_768
MOST_CONTROL = 0.05
"""Share of control characters over which bytes are no text: random ones have a tenth, logs under 2 %."""
YEAR = re.compile(
    rb"20\d\d[-/]\d\d[-/]\d\d[T _]\d\d:\d\d:\d\d[^\s\]]{0,16}"
    rb"|\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d [\d:]{8} 20\d\d\]"
)
LOOK_TIMES = 20
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
DAY_S = 86_400.0
CONTROL = bytes(set(range(32)) - set(b"\t\n\r\f\b\x1b\x07") | {127})


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that is not read."""

    name: str
    why: str
    unreadable: bool = False
    """It might have been a log: the person has to know."""


@dataclass
class Gathered:
    """What was found, in the order of the arguments, folders sorted."""

    files: list[LogPath] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    """Of the files: two paths may differ only in characters that are not shown."""
    columns: Mapping[str, str] = field(default_factory=dict)
    """Words for the columns of a table of metrics, with their quantities."""


def gather(paths: Sequence[Path], columns: Mapping[str, str] | None = None) -> Gathered:
    """Walk the paths. Symlinks are followed, each file and folder is taken once, and loops end.

    Args:
        paths: Files and folders.
        columns: Words for the columns of a table of metrics, with their quantities; without them a table
            in a folder is data.
    """
    gathered = Gathered(columns=columns or {})
    links: list[tuple[Path, Path]] = []
    seen: set[tuple[int, int]] = set()
    for path, root in walked(paths, gathered.skipped, seen):
        if root is not None and os.path.islink(path):  # noqa: PTH114 - of Path raises where nothing may be looked at
            links.append((path, root))  # a name of its own states more than a link to it: those come last
        else:
            take(path, root, gathered, seen)
    for path, root in links:
        take(path, root, gathered, seen)
    leave_out_older_states(gathered)
    gathered.files = [part for log in gathered.files for part in sections_of(log)]
    job = max((log.dated for log in gathered.files if log.dated is not None), default=None)
    gathered.files = [replace(log, until=until(log, job)) for log in gathered.files]
    return gathered


def leave_out_older_states(gathered: Gathered) -> None:
    """Keep of each training the last state that its trainer saved: it holds all earlier records."""
    last: dict[PurePath, LogPath] = {}
    states = [log for log in gathered.files if log.saved_step is not None]
    for log in states:
        known = last.setdefault(training_folder(log.path), log)
        if (log.saved_step or 0) > (known.saved_step or 0):
            last[training_folder(log.path)] = log
    older = {log.name for log in states} - {log.name for log in last.values()}
    gathered.files = [log for log in gathered.files if log.name not in older]
    gathered.skipped += [
        Skipped(log.name, "older state of a training") for log in states if log.name in older
    ]


def until(log: LogPath, job: float | None) -> float:
    """What bounds the times in a file from above, within a day (unix seconds)."""
    last = job if log.dated is None else log.dated
    return log.mtime if last is None or log.mtime <= last + DAY_S else last


def walked(
    paths: Sequence[Path], skipped: list[Skipped], seen: set[tuple[int, int]]
) -> Iterator[tuple[Path, Path | None]]:
    """Every file under the paths, with the folder that was named; None: the file was named itself."""
    folders: list[Path] = []
    for path in paths:
        if os.path.isdir(path):  # noqa: PTH112 - as above
            folders.append(path)
        else:
            yield path, None
            continue
        while folders:
            folder = folders.pop()
            try:
                known = folder.stat()
                entries = sorted(folder.iterdir(), key=natural)
            except OSError as error:
                skipped.append(Skipped(plain(str(folder)), reason(error), unreadable=True))
                continue
            if (known.st_dev, known.st_ino) in seen:
                continue
            seen.add((known.st_dev, known.st_ino))
            inner = {entry for entry in entries if os.path.isdir(entry)}  # noqa: PTH112 - as above
            of_tools = {each for each in inner if each.name in SKIPPED_FOLDERS}
            skipped += [Skipped(plain(str(each)), "folder of a tool") for each in sorted(of_tools)]
            folders += [each for each in reversed(entries) if each in inner - of_tools]
            yield from ((entry, path) for entry in entries if entry not in inner)


def natural(path: Path) -> list[tuple[int, str]]:
    """Sorts rank_2 before rank_10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", path.name)]


def take(path: Path, root: Path | None, gathered: Gathered, seen: set[tuple[int, int]]) -> None:
    """Look at one file and put it where it belongs; one that was seen under another name is left out."""
    name, given = plain(str(path)), root is None
    kind = None if given else kind_of_name(path.name)
    if (
        kind is not None
        and not may_be_log(path, kind, gathered.columns)
        and not is_metrics_table(path, gathered.columns)
    ):
        gathered.skipped.append(Skipped(name, kind))
        return
    try:
        status = path.stat()
        if (status.st_dev, status.st_ino) in seen:
            return
        seen.add((status.st_dev, status.st_ino))
        if not stat.S_ISREG(status.st_mode):
            gathered.skipped.append(Skipped(name, "not a regular file", unreadable=given))
            return
        packing, sample = looked_into(path, status.st_size)
    except OSError as error:
        dangling = isinstance(error, FileNotFoundError) and not given and os.path.islink(path)  # noqa: PTH114
        why = "a symlink to nothing" if dangling else reason(error)
        gathered.skipped.append(Skipped(name, why, unreadable=not dangling))
        return
    if given and is_table_of_numbers(path, sample, gathered.columns):
        gathered.skipped.append(Skipped(name, "data"))
        return
    if not is_text(sample):
        log = given or unpacked_name(path.name).endswith(LOG_SUFFIXES)
        gathered.skipped.append(Skipped(name, "binary", unreadable=log))
        return
    saved_step = None
    if packing is None:
        packing, saved_step = document_of(path, sample, gathered.columns)
    dated = last_year_time(sample, status.st_mtime)
    inner = inner_name(path, root)
    if name == KERNEL_LOG:
        name = f"./{name}"  # the name alone means the log that a node's agent reads from its kernel
    if name in gathered.names:
        name = f"{name} ({len(gathered.files)})"
    gathered.names.add(name)
    owner = -1 if status.st_mode & OTHERS_WRITE else status.st_uid
    gathered.files.append(
        LogPath(
            path,
            name,
            inner,
            status.st_size,
            status.st_mtime,
            packing,
            dated,
            owner=owner,
            saved_step=saved_step,
        )
    )


def inner_name(path: Path, root: Path | None) -> str:
    """The way from the named folder; of a file that was named itself, its name and the folder it is in."""
    if root is not None:
        return str(path.relative_to(root))
    return str(path) if not path.is_absolute() else "/".join(path.parts[-2:])


def unpacked_name(name: str) -> str:
    """The name in lower case without the endings of packers."""
    name = name.lower()
    for ending in PACKED_ENDINGS:
        name = name.removesuffix(ending)
    return name


def kind_of_name(name: str) -> str | None:
    """Why a file of this name is no log; None: it may be one."""
    plain = unpacked_name(name)
    if TENSORBOARD.match(plain):
        return "data"
    if plain.endswith(".json") and plain not in JSON_LOGS:
        return "trace or profile" if "trace" in plain else "source or settings"
    return ENDINGS.get(os.path.splitext(plain)[1])  # noqa: PTH122  a Path of a name alone says no more


def may_be_log(path: Path, kind: str, columns: Mapping[str, str]) -> bool:
    """Whether a file is a log in spite of its name, by how it begins.

    PBS, LSF and many scripts call a job's output `task2.o`; what `journalctl -o json` and structured loggers
    write is saved as `.json`; a tool's output is pasted into notes.
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
        return True  # no such file is text: whoever wrote it chose the name
    records = RECORDS.match(head) is not None or holds_records(head, columns)
    return kind in PASTED_INTO and (records or begins_with_tool_output(head[:BEGIN_BYTES]))


def is_metrics_table(path: Path, columns: Mapping[str, str]) -> bool:
    """Whether a file is a table of the metrics of a training, by its name and its header."""
    if not columns or not is_table_name(unpacked_name(path.name)):
        return False
    try:
        _, sample = looked_into(path, path.stat().st_size)
    except OSError:
        return False
    return is_text(sample) and table_of(sample[:HEADER_BYTES], dict(columns)) is not None


def is_table_of_numbers(path: Path, sample: bytes, columns: Mapping[str, str]) -> bool:
    """Whether a table holds numbers alone that are no metrics of a training: no line of it could be wrong."""
    rows = [line for line in sample[:HEADER_BYTES].splitlines()[1:-1] if line.strip()]
    named = is_table_name(unpacked_name(path.name)) and bool(columns) and bool(rows)
    return (
        named
        and not any(NO_NUMBERS.search(row) for row in rows)
        and table_of(sample[:HEADER_BYTES], dict(columns)) is None
    )


def is_plain_text(head: bytes) -> bool:
    """Whether a file begins with lines of UTF-8."""
    lines = head[: head.rfind(b"\n") + 1]
    return bool(lines.strip()) and b"\0" not in head and is_text(head) and is_utf8(lines)


def is_utf8(data: bytes) -> bool:
    """Whether bytes are UTF-8 text."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def last_year_time(sample: bytes, mtime: float) -> float | None:
    """The last time with a year in these bytes that is not after the file's own."""
    for line in reversed(YEAR.findall(sample)[-LOOK_TIMES:]):
        at = time_of(shown(line), mtime)
        if at is not None and at <= mtime + DAY_S:
            return at
    return None


def looked_into(path: Path, size: int) -> tuple[str | None, bytes]:
    """How the file is packed, and what it begins and (where that can be had at once) ends with.

    Raises:
        OSError: it cannot be read.
    """
    with open_file(path) as file:
        head = file.read(SAMPLE_BYTES)
        packing = packing_of(head)
        if packing is None:
            if size > 2 * SAMPLE_BYTES:
                file.seek(size - SAMPLE_BYTES)
                head += file.read(SAMPLE_BYTES)
            return None, head
    first = b""
    if packing is not None:
        contents = Contents(path, packing)
        first = next(contents.pieces(), b"")[: min(SAMPLE_BYTES, READ_BYTES)]
    return packing, first


def is_text(sample: bytes) -> bool:
    """Whether bytes look like a log; NUL bytes do not count: a log truncated in place has them."""
    sample = sample.replace(b"\0", b"")
    if not sample:
        return True
    control = len(sample) - len(sample.translate(None, CONTROL))
    return control <= MOST_CONTROL * len(sample)


def reason(error: OSError) -> str:
    """The system's words for what went wrong."""
    return (error.strerror or str(error)).lower()


def system_logs(logs: Sequence[LogPath], evidence: Collection[str]) -> frozenset[str]:
    """Names of those that belong to the system or the person, and to no account that owns other files here.

    Of a folder that one account wrote or copied nobody can determine who wrote which file.

    Args:
        logs: All that are scanned.
        evidence: Names of the kernel's logs and outputs of tools among them.
    """
    writers = {log.owner for log in logs if log.name not in evidence}
    return frozenset(log.name for log in logs if log.name in evidence and _is_trusted(log.owner, writers))


def _is_trusted(owner: int, writers: Collection[int]) -> bool:
    is_own = 0 <= owner < FIRST_USER_ID or owner == os.geteuid()
    return is_own and owner not in writers
