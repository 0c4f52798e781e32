"""`gpuwatch open`: shows a recording, or the logs of an ended job, on the screens."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from gpuwatch.cli.analysis.found_logs import gathered
from gpuwatch.cli.analysis.open_logs import open_logs
from gpuwatch.cli.analysis.scan import scan_and_print
from gpuwatch.cli.monitor.watch import show
from gpuwatch.cli.shared.screens import can_draw, screen_options
from gpuwatch.cli.shared.source import Refusal, is_file_of_recording, recorded_source
from gpuwatch.cli.shared.source_flags import at_option


@click.command("open")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path))
@at_option
@screen_options
def open_past(paths: tuple[Path, ...], at: str | None, **look: Any) -> int:  # noqa: ANN401 - what click parsed
    """Show a recording, or the logs of a job that has ended, on the screens.

    PATH is a recording, or log files and folders as in `gpuwatch scan`; .gz, .zst, .xz and .bz2 are
    unpacked. Logs are judged as by `gpuwatch scan`, and times are those of the logs: no node is contacted.

    In a recording `p` plays and pauses, `,` and `.` step, `<` and `>` change the speed, `{` and `}` go to the
    previous and next incident, `t` goes to a time. Without a terminal it prints the report of `gpuwatch once`
    or `gpuwatch scan`.

    Exit status: 0 done, 2 a path cannot be read.
    """
    recordings = [path for path in paths if is_file_of_recording(str(path))]
    if recordings:
        if len(paths) > 1:
            raise Refusal([f"{recordings[0]}: a recording is opened alone; leave out the other paths"])
        return show(recorded_source(paths[0], at), **look)
    if at is not None:
        raise click.UsageError("--at needs a recording.")
    return open_folders(paths, look)


def open_folders(paths: tuple[Path, ...], look: dict[str, Any]) -> int:
    """Show the screens over the logs of an ended job; return the exit status.

    Without a terminal the report of the logs is printed instead.

    Raises:
        Refusal: There is no readable log.
    """
    found, rules = gathered(paths, whole_files=not can_draw())
    report = partial(scan_and_print, found, rules, None, verbose=False)
    return open_logs(paths, found, rules, report, look)
