"""Generates docs/keys.md from the bindings: `python -m gpuwatch.tui.key_reference > docs/keys.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from gpuwatch.blocks.markdown import code, markdown
from gpuwatch.blocks.model import Block, Heading, Table
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
    return f"{INTRODUCTION}\n{markdown(_sections(), 'all')}"


def _sections() -> Iterator[Block]:
    for title, bindings in keys.SECTIONS:
        rows = (
            (" ".join(map(code, keys.shown(binding))), keys.meaning(binding), code(binding.id or ""))
            for binding in bindings
        )
        yield from (Heading(title, 2), Table(("key", "what it does", "id"), tuple(rows)))


if __name__ == "__main__":
    sys.stdout.write(page())
