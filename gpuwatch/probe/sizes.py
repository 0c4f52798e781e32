"""Sizes and counts as people say them."""

from __future__ import annotations


def size_text(size: int) -> str:
    """`64 KiB`, `1 MiB`, `1.5 MiB`."""
    value, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.4g} {unit}"
