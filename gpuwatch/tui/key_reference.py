"""Generates docs/keys.md from the bindings: `python -m gpuwatch.tui.key_reference > docs/keys.md`."""

from __future__ import annotations

import sys

from gpuwatch.tui.toolkit import keys

INTRODUCTION = """\
# Keys

<!-- Made by `python -m gpuwatch.tui.key_reference > docs/keys.md`; a test keeps it true. -->

A key means the same on every screen. `?` shows this page in gpuwatch. The mouse works too: a click puts
the cursor, a double click opens, a click on a column's title sorts by it (`--no-mouse` leaves the mouse to
the terminal).
"""


def page() -> str:
    """Return the content of docs/keys.md."""
    parts = [INTRODUCTION]
    for title, bindings in keys.SECTIONS:
        rows = []
        for binding in bindings:
            names = " ".join(f"`{name}`" for name in keys.shown(binding))
            rows.append(f"| {names} | {keys.meaning(binding)} | `{binding.id}` |\n")
        parts.append(f"\n## {title}\n\n| key | what it does | id |\n|---|---|---|\n{''.join(rows)}")
    return "".join(parts)


if __name__ == "__main__":
    sys.stdout.write(page())
