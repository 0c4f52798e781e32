"""`gpuwatch check`: the checklist before a job starts, or when it does not do what it should."""

# ruff: noqa: PLC0415  a command line imports only what it comes to, so that --help and mistakes are answered at once

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

import click

from gpuwatch.cli.monitor.once import default_wait_s, waiting_line
from gpuwatch.cli.probe.follow import follow
from gpuwatch.cli.shared import exit_codes
from gpuwatch.cli.shared.output import writing
from gpuwatch.cli.shared.signals import leaving_politely
from gpuwatch.cli.shared.source import Source, source_options

if TYPE_CHECKING:
    from gpuwatch.probe.results import Results
    from gpuwatch.session import Session


@click.command()
@source_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON; see docs/json.md.")
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(0, 3600),
    show_default="8 and two intervals",
    help="Maximum seconds to wait for the nodes to report.",
)
@click.option("--deep", is_flag=True, help="Also run a quick link probe if no GPU is in use (about 20 s).")
def check(source: Source, as_json: bool, wait_s: float | None, deep: bool) -> int:
    """Run the preflight checks of a job: ranks, network, versions, limits, settings, GPUs.

    Every check prints PASS, WARN, FAIL or SKIP, the reason, and what to do. Nothing is changed on the
    nodes. `--deep` loads the GPUs and the network for some seconds, and is skipped if any GPU is busy.

    Exit status: 0 no check failed (warnings and skipped checks allowed), 1 a check failed, 2 wrong
    usage, 130 Ctrl-C during the probe (the list is printed).
    """
    from gpuwatch.diagnose.preflight.checklist import checklist
    from gpuwatch.diagnose.preflight.links import links
    from gpuwatch.report.once.first_report import wait_for_first_report
    from gpuwatch.report.preflight import print_checklist, to_json
    from gpuwatch.session.rank_settings import ask_all

    wait_s = default_wait_s(source.plan.interval_s) + 5.0 if wait_s is None else wait_s
    with leaving_politely(), source.session() as session:
        with waiting_line() as progress:
            wait_for_first_report(session, wait_s, progress)
        reported = ask_all(session)
        book = session.book
        now, wall = session.clock.monotonic(), session.clock.wall()
        checks = checklist(session.fleet, reported, book.alerts.values(), book.incidents, now, wall)
        stopped = False
        if deep:
            results, stopped = probed(session)
            checks += links(results)
    with writing():
        if as_json:
            click.echo(to_json(checks))
        else:
            print_checklist(checks, sys.stdout)
    if stopped:
        click.echo("gpuwatch: interrupted; the probe did not finish", err=True)
        return exit_codes.INTERRUPTED
    failed = any(one.status == "FAIL" for one in checks)
    return exit_codes.UNHEALTHY if failed else exit_codes.HEALTHY


def probed(session: Session) -> tuple[Results, bool]:
    """A quick probe over a session's links, and whether Ctrl-C ended it; it refuses busy GPUs by itself."""
    from gpuwatch.diagnose.preflight.links import QUICK

    with contextlib.closing(session.probe(QUICK)) as conductor:
        stopped = follow(conductor, lambda: conductor.results.phase != "connecting")
        if not stopped:
            conductor.confirm()
            stopped = follow(conductor, lambda: conductor.results.over)
    return conductor.results, stopped
