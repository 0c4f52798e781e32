"""What the histories of one GPU cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpuwatch.fleet.nodes.history import bytes_per_gpu
from tests.bench.cpu import Row


def rows(_folder: Path) -> Sequence[Row]:
    """Bytes, by the histories' own count."""
    size = bytes_per_gpu()
    return [Row("history of one GPU, 15 min at 1 s and 24 h", f"{size:,} bytes", "", None, size)]
