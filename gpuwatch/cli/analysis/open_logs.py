"""The screens for the logs of an ended job: `gpuwatch open FOLDER` and `gpuwatch scan --open`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpuwatch.cli.shared.screens import Beside, ScreenOptions, can_draw, show_session, why_not_drawn
from gpuwatch.cli.shared.source import Refusal

if TYPE_CHECKING:
    from gpuwatch.rules.load import Packs
    from gpuwatch.runs.files.files import Gathered


def open_logs(
    paths: tuple[Path, ...],
    found: Gathered,
    rules: Packs,
    report: Callable[[], int],
    look: Mapping[str, Any],
) -> int:
    """Show the screens over the logs of an ended job; return the exit status.

    Without a terminal `report` is called instead.

    Args:
        paths: The paths given by the user.
        found: The logs under the paths.
        rules: The rules to apply.
        report: Prints the report of `gpuwatch scan` and returns its exit status.
        look: Values of `screen_options`; missing ones have their defaults.

    Raises:
        Refusal: All logs are empty.
    """
    if all(log.size == 0 for log in found.files):
        raise Refusal([f"{log.name}: empty" for log in found.files])
    if not can_draw():
        click.echo(f"gpuwatch: {why_not_drawn()}; printing the report of `gpuwatch scan` instead", err=True)
        return report()
    from gpuwatch.cli.config.settings import loaded_for_screens  # noqa: PLC0415 - rarely needed
    from gpuwatch.session.log_folder.session import FolderSession  # noqa: PLC0415 - only where it is shown

    preferred = loaded_for_screens()
    session = FolderSession(paths, found, rules)
    try:
        return show_session(session, preferred, Beside(), ScreenOptions(**look))
    finally:
        session.close()
