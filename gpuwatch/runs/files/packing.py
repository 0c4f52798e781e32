"""Reads log files as byte streams in any supported packing: gzip, zstd, xz, bzip2, UTF-16, JSON."""

from __future__ import annotations

import bz2
import io
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import zstandard
from msgspec import Struct

from gpuwatch.agent.logs.files import packing_magic
from gpuwatch.agent.logs.files.holes import data_from
from gpuwatch.number_text import limit_text
from gpuwatch.runs.files.encodings import as_utf8, encoding_of
from gpuwatch.runs.files.exports.log_tables import LOG_TABLE, MAX_FIELD, table_lines
from gpuwatch.runs.files.exports.status_lines import MAX_BYTES, STATUS, status_lines
from gpuwatch.runs.files.json_documents import NOTEBOOK, as_records, is_document, outputs_of
from gpuwatch.runs.files.margins import MARGIN, without_margin
from gpuwatch.runs.files.opening import open_file

UTF_16 = "utf-16"
SECTION = "section"
READ_BYTES = 1 << 20
PACKED_BYTES = 2048
"""Bytes that zstd's decoder gets at a time: expanded by at most 32,000 they give 64 MB."""
PIECE_BYTES = 1 << 20
"""Bytes that the other decoders return at a time: bzip2 expands 4 kB to gigabytes."""
HEAD_BYTES = 256
"""Bytes after an archive member that show whether another member, text or padding follows."""
MIN_UNPACKED_BYTES = 128 << 20
XZ_MEMORY_BYTES = 256 << 20
"""Most memory of xz's decoder in bytes.

The head of a file states the size of its dictionary: 64 MiB for `xz -9`.
"""
MAX_EMPTY_MEMBERS = 100_000
"""Most archive members without text in a row; the rest is then not read. Each has 13 bytes or more."""
MAX_EXPANSION = 1000
"""Largest expansion factor of a file above `MIN_UNPACKED_BYTES`; logs reach about 300."""


def section_packing(begin: int, end: int, lines: int) -> str:
    """Return the packing name for a section of a plain file: bytes `begin` to `end`, after `lines` lines."""
    return f"{SECTION} {begin} {end} {lines}"


def is_section(packing: str | None) -> bool:
    """Return True if a log is a section of a plain file."""
    return packing is not None and packing.startswith(SECTION)


class Decoder(Struct, frozen=True):
    """The decompressor of one archive member, whatever its format."""

    inner: Any
    """Decoder object of zlib, zstandard, lzma or bz2."""
    drain: Callable[[Any, bytes], Iterator[bytes]]

    @property
    def eof(self) -> bool:
        """True if the archive member is complete."""
        return bool(self.inner.eof)

    @property
    def unused_data(self) -> bytes:
        """The input after the end of the compressed member."""
        return bytes(self.inner.unused_data)

    def pieces(self, data: bytes) -> Iterator[bytes]:
        """Feed data and yield the decoded bytes in bounded pieces."""
        return self.drain(self.inner, data)


def _returning(decoder: Any, data: bytes) -> Iterator[bytes]:  # noqa: ANN401 - zlib's has no public type
    """Yield zlib's output in bounded pieces; it keeps unconsumed input in `unconsumed_tail`."""
    while True:
        piece = decoder.decompress(data, PIECE_BYTES)
        yield piece
        data = decoder.unconsumed_tail
        if decoder.eof or (not data and len(piece) < PIECE_BYTES):
            return


def _unbounded(decoder: Any, data: bytes) -> Iterator[bytes]:  # noqa: ANN401 - zstandard's neither
    """Yield zstd's output. It has no output limit, so callers pass little input at a time."""
    yield decoder.decompress(data)


def _buffering(decoder: Any, data: bytes) -> Iterator[bytes]:  # noqa: ANN401 - of lzma or bz2
    """Yield the output of xz or bzip2 in bounded pieces; they buffer their input."""
    yield decoder.decompress(data, PIECE_BYTES)
    while not decoder.eof and not decoder.needs_input:
        yield decoder.decompress(b"", PIECE_BYTES)


DECODERS: dict[str, Callable[[], Decoder]] = {
    "gzip": lambda: Decoder(zlib.decompressobj(wbits=31), _returning),
    "zstd": lambda: Decoder(zstandard.ZstdDecompressor().decompressobj(), _unbounded),
    "xz": lambda: Decoder(lzma.LZMADecompressor(memlimit=XZ_MEMORY_BYTES), _buffering),
    "bzip2": lambda: Decoder(bz2.BZ2Decompressor(), _buffering),
}
BROKEN = (zlib.error, lzma.LZMAError, zstandard.ZstdError, OSError, EOFError, ValueError)


def packing_of(head: bytes) -> str | None:
    """Return the name of a file's packing (a compression, or UTF-16) by its first bytes; None: plain.

    Zero bytes before a packed member are skipped (preallocated files).
    """
    if encoding_of(head) is not None:
        return UTF_16
    return _member_packing(head.lstrip(b"\0"))


def _member_packing(data: bytes) -> str | None:
    """Return the name of a file's compression by its first bytes, or None.

    Names are unreliable (a `dmesg.gz` may be plain).
    """
    packing = packing_magic.packing_by_magic(data)
    return packing if packing in DECODERS else None


@dataclass
class Contents:
    """Reads the unpacked bytes of a log file in order; afterwards `damage` states what failed."""

    path: Path
    packing: str | None
    damage: str | None = None
    read: int = field(default=0, init=False)
    """Bytes read from the file so far, for a progress bar."""
    _goes_on: bool = field(default=True, init=False)
    """True while more data is stored in the file after the bytes read last."""
    _next: int = field(default=0, init=False)
    """Offset of that data."""
    _last_member: int = field(default=0, init=False)
    """The number of the last packed member with text."""

    def pieces(self) -> Iterator[bytes]:
        """Yield unpacked bytes, mostly about 1 MB at a time.

        Raises:
            OSError: the file cannot be opened, or a plain file cannot be read further.
        """
        with open_file(self.path) as file:
            if self.packing is None:
                yield from self._raw(file, READ_BYTES)
            elif is_section(self.packing):
                yield from self._section(file, *map(int, self.packing.split()[1:]))
            elif is_document(self.packing):
                yield from as_records(self._raw(file, READ_BYTES), self.packing)
            elif self.packing == NOTEBOOK:
                yield from self._outputs(file)
            elif self.packing == STATUS:
                yield status_lines(file.read(MAX_BYTES))  # it may have grown since it was looked at
            elif self.packing == LOG_TABLE:
                rows = io.TextIOWrapper(file, "utf-8", "replace", newline="")
                lines = iter(lambda: rows.readline(MAX_FIELD), "")  # a longer line comes in parts
                yield from (line.encode("utf-8", "replace") for line in table_lines(lines))
            elif self.packing == MARGIN:
                yield from without_margin(self._raw(file, READ_BYTES))
            elif self.packing == UTF_16:
                yield from as_utf8(self._raw(file, READ_BYTES))
            else:
                stored = stored_bytes(os.fstat(file.fileno()))
                unpacked = self._bounded(self._unpacked(file, self.packing), stored)
                yield from as_utf8(gathered(unpacked))

    def _raw(self, file: BinaryIO, size: int, at: int = 0) -> Iterator[bytes]:
        """Yield the stored bytes from `at` up to the current end of the file, without holes."""
        end = os.fstat(file.fileno()).st_size
        at = data_from(file.fileno(), at, end)
        while at < end:
            file.seek(at)
            data = file.read(min(size, end - at))
            if not data:
                return
            self.read += len(data)
            at = data_from(file.fileno(), at + len(data), end)
            self._next, self._goes_on = at, at < end
            yield data

    def _section(self, file: BinaryIO, begin: int, end: int, lines: int) -> Iterator[bytes]:
        """Yield a section's bytes after `lines` blank lines: line numbers are then those of the file."""
        yield b"\n" * lines
        file.seek(begin)
        while begin < end and (data := file.read(min(READ_BYTES, end - begin))):
            begin += len(data)
            self.read += len(data)
            yield data

    def _outputs(self, file: BinaryIO) -> Iterator[bytes]:
        try:
            yield from outputs_of(self._raw(file, READ_BYTES))
        except (ValueError, RecursionError) as error:
            self.damage = f"no notebook: {error}"

    def _bounded(self, pieces: Iterator[bytes], stored: int) -> Iterator[bytes]:
        size = 0
        for piece in pieces:
            most = max(MIN_UNPACKED_BYTES, MAX_EXPANSION * max(stored, self.read))
            yield piece[: max(0, most - size)]
            size += len(piece)
            if size > most:
                self.damage = f"unpacks to more than {limit_text(most)}; the rest is not read"
                return

    def _unpacked(self, file: BinaryIO, packing: str) -> Iterator[bytes]:
        """Yield all members of the file and the text after them; zero bytes in between are padding."""
        decoder: Decoder | None = None
        members, held = 0, b""
        for block in self._raw(file, READ_BYTES):
            for start in range(0, len(block), PACKED_BYTES):
                data = held + block[start : start + PACKED_BYTES]
                held = b""
                while data:
                    if decoder is None:
                        data = data.lstrip(b"\0")
                        goes_on = start + PACKED_BYTES < len(block) or self._goes_on
                        if members and len(data) < HEAD_BYTES and goes_on:
                            held = data  # the head of a member may be cut here
                            break
                        if not data:
                            break
                        if members and _is_text(data):
                            yield data + block[start + PACKED_BYTES :]
                            yield from self._raw(file, READ_BYTES, self._next)
                            return
                        packing = _member_packing(data) or packing
                        decoder, members = DECODERS[packing](), members + 1
                    try:
                        yield from self._with_text(decoder.pieces(data), members)
                    except BROKEN as error:
                        behind = f" behind {members - 1} complete" if members > 1 else ""
                        self.damage = f"damaged {packing} data{behind}: {error}"
                        return
                    if not decoder.eof:
                        break
                    data, decoder = decoder.unused_data, None
        if decoder is not None:
            self.damage = f"the {packing} data is truncated"

    def _with_text(self, pieces: Iterator[bytes], member: int) -> Iterator[bytes]:
        """Yield the pieces of the archive member with this number.

        Raises:
            EOFError: too many members in a row have no text.
        """
        for piece in pieces:
            if piece:
                self._last_member = member
                yield piece
        if member - self._last_member > MAX_EMPTY_MEMBERS:
            raise EOFError(f"{MAX_EMPTY_MEMBERS:,} members without text")


def stored_bytes(status: os.stat_result) -> int:
    """Return the bytes that a file occupies on disk, without holes; at most its length."""
    return min(status.st_size, 512 * status.st_blocks)


def _is_text(data: bytes) -> bool:
    """Return True if the bytes after a packed member look like log lines."""
    head = data[:HEAD_BYTES]
    if any(each < 32 and each not in b"\t\n\r\x1b" for each in head):
        return False
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return error.start > len(head) - 4  # a character may be cut
    return True


def gathered(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the pieces joined to at least 1 MB each, except for the last one."""
    held: list[bytes] = []
    size = 0
    for piece in pieces:
        held.append(piece)
        size += len(piece)
        if size >= READ_BYTES:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)
