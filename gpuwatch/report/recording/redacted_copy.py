"""A copy of a recording with replaced names: `gpuwatch record --redact`."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import zstandard
from msgspec.structs import replace

from gpuwatch.decode_errors import DECODE_ERRORS
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.recording.reader import Recording
from gpuwatch.link.recording.records import StreamRecord, records_of
from gpuwatch.link.recording.schema import RecordingError, create
from gpuwatch.link.recording.tee import (
    AnswerItem,
    DictionaryItem,
    IncidentMark,
    Item,
    KeyFrame,
    RecordBlock,
    RequestItem,
)
from gpuwatch.link.recording.writer import describe, write_items
from gpuwatch.report.recording.packed_text import without_file_piece
from gpuwatch.report.recording.redaction import Redaction

NAMING = frozenset(("hello", "ranks", "logs", "link"))
"""Kinds of records that contain host or user names."""
FIELDS = {
    "host": "host", "hostname": "host", "user": "user", "owner": "user", "path": "path", "logs": "path",
}  # fmt: skip
"""Field -> the kind of name in it."""
UNREADABLE = b"?\n"
"""The line that replaces a record that cannot be read: the copy is as damaged as its source."""
_json = msgspec.json.Encoder()


def redact(source: Recording, path: Path) -> Redaction:
    """Write a redacted copy into a new file; return the replacements.

    Raises:
        RecordingError: the file cannot be written, or exists.
    """
    names = Redaction(*names_in(source))
    file = create(path)
    try:
        plan = redacted_plan(source.plan, names)
        nodes = {names.node(name): number for number, name in source.nodes.items()}
        describe(file, path, plan, nodes)
        file.execute("INSERT OR REPLACE INTO meta VALUES ('host', 'redacted')")
        file.execute("BEGIN")
        write_items(file, _Copy(names, source).items(source.items(source.first, source.last)))
        file.execute("COMMIT")
        file.execute("PRAGMA journal_mode = DELETE").fetchall()
    except (sqlite3.Error, RecordingError) as error:
        file.close()
        with contextlib.suppress(OSError):
            path.unlink()
        raise error if isinstance(error, RecordingError) else RecordingError(f"{path}: {error}") from error
    except BaseException:  # Ctrl-C leaves no half copy
        file.close()
        path.unlink(missing_ok=True)
        raise
    file.close()
    return names


def names_in(source: Recording) -> tuple[list[str], list[str], list[str]]:
    """Return the hosts, users and paths in a recording."""
    hosts: dict[str, None] = dict.fromkeys(source.nodes.values())
    found: dict[str, dict[str, None]] = {"host": hosts, "user": {}, "path": {}}
    for record in _all_records(source):
        if record.kind in NAMING:
            _note(_decoded(record.body), found)
    return list(hosts), list(found["user"]), list(found["path"])


def _all_records(source: Recording) -> Iterator[StreamRecord]:
    yield from source.key_frame(source.first)[2]
    yield from (record for _, record in source.all_records())


def _note(value: object, found: dict[str, dict[str, None]], field: str = "") -> None:
    if isinstance(value, Mapping):
        for key, item in value.items():
            _note(item, found, str(key))
    elif isinstance(value, list):
        for item in value:
            _note(item, found, field)
    elif isinstance(value, str) and value and field in FIELDS:
        found[FIELDS[field]][value] = None


def redacted_plan(plan: Plan, names: Redaction) -> Plan:
    """Return the plan with replaced names, and without groups, log options and allocation."""
    nodes = tuple(NodeSpec(names.node(spec.name), spec.link, slots=spec.slots) for spec in plan.nodes)
    logs = tuple(map(names.text, plan.logs))
    return replace(
        plan, nodes=nodes, groups={}, logs=logs, log_options=(), allocation=None, source="redacted"
    )


class _Copy:
    """Replaces the names in the items of a recording."""

    def __init__(self, names: Redaction, source: Recording) -> None:
        self._names = names
        self._unpacked, self._budget = source.inflated, source.budget(whole=True)
        self._deflate = zstandard.ZstdCompressor(level=3, write_checksum=True)

    def items(self, items: Iterator[Item]) -> Iterator[Item]:
        """Yield each item with replaced names; dictionaries are left out."""
        for item in items:
            match item:
                case DictionaryItem():
                    continue  # trained on what is to be renamed
                case RecordBlock():
                    yield replace(item, data=self._lines(item.data, item.first))
                case KeyFrame():
                    yield replace(item, data=self._lines(item.data, item.at))
                case RequestItem():
                    yield replace(item, body=self._body(item.body))
                case AnswerItem():
                    yield replace(item, data=self._packed(self._body(self._unpacked(item.data), True)))
                case IncidentMark():
                    text = self._names.text
                    yield replace(item, id=text(item.id), headline=text(item.headline))

    def _lines(self, data: bytes, since: int) -> bytes:
        if self._budget.is_spent:
            return self._packed(UNREADABLE)
        odd: list[bytes] = []
        records = records_of(self._unpacked(data), since, lambda: odd.append(UNREADABLE))
        lines = [msgspec.structs.replace(one, body=self._body(one.body)).line(since) for one in records]
        self._budget.records += len(lines)
        return self._packed(b"".join([*lines, *odd]) or UNREADABLE)

    def _body(self, body: bytes, is_answer: bool = False) -> bytes:
        value = _decoded(body)
        if is_answer:
            value = without_file_piece(value)
        return UNREADABLE.rstrip() if value is None else _json.encode(self._names.value(value))

    def _packed(self, data: bytes) -> bytes:
        return self._deflate.compress(data)


def _decoded(body: bytes) -> object:
    try:
        return msgspec.json.decode(body)
    except DECODE_ERRORS:
        return None
