"""`gpuwatch open`: the screens over what is past, a recording or the logs of a job that has ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gpuwatch.cli.monitor.watch import screen_options, show
from gpuwatch.cli.shared.source import Refusal, at_option, is_file_of_recording, recorded_source


@click.command("open")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path(path_type=Path))
@at_option
@screen_options
def open_past(paths: tuple[Path, ...], at: str | None, **look: Any) -> int:  # noqa: ANN401 - what click parsed
    """Open the screens over a recording: they show what was known at its moment, in recorded time.

    `p` plays and pauses, `,` and `.` step, `<` and `>` change the speed, `{` and `}` go to the previous and
    next incident, `t` goes to a time. Without a terminal it prints the report of `gpuwatch once`.

    Exit status: 0 done, 2 a path cannot be read.
    """
    recordings = [path for path in paths if is_file_of_recording(str(path))]
    if recordings:
        if len(paths) > 1:
            raise Refusal([f"{recordings[0]}: a recording is opened alone; leave out the other paths"])
        return show(recorded_source(paths[0], at), **look)
    return open_folders(paths, at, look)


def open_folders(paths: tuple[Path, ...], at: str | None, look: dict[str, object]) -> int:  # noqa: ARG001
    """The logs of a job that has ended.

    Raises:
        Refusal: they cannot be opened yet.
    """
    missing = [path for path in paths if not path.exists()]
    why = "no such file" if missing else "not a recording"
    raise Refusal([f"{(missing or paths)[0]}: {why}"])
