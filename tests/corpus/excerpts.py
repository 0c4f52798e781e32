"""The labelled excerpts in `lines`: blocks of lines, each below a line `== CLASS [rank=N] [kernel]`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "lines"


@dataclass(frozen=True)
class Excerpt:
    """Some lines of a log with what they are a sign of."""

    label: str
    """The class of a failure; a word for what a healthy excerpt is."""
    lines: tuple[str, ...]
    rank: int | None = None
    kernel: bool = False
    """The kernel's own line, which stands in a kernel log."""
    healthy: bool = False


def read(name: str) -> list[Excerpt]:
    """The excerpts of `failures` or `healthy`."""
    found = []
    text = (FOLDER / f"{name}.txt").read_text("utf-8")
    for block in re.split(r"^== ", text, flags=re.MULTILINE)[1:]:
        head, *lines = block.rstrip("\n").split("\n")
        label, *words = head.split()
        rank = next((int(word[5:]) for word in words if word.startswith("rank=")), None)
        found.append(Excerpt(label, tuple(lines), rank, "kernel" in words, name == "healthy"))
    return found
