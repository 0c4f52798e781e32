"""A file of labelled lines: one JSON object per line, read once and with size limits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from gpuwatch.number_text import limit_text
from gpuwatch.whole_file import read_bounded

MAX_BYTES = 64 << 20


@dataclass(frozen=True)
class LabelledFile:
    """A file's name and text; it may be a pipe of the shell (`<(...)`) that can be read only once."""

    name: str
    text: str

    @classmethod
    def read(cls, file: Path) -> LabelledFile:
        """Return the labelled file at a path, read as a whole.

        Raises:
            ValueError: It is larger than MAX_BYTES, or not UTF-8 text.
            OSError: It cannot be read, or is a named pipe.
        """
        data = read_bounded(file, MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise ValueError(f"{file}: larger than {limit_text(MAX_BYTES)} (or endless); it is not read")
        try:
            return cls(str(file), data.decode())
        except UnicodeDecodeError:
            raise ValueError(f"{file}: not UTF-8 text") from None

    def rows(self) -> Iterator[tuple[int, str]]:
        """Yield (line number from 1, line) of the lines that are not blank."""
        for number, line in enumerate(self.text.splitlines(), 1):
            if line.strip():
                yield number, line

    @cached_property
    def is_progress(self) -> bool:
        """Return True if its first line is a labelled progress line (it has the key `expect`)."""
        _, first = next(self.rows(), (0, ""))
        try:
            row: Any = json.loads(first)
        except (ValueError, RecursionError):
            return False
        return isinstance(row, dict) and "expect" in row and "line" in row
