"""Prints report lines on a terminal or into a pipe."""

from __future__ import annotations

import contextlib
import io
import textwrap
from collections.abc import Iterable, Iterator
from typing import TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from gpuwatch.blocks.model import Line
from gpuwatch.plain import plain, plain_text

STYLES = {
    "ok": "#66b2ff",
    "info": "default",
    "plain": "default",
    "muted": "#8a8a8a",
    "warning": "#fff699",
    "error": "#ff2a00",
    "critical": "bold #ff2a00",
    "strong": "bold",
    "code": "#8a8a8a",
}
"""The style of each severity, safe for colour-blind readers; the severity is always shown as a word too."""
PIPE_WIDTH = 10_000
"""Columns in a pipe: wide enough that nothing is cut or wrapped."""


class InertConsole(Console):
    """A rich console in which no text (file names, tags, keys) can control the terminal.

    Rich's own control sequences (colours, the cursor of a progress bar) are not text, and stay.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the printed segments with sanitized texts."""
        for segment in super().render(renderable, options):
            if segment.control or segment.text == "\n":
                yield segment
            else:
                yield Segment(plain_text(segment.text), segment.style)


@contextlib.contextmanager
def console_on(out: TextIO) -> Iterator[Console]:
    """Yield a console that fits the terminal; in a pipe it is plain, wraps nothing and pads no line."""
    if out.isatty():
        yield InertConsole(file=out, highlight=False)
        return
    buffer = io.StringIO()
    yield InertConsole(file=buffer, highlight=False, width=PIPE_WIDTH, color_system=None)
    out.write("".join(f"{line.rstrip()}\n" for line in buffer.getvalue().splitlines()))


def show(console: Console, line: Line, indent: int = 0) -> None:
    """Print one line; markup in remote text is not interpreted."""
    for row in rows(line, console.width - indent):
        console.print(Text(" " * indent + row, style=STYLES[line.style]))


def rows(line: Line, width: int) -> list[str]:
    """Return the line; one with a `hang` is wrapped at this width, with continuation lines indented."""
    text = plain(line.text)
    if not line.hang or len(text) <= width or line.hang * 2 > width:
        return [text]
    return textwrap.wrap(
        text,
        width,
        subsequent_indent=" " * line.hang,
        break_on_hyphens=False,
        break_long_words=False,
    )
