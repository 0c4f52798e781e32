"""Recognises exports: status documents, and tables of log lines."""

from __future__ import annotations

from collections.abc import Callable

from gpuwatch.runs.files.exports import status_words as words
from gpuwatch.runs.files.exports.log_tables import LOG_TABLE, is_log_table
from gpuwatch.runs.files.exports.status_lines import MAX_BYTES, STATUS, is_status_document

BEGINS = ("{", "[", "apiVersion:", "kind:", "items:")
"""Beginnings of the first line of a document; a prompt and a few notes may stand above."""
MAX_ABOVE = 12
"""Lines above the document."""


def export_packing(head: bytes, read: Callable[[int], bytes], *, log: bool = False) -> str | None:
    """Return `LOG_TABLE` for a table of log lines, `STATUS` for a document that states a failure, else None.

    Args:
        head: The first bytes of the file.
        log: Whether the file has the name of a log: a document in it must state a failure.
        read: Returns up to that many bytes of the file's beginning; called if `head` may begin a document.
    """
    if is_log_table(head):
        return LOG_TABLE
    lines = head[:8192].decode("utf-8", "replace").lstrip("\ufeff").splitlines()[:MAX_ABOVE]
    if not any(line.startswith(BEGINS) for line in lines) or words.MARK.search(head) is None:
        return None
    try:
        data = read(MAX_BYTES + 1)
    except OSError:
        return None  # the reader of the file reports the reason
    return STATUS if len(data) <= MAX_BYTES and is_status_document(data, log=log) else None
