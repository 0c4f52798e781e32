"""Scans lines of a job, for the tests of what names its failed rank."""

from __future__ import annotations

from pathlib import Path

from tests.corpus.score import scanned

STEPS = [
    f"2026-10-12 03:{n // 20:02}:{n * 3 % 60:02} INFO step {n}/900 loss {4 / n:.4f}" for n in range(1, 200)
]


def place(folder: Path, files: dict[str, list[str]]) -> tuple[int | None, str | None, int | None]:
    """Return rank, node and GPU of the first incident."""
    for name, lines in files.items():
        (folder / name).write_text("\n".join(lines) + "\n")
    first = scanned(folder)["incidents"][0]
    return first["rank"], first["node"], first["gpu"]
