"""`gpuwatch run`: runs a training command unchanged, and keeps a session folder of it."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpuwatch.cli.shared.source import Refusal
from gpuwatch.plain import plain

if TYPE_CHECKING:
    from gpuwatch.cli.run.child import RunChild
    from gpuwatch.cli.run.place import RunPlace

NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""A shell's exit codes."""
MAX_CONSOLE_BYTES = 4 << 30
"""Maximum size of the console log; further output goes to the terminal only."""


class NamedPath(click.Path):
    """A path that is not empty: an unset variable in a shell script must not select the current folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - as in click
        if not os.fspath(value):
            self.fail("the name is empty", param, ctx)
        return super().convert(value, param, ctx)


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--output",
    metavar="FILE",
    type=NamedPath(dir_okay=False, path_type=Path),
    help="Also write GPU samples, steps and alerts to FILE, one JSON object per line.",
)
@click.option(
    "--logs",
    default="logs",
    show_default=True,
    type=NamedPath(file_okay=False, path_type=Path),
    help="Folder for the session.",
)
@click.option(
    "--single-gpu",
    is_flag=True,
    help="Let COMMAND see only the first of its GPUs, as a baseline to compare with.",
)
@click.argument(
    "command", nargs=-1, required=True, metavar="-- COMMAND [ARGUMENT]...", type=click.UNPROCESSED
)
def run(output: Path | None, logs: Path, single_gpu: bool, command: tuple[str, ...]) -> int:
    """Run a training command, record GPUs, steps and alerts, and keep a session folder.

    The command runs as it would alone: same terminal, input, signals and exit code, and no byte is
    added to its output. The status is in the title of the terminal; one line follows at the end.
    GPUWATCH_RUN_DIR and GPUWATCH_RUN_ID name the session to the command. Read it with gpuwatch runs.

    Exit status: that of COMMAND; 127 it was not found, 126 it cannot be executed.
    """
    check_command(command[0])
    from gpuwatch.cli.run.place import identify_run, one_gpu, run_environment  # noqa: PLC0415 - loaded when it is needed
    from gpuwatch.cli.run.shared_folder import open_folder  # noqa: PLC0415 - loaded when it is needed
    from gpuwatch.telemetry.session.folder import DIRECTORY_VARIABLE  # noqa: PLC0415 - loaded when it is needed
    from gpuwatch.whole_file import open_in_place  # noqa: PLC0415 - loaded when it is needed

    if os.environ.get(DIRECTORY_VARIABLE):
        raise Refusal([f"{DIRECTORY_VARIABLE} is set: this is already inside of a run"])
    start = time.time()
    place = identify_run(command, os.environ)
    made: list[Path] = [] if logs.exists() else [logs]
    try:
        if output is not None:
            made += [] if output.exists() else [output]
            os.close(open_in_place(output))
        folder, place = open_folder(place, logs, start)
        made += [folder.path, folder.parts, folder.node_part(place.part), folder.ranks]
        folder.ranks.mkdir(mode=0o700, exist_ok=True)
        if folder.ranks.is_symlink():
            raise NotADirectoryError(errno.ENOTDIR, "a link, not a folder", str(folder.ranks))
        path = folder.ranks / console_name(place)
        console = open(path, "xb", buffering=0, opener=private_opener)  # noqa: SIM115 - held for the run
        made.append(path)
    except OSError as error:
        remove_empty(made)
        raise Refusal([f"{plain(str(error.filename or logs))}: {error.strerror}"]) from error
    config = {
        "folder": str(folder.path),
        "run_id": place.run_id,
        "part": place.part,
        "command": list(command),
        "start": start,
        "output": None if output is None else str(output.absolute()),
        "single_gpu": single_gpu,
    }
    env = run_environment(folder, place) | (one_gpu(os.environ) if single_gpu else {})
    with console:
        return run_child(command, env, config, console.write)


def private_opener(path: str, flags: int) -> int:
    """Open a file, created with mode 0600, for `open(opener=...)`: a command's output can contain secrets."""
    return os.open(path, flags, 0o600)


def remove_empty(paths: list[Path]) -> None:
    """Remove the empty ones of these files and folders, the last first; those with content stay."""
    for path in reversed(paths):
        with contextlib.suppress(OSError):
            if path.is_dir():
                path.rmdir()
            elif not path.stat().st_size:
                path.unlink()


def console_name(place: RunPlace) -> str:
    """Return the name of this node's console log, `console_<node>[_<part>].log`, unique per node and task."""
    import socket  # noqa: PLC0415 - loaded when it is needed

    node = "".join(each if each.isalnum() or each in "-." else "_" for each in socket.gethostname())
    return f"console_{node}{f'_{place.part}' if place.part else ''}.log"


def check_command(name: str) -> None:
    """Exit with a shell's code and a message if the command is not found (127) or not executable (126)."""
    if shutil.which(name) is None:
        there = Path(name).exists() and "/" in name
        click.echo(
            f"gpuwatch: {plain(name)}: {'cannot be executed' if there else 'command not found'}", err=True
        )
        raise SystemExit(NOT_EXECUTABLE if there else NOT_FOUND)


def run_child(
    command: tuple[str, ...], env: dict[str, str], config: dict[str, Any], keep: Callable[[bytes], Any]
) -> int:
    """Start the command and the monitor, and relay input, output and signals; return the exit code.

    If a signal ended the command, this process ends itself by the same signal. `keep` receives the command's
    output.
    """
    from gpuwatch.cli.run.child import start_child  # noqa: PLC0415 - loaded when it is needed
    from gpuwatch.cli.run.monitor_process import MonitorProcess  # noqa: PLC0415 - loaded when it is needed
    from gpuwatch.cli.run.relay import Relay  # noqa: PLC0415 - loaded when it is needed
    from gpuwatch.cli.run.title import TerminalTitle, title_stream  # noqa: PLC0415 - loaded when it is needed

    child = start_child(command, env)
    monitor = MonitorProcess(config)
    monitor.tell({"pid": child.pid})
    title = TerminalTitle(title_stream())
    kept = KeptConsole(keep)

    def on_output(data: bytes) -> None:
        kept.add(data)
        title.passed(data)

    def on_idle() -> None:
        monitor.poll()
        title.wanted = monitor.title
        title.show()

    relay = Relay(child, on_output, on_idle)
    relay.run()
    title.restore()
    text = finish(child, monitor, relay.interrupted_by, config)
    if sys.stderr.isatty():
        own_line = "\n" * title.is_in_line
        click.echo(f"{own_line}gpuwatch: {text}; {shown_path(config['folder'])}", err=True)
    return leave_as(child)


def shown_path(folder: str) -> str:
    """Return the folder's path for the terminal: relative to the working directory if that is shorter."""
    with contextlib.suppress(OSError, ValueError):
        return plain(min(os.path.relpath(folder), folder, key=len))
    return plain(folder)


class KeptConsole:
    """Writes a copy of the command's output.

    A write error or `MAX_CONSOLE_BYTES` ends the copy, never the run.
    """

    def __init__(self, write: Callable[[bytes], Any]) -> None:
        self._write: Callable[[bytes], Any] | None = write
        self._size = 0

    def add(self, data: bytes) -> None:
        """Append output to the copy, until a write fails or the copy has `MAX_CONSOLE_BYTES`."""
        self._size += len(data)
        if self._write is None or self._size > MAX_CONSOLE_BYTES:
            return
        try:
            self._write(data)
        except OSError:
            self._write = None


def finish(child: RunChild, monitor: Any, interrupted_by: int | None, config: dict[str, Any]) -> str:  # noqa: ANN401 - a `MonitorProcess`, which is imported late
    """Have the monitor write the summary; return the text for the last line.

    If the monitor has died, this process writes a summary without samples. SIGINT, SIGTERM and SIGHUP are
    ignored from here on.
    """
    from gpuwatch.cli.run.end_state import end_state, write_bare_summary  # noqa: PLC0415 - loaded when it is needed

    end = end_state(child.status, interrupted_by) | {"duration_s": child.duration_s}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the summary is written first
    if monitor.finish(end):
        return plain(str(monitor.final["text"]))
    with contextlib.suppress(OSError):
        write_bare_summary(config, end)
    return f"{end['status']}; the monitor ended early, the summary is incomplete"


def leave_as(child: RunChild) -> int:
    """Return the command's exit code; if a signal ended it, end this process by that signal."""
    status = child.status or 0
    if not os.WIFSIGNALED(status):
        return os.WEXITSTATUS(status)
    number = os.WTERMSIG(status)
    sys.stdout.flush()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    return 128 + number
