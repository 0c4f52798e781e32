"""`gpuwatch runs report`, `plot` and `tensorboard`: sessions as documents and charts."""

# ruff: noqa: PLC0415  a command imports only what it uses, so that --help and usage errors stay fast

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import click

from gpuwatch.cli.runs.command import read_sessions, runs, session_options, with_curves
from gpuwatch.cli.shared import exit_codes
from gpuwatch.cli.shared.output import write_output, writing
from gpuwatch.cli.shared.source import Refusal
from gpuwatch.plain import plain

PICTURES = ("png", "svg")
EVENTS = "events.out.tfevents."
"""The beginning of the names of TensorBoard's event files."""
MAX_ENTRIES = 200_000
"""Maximum number of files and folders that are searched for event files."""


@runs.command(short_help="Report sessions in the terminal, HTML or Markdown.")
@session_options(as_json=False)
@click.option("--html", type=click.Path(path_type=Path), help="Write one self-contained HTML file.")
@click.option("--markdown", type=click.Path(path_type=Path), help="Write Markdown; - is the standard output.")
def report(names: tuple[str, ...], logs: Path, html: Path | None, markdown: Path | None) -> int:
    """Report sessions: comparison, curves, GPUs, communication, warnings, settings."""
    from gpuwatch.blocks.html import html as as_html
    from gpuwatch.blocks.markdown import markdown as as_markdown
    from gpuwatch.report.sessions.document import build_document

    sessions = with_curves(read_sessions(names, logs))
    document = build_document(sessions)
    if html is not None:
        write_output(html, as_html(document).encode())
    if markdown is not None:
        write_output(markdown, as_markdown(document).encode())
    if html is None and markdown is None:
        from gpuwatch.report.output.blocks import print_blocks
        from gpuwatch.report.output.console import console_on

        with writing(), console_on(sys.stdout) as console:
            print_blocks(document, console)
    return exit_codes.HEALTHY


@runs.command(short_help="Plot curves over the steps.")
@session_options(as_json=False)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write a .png or .svg file (needs matplotlib)."
)
def plot(names: tuple[str, ...], logs: Path, output: Path | None) -> int:
    """Plot loss, learning rate, throughput, GPUs and communication over the steps.

    Without -o it draws in the terminal.
    """
    from gpuwatch.report.sessions.charts import charts_of

    ending = "" if output is None else output.suffix.lower().removeprefix(".")
    if output is not None and ending not in PICTURES:
        raise Refusal([f"-o {plain(str(output))}: the file name must end in .png or .svg"])
    sessions = with_curves(read_sessions(names, logs))
    charts = charts_of(sessions)
    if not charts:
        raise Refusal(["no session has values to plot; `gpuwatch runs show` lists what is missing"])
    if output is not None:
        from gpuwatch.report.sessions.plot_file import NoMatplotlibError, plot_file

        title = sessions[0].name if len(sessions) == 1 else f"{len(sessions)} sessions"
        try:
            write_output(output, plot_file(charts, title, ending))
        except NoMatplotlibError as error:
            raise Refusal(["matplotlib is not installed: pip install 'gpuwatch-cluster[plots]'"]) from error
        return exit_codes.HEALTHY
    from gpuwatch.report.output.blocks import print_blocks
    from gpuwatch.report.output.console import console_on

    with writing(), console_on(sys.stdout) as console:
        print_blocks(charts, console)
    return exit_codes.HEALTHY


@runs.command(short_help="Print the command that shows event files.")
@click.argument("folder", default="logs", metavar="[DIR]", type=click.Path(path_type=Path))
@click.option(
    "--port", type=click.IntRange(1, 65535), default=6006, show_default=True, help="Port of TensorBoard."
)
@click.option("--start", is_flag=True, help="Start it instead of printing the command; Ctrl-C ends it.")
def tensorboard(folder: Path, port: int, start: bool) -> int:
    """Print the command that shows the event files below DIR in TensorBoard, or start it.

    Event files are written with TelemetrySettings(enable_tensorboard=True), or by the training itself.

    Exit status: 0 done; 2 no event files below DIR, or TensorBoard is not installed; with --start that of
    TensorBoard.
    """
    from gpuwatch.shell_command import command_line

    if not has_events(folder):
        raise Refusal([f"{plain(str(folder))}: contains no TensorBoard event files ({EVENTS}*)"])
    arguments = ["tensorboard", "--logdir", str(folder), "--port", str(port)]
    if not start:
        with writing():
            sys.stdout.write(f"{plain(command_line(arguments))}\n")
        return exit_codes.HEALTHY
    program = shutil.which("tensorboard")
    if program is not None:
        sys.stdout.flush()
        os.execv(program, arguments)  # noqa: S606 - no shell; it gets the terminal and its signals
    raise Refusal(["tensorboard is not on PATH; install it: pip install tensorboard"])


def has_events(folder: Path) -> bool:
    """Return True if the folder has TensorBoard event files below it, among the first 200,000 entries."""
    seen = 0
    for _path, _folders, files in os.walk(folder):
        seen += 1 + len(files)
        if any(name.startswith(EVENTS) for name in files):
            return True
        if seen > MAX_ENTRIES:
            break
    return False
