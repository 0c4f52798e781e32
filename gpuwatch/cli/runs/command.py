"""`gpuwatch runs`: lists, shows and compares training sessions."""

# ruff: noqa: PLC0415  a command imports only what it uses, so that --help and usage errors stay fast

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpuwatch.cli.shared import completed, exit_codes
from gpuwatch.cli.shared.output import writing
from gpuwatch.cli.shared.source import Refusal
from gpuwatch.plain import plain

if TYPE_CHECKING:
    from gpuwatch.blocks.model import Line
    from gpuwatch.runs.sessions.find import FoundSessions
    from gpuwatch.runs.sessions.model.session import TrainingSession

NO_SESSION = "no training session in {logs}; name a folder, or --logs DIR (gpuwatch run makes sessions)"


@click.group()
def runs() -> None:
    """List, compare and report training sessions.

    A session is a folder logs/training_DATE_TIME, as `gpuwatch run` and gpuwatch.telemetry write it.
    Without DIR or ID a command takes all sessions below --logs.
    """


def session_options(*, as_json: bool = True) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return a decorator that adds the arguments which select sessions, and `--json` if `as_json`."""
    decorators = [
        click.argument("names", nargs=-1, metavar="[DIR or ID]...", shell_complete=completed.files),
        click.option(
            "--logs",
            default="logs",
            show_default=True,
            type=click.Path(path_type=Path),
            help="Folder that holds the sessions.",
        ),
    ]
    if as_json:
        decorators.append(
            click.option("--json", "as_json", is_flag=True, help="Print JSON; see docs/json.md.")
        )

    def decorated(command: Callable[..., int]) -> Callable[..., int]:
        for decorate in reversed(decorators):
            command = decorate(command)
        return command

    return decorated


@runs.command("list", short_help="List sessions with steps, speed and final loss.")
@session_options()
def list_sessions(names: tuple[str, ...], logs: Path, as_json: bool) -> int:
    """List sessions: mode, GPUs, steps, duration, steps/s, final loss.

    Exit status: 0 done; 1 a folder below DIR cannot be read; 2 no session was found.
    """
    from gpuwatch.report.sessions.comparison import list_lines, session_facts

    found = find(names, logs)
    if as_json:
        unreadable = [{"name": plain(each.name), "why": plain(each.why)} for each in found.unreadable]
        facts = [session_facts(each) for each in found.sessions]
        print_json({"sessions": facts, "unreadable": unreadable})
    elif found.sessions:
        print_lines(list_lines(found.sessions))
    return exit_codes.UNHEALTHY if found.unreadable else exit_codes.HEALTHY


@runs.command()
@session_options()
def show(names: tuple[str, ...], logs: Path, as_json: bool) -> int:
    """Print all details of sessions."""
    from gpuwatch.blocks.model import Line
    from gpuwatch.report.sessions.details import detail_facts, detail_lines

    sessions = with_curves(read_sessions(names, logs))
    if as_json:
        return print_json({"sessions": [detail_facts(each) for each in sessions]})
    lines: list[Line] = []
    for session in sessions:
        lines += [Line("")] if lines else []
        lines += detail_lines(session)
    return print_lines(lines)


@runs.command(short_help="Compare sessions on one GPU with those on several.")
@session_options()
def compare(names: tuple[str, ...], logs: Path, as_json: bool) -> int:
    """Compare sessions on one GPU with sessions on several: speed-up and efficiency."""
    from gpuwatch.report.sessions.comparison import comparison_facts, comparison_lines
    from gpuwatch.runs.comparison.compare import compare as compare_sessions

    found = compare_sessions(read_sessions(names, logs))
    return print_json(comparison_facts(found)) if as_json else print_lines(comparison_lines(found))


@runs.command(short_help="Show communication by operation.")
@session_options()
def communication(names: tuple[str, ...], logs: Path, as_json: bool) -> int:
    """Show communication by operation, and whether several GPUs really train together.

    Exit status: 1 if a session with several GPUs is doubtful, or was forced to one GPU.
    """
    from gpuwatch.blocks.model import Line
    from gpuwatch.report.sessions.communication import communication_facts, communication_lines
    from gpuwatch.runs.comparison.communication import communication_report, is_bad_news

    sessions = read_sessions(names, logs)
    reports = [communication_report(each, sessions) for each in sessions]
    if as_json:
        print_json({"sessions": [communication_facts(each) for each in reports]})
    else:
        lines: list[Line] = []
        for report in reports:
            lines += [Line("")] if lines else []
            lines += communication_lines(report)
        print_lines(lines)
    return exit_codes.UNHEALTHY if any(map(is_bad_news, reports)) else exit_codes.HEALTHY


def read_sessions(names: tuple[str, ...], logs: Path) -> list[TrainingSession]:
    """Return the selected sessions; print on stderr which names have none or cannot be read.

    Raises:
        Refusal: There is no session.
    """
    found = find(names, logs)
    if not found.sessions:
        raise Refusal([NO_SESSION.format(logs=plain(str(logs)))])
    return found.sessions


def with_curves(sessions: list[TrainingSession]) -> list[TrainingSession]:
    """Add to the sessions the steps that only their consoles have; return them."""
    from gpuwatch.runs.sessions.sources.console_curves import take_console_curves

    for session in sessions:
        take_console_curves(session)
    return sessions


def find(names: tuple[str, ...], logs: Path) -> FoundSessions:
    """Find the selected sessions; print on stderr which names have none or cannot be read.

    Raises:
        Refusal: There is no session, and either a name was given or no folder was unreadable.
    """
    from gpuwatch.runs.sessions.find import find_sessions

    found = find_sessions(names, logs)
    problems = [*found.unknown, *(f"{each.name}: {each.why}" for each in found.unreadable)]
    if not found.sessions and (names or not problems):
        raise Refusal([plain(text) for text in problems] or [NO_SESSION.format(logs=plain(str(logs)))])
    for text in problems:
        click.echo(f"gpuwatch: {plain(text)}", err=True)
    return found


def print_json(facts: dict[str, Any]) -> int:
    """Print one JSON document on stdout; return HEALTHY."""
    with writing():
        sys.stdout.write(json.dumps(facts, indent=1, allow_nan=False) + "\n")
    return exit_codes.HEALTHY


def print_lines(lines: Iterable[Line]) -> int:
    """Print report lines on stdout; return HEALTHY."""
    from gpuwatch.report.output.console import console_on, show

    with writing(), console_on(sys.stdout) as console:
        for line in lines:
            show(console, line)
    return exit_codes.HEALTHY
