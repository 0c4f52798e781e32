"""The help screen, made from the bindings."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import ClassVar

from rich.segment import Segment
from textual.app import ComposeResult
from textual.screen import ModalScreen

from gpuwatch.tui.model.severity import Severity
from gpuwatch.tui.toolkit import keys
from gpuwatch.tui.toolkit.error_boundary import ErrorBoundary
from gpuwatch.tui.toolkit.item_page import hanging
from gpuwatch.tui.toolkit.line_view import RebuiltPage, Row, heading
from gpuwatch.tui.toolkit.styles import fit

SIGNS: tuple[tuple[Severity, str], ...] = (
    ("ok", "healthy"),
    ("warning", "warning"),
    ("error", "failed"),
    ("critical", "critical"),
    ("unknown", "unknown"),
)

KEY_COLUMNS = 16
"""Width of the keys' column."""


class HelpPage(RebuiltPage):
    """What the signs mean, and every key."""

    def build(self, width: int) -> list[Row]:
        """All lines."""
        look, glyphs = self.look, self.look.glyphs
        rows: list[Row] = [
            (Segment("gpuwatch", look.title), Segment("  GPUs and logs of a training cluster", look.dim)),
            (),
        ]
        for some in (SIGNS[:3], SIGNS[3:]):
            marks = [(look.mark(severity), Segment(f" {word}   ", look.dim)) for severity, word in some]
            rows.append(tuple(chain.from_iterable(marks)))
        rows.append(
            (
                Segment(glyphs.stuck, look.severity["warning"]),
                Segment(" driver call does not return    ", look.dim),
                Segment(glyphs.stale, look.stale),
                Segment(" last value before the node went silent", look.dim),
            )
        )
        rows.append(
            (
                Segment(glyphs.missing, look.dim),
                Segment(" filtered out, or no value       ", look.dim),
                Segment("-", look.text),
                Segment(" unknown", look.dim),
            )
        )
        for title, bindings in keys.SECTIONS:
            rows += [(), heading(title, width, look)]
            for binding in bindings:
                name = Segment(fit(" ".join(keys.shown(binding)), KEY_COLUMNS) + " ", look.strong)
                rows += hanging((name,), keys.meaning(binding), width, look.text)
        return rows


class HelpScreen(ErrorBoundary, ModalScreen[None]):
    """Lies over the screen that asked for it."""

    BINDINGS: ClassVar = [
        replace(binding, action=f"app.{binding.action}")
        for binding in keys.EVERYWHERE
        if binding.id in ("app.help", "app.back", "app.quit")
    ]

    def compose(self) -> ComposeResult:
        """One page."""
        yield HelpPage(id="help")

    def on_mount(self) -> None:
        """Keys scroll it at once."""
        self.query(HelpPage).focus()  # none is there when the app is ending
