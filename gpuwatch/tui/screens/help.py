"""The help screen, made from the bindings."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from rich.segment import Segment
from textual.app import ComposeResult
from textual.screen import ModalScreen

from gpuwatch.tui import keys
from gpuwatch.tui.look import Severity, fit
from gpuwatch.tui.widgets.lines import Page, Row, heading

SIGNS: tuple[tuple[Severity, str], ...] = (
    ("ok", "healthy"),
    ("warning", "needs a look"),
    ("error", "failed"),
    ("critical", "lost or failing"),
    ("unknown", "not known (yet)"),
)


class HelpPage(Page):
    """What the signs mean, and every key."""

    def build(self, width: int) -> list[Row]:
        """All lines."""
        look, glyphs = self.look, self.look.glyphs
        rows: list[Row] = [
            (Segment("gpuwatch", look.title), Segment("  every GPU of a cluster, with its age", look.dim)),
            (),
        ]
        signs: list[Segment] = []
        for severity, word in SIGNS:
            signs += [look.mark(severity), Segment(f" {word}   ", look.dim)]
        rows.append(tuple(signs))
        rows.append(
            (
                Segment(glyphs.stuck, look.severity["warning"]),
                Segment(" a driver call does not return   ", look.dim),
                Segment(glyphs.stale, look.stale),
                Segment(" the last value of a silent node", look.dim),
            )
        )
        rows.append(
            (
                Segment(glyphs.missing, look.dim),
                Segment(" filtered out, or no value         ", look.dim),
                Segment("-", look.text),
                Segment(" unknown, never zero", look.dim),
            )
        )
        for title, bindings in keys.SECTIONS:
            rows += [(), heading(title, width, look)]
            rows += [
                (
                    Segment(fit(" ".join(keys.shown(b)), 16) + " ", look.strong),
                    Segment(fit(keys.meaning(b), max(1, width - 17)), look.text),
                )
                for b in bindings
            ]
        return rows


class HelpScreen(ModalScreen[None]):
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
