"""`gpuwatch once`: prints the content of the fleet screen once, as text, JSON or CSV."""

# ruff: noqa: PLC0415  a command imports only what it uses, so that --help and usage errors stay fast

from __future__ import annotations

import contextlib
import sys
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import click
from msgspec.structs import replace

from gpuwatch.cli.shared import exit_codes
from gpuwatch.cli.shared.output import writing
from gpuwatch.cli.shared.signals import leaving_politely
from gpuwatch.cli.shared.source import Source, source_options
from gpuwatch.plain import plain

if TYPE_CHECKING:
    from gpuwatch.fleet.fleet import Fleet
    from gpuwatch.report.once.first_report import Progress
    from gpuwatch.report.once.problems.active import Standing
    from gpuwatch.report.once.problems.health import PlacedCondition


@click.command()
@source_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON; see docs/json.md.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, one row per GPU.")
@click.option("--text", "as_text", is_flag=True, help="Print text (default).")
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(0, 3600),
    show_default="3 and two intervals",
    help="Maximum seconds to wait until every node has answered and its logs are searched.",
)
def once(source: Source, as_json: bool, as_csv: bool, as_text: bool, wait_s: float | None) -> int:
    """Print one report of all nodes, GPUs and processes, and what failed first if a job failed.

    Exit status: 0 everything expected has answered and is healthy, and there is no incident or alert;
    1 otherwise, also for a stalled job, a `--log` without a file, or damaged parts of a recording; 2 wrong
    usage.
    """
    named = [form for form, chosen in (("json", as_json), ("csv", as_csv), ("text", as_text)) if chosen]
    if len(named) > 1:
        raise click.UsageError(f"--{' and --'.join(named)} are mutually exclusive.")
    return report_once(source, named[0] if named else "text", wait_s)


def report_once(source: Source, form: str = "text", wait_s: float | None = None) -> int:
    """Connect, wait for the first complete samples, print the report to stdout; return the exit status.

    `form` is "text", "json" or "csv"; `wait_s` are the maximum seconds to wait, None for `default_wait_s`,
    and more while a driver is starting or ranks of a job that may hang are queried.
    """
    from gpuwatch.report.once.first_report import COLD_S, HANG_S, wait_for_first_report
    from gpuwatch.report.once.problems.active import healthy, standing
    from gpuwatch.report.once.problems.health import placed_conditions

    cold_s, hang_s = (COLD_S, HANG_S) if wait_s is None else (0.0, 0.0)
    wait_s = default_wait_s(source.plan.interval_s) if wait_s is None else wait_s
    with leaving_politely(), source.session() as session:
        with waiting_line() as progress:
            wait_for_first_report(session, wait_s, progress, cold_s=cold_s, hang_s=hang_s)
        fleet, now, unix = session.fleet, session.clock.monotonic(), session.clock.wall()
        found, stands = placed_conditions(fleet, now), standing(session.book, fleet, now, unix)
        stands = replace(stands, damaged=session.damaged)
        print_as(form, fleet, found, now, unix, stands)
        if trouble := session.take_trouble():
            click.echo(f"gpuwatch: {plain(trouble)}", err=True)
    well = healthy(fleet, found, now, stands)
    return exit_codes.HEALTHY if well else exit_codes.UNHEALTHY


def default_wait_s(interval_s: float) -> float:
    """Return the seconds for connecting and two samples, which rates need: 5 s at an interval of 1 s."""
    return 3.0 + 2 * interval_s


def print_as(
    form: str, fleet: Fleet, found: list[PlacedCondition], now: float, unix: float, stands: Standing
) -> None:
    """Print the report to stdout in the format `form` ("text", "json" or "csv")."""
    with writing():
        if form == "text":
            from gpuwatch.report.once.json_output import fleet_facts
            from gpuwatch.report.once.tables import print_report
            from gpuwatch.report.once.text import report
            from gpuwatch.report.output.masked import masked_line

            print_report(report(fleet, found, now, unix, stands), sys.stdout)
            sys.stdout.write(masked_line(fleet_facts(fleet, found, now, unix, stands)["secrets_masked"]))
        else:
            from gpuwatch.report.once.csv_output import to_csv
            from gpuwatch.report.once.json_output import fleet_facts, to_json

            facts = fleet_facts(fleet, found, now, unix, stands)
            sys.stdout.write(f"{to_json(facts)}\n" if form == "json" else to_csv(facts))


def waiting_line() -> AbstractContextManager[Progress]:
    """Return a context that gives a function to show on stderr which nodes are waited for.

    Silent without a terminal.
    """
    from gpuwatch.report.once.first_report import silent

    if not sys.stderr.isatty():
        return contextlib.nullcontext(silent)
    from gpuwatch.report.once import spinner as progress

    return progress.waiting_line()
