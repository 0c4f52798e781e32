"""`gpuwatch dmon`: prints one line per GPU and sample, for the whole cluster."""

# ruff: noqa: PLC0415  a command imports only what it uses, so that --help and usage errors stay fast

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from gpuwatch.cli.shared import exit_codes
from gpuwatch.cli.shared.output import writing
from gpuwatch.cli.shared.signals import leaving_politely
from gpuwatch.cli.shared.source import Source, source_options

if TYPE_CHECKING:
    from gpuwatch.report.dmon.stream import DmonStream
    from gpuwatch.session import Session
    from gpuwatch.session.replay_session import ReplaySession

POLL_S = 0.1


@click.command()
@source_options
@click.option(
    "-s",
    "--select",
    "groups",
    default="puc",
    show_default=True,
    help="Groups of columns: p power and temperature, u utilization, c clocks, v violations, m memory, "
    "e ECC errors and PCIe replays, t PCIe throughput.",
)
@click.option("-c", "--count", type=click.IntRange(1), help="Exit after this many lines per GPU.")
@click.option(
    "-o", "--options", "stamps", default="", help="Prefix every line with the date (D), the time (T) or both."
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print GPU samples, training steps, jobs and alerts as they come, one JSON object per line.",
)
def dmon(source: Source, groups: str, count: int | None, stamps: str, as_json: bool) -> int:
    """Print one line per GPU and new sample: the node's name, then the columns of `nvidia-smi dmon`.

    A dash means unknown. A GPU that does not answer is printed as `stale`, `stuck` or `lost` instead of
    its last values; node events are printed as comments (`# node: ...`). -d sets the seconds between
    samples.

    Exit status: 0 every GPU has answered, 1 a node, a driver or a GPU did not, an Xid or another
    event was printed, or a part of a recording cannot be read, 2 wrong usage.
    """
    from gpuwatch.diagnose.model.text import unreadable_text
    from gpuwatch.report.dmon.columns import GroupError, Layout, columns
    from gpuwatch.report.dmon.stream import DmonStream

    if set(stamps) - set("DT"):
        raise click.BadParameter(f"{stamps!r} is not D, T or DT.", param_hint="-o")
    try:
        chosen = columns(groups)
    except GroupError as error:
        raise click.BadParameter(f"{error}.", param_hint="-s") from error
    layout = Layout(chosen, max(len("node"), *(len(node.name) for node in source.plan.nodes)), stamps)
    stream = DmonStream(layout, count)
    if source.recording is not None:
        replay = source.replay(source.recording, from_start=True)
        opened: Session = replay
        batches = replayed(replay, stream)
    else:
        opened = source.session()
        batches = follow(opened, stream)
    with leaving_politely(), opened as session:
        ended = copy_out(as_json_lines(batches, session) if as_json else batches)
        bad = stream.unanswered(session.fleet) or stream.trouble(session.fleet, session.clock.monotonic())
        if ended and session.damaged:
            click.echo(f"gpuwatch: {unreadable_text(session.damaged)}", err=True)
            bad = True
        return exit_codes.UNHEALTHY if ended and bad else exit_codes.HEALTHY


def follow(session: Session, stream: DmonStream) -> Iterator[list[str]]:
    """Poll a started session; yield the new lines of each poll, possibly none, until the stream is done."""
    while True:
        session.poll()
        now = session.clock.monotonic()
        yield stream.lines(session.fleet, now, session.clock.wall())
        if stream.done(session.fleet, now):
            return
        time.sleep(POLL_S)


def replayed(session: ReplaySession, stream: DmonStream) -> Iterator[list[str]]:
    """Yield the lines of a recording, from the requested time to its end, without waiting."""
    while True:
        now = session.clock.monotonic()
        yield stream.lines(session.fleet, now, session.clock.wall())
        if stream.done(session.fleet, now) or session.player.at_end:
            return
        session.step(POLL_S)


def as_json_lines(batches: Iterator[list[str]], session: Session) -> Iterator[list[str]]:
    """Yield the new rows of each batch as JSON lines. The batches set the pace; their text is dropped."""
    from gpuwatch.report.dmon.json_stream import JsonStream

    stream = JsonStream()
    for _ in batches:
        rows = stream.rows(session.fleet, session.book, session.clock.monotonic(), session.clock.wall())
        yield [json.dumps(row, allow_nan=False) for row in rows]


def copy_out(batches: Iterator[list[str]]) -> bool:
    """Print the lines of all batches.

    Return True at their end, False if stdout was closed by its reader before.
    """
    with writing():
        for lines in batches:
            if lines:
                sys.stdout.write("\n".join(lines) + "\n")
                sys.stdout.flush()
        return True
    return False
