"""What a screen shows, as text."""

from __future__ import annotations

from gpuwatch.tui.app import GpuwatchApp
from gpuwatch.tui.fleet.screen import FleetScreen
from gpuwatch.tui.toolkit.lines.line_view import LineView


def text_on(app: GpuwatchApp) -> str:
    """All that the screen's own widgets show, line by line."""
    lines = []
    for part in app.screen.query(LineView):
        if part.is_on_screen:
            lines += [part.render_line(y).text for y in range(part.size.height)]
    return "\n".join(lines)


def fleet_of(app: GpuwatchApp) -> FleetScreen:
    assert isinstance(app.screen, FleetScreen)
    return app.screen
