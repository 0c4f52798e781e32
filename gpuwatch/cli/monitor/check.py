"""`gpuwatch check`: prints the checklist of a job that is about to start, or does not work as it should."""

# ruff: noqa: PLC0415  a command imports only what it uses, so that --help and usage errors stay fast

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuwatch.cli.monitor.once import default_wait_s, waiting_line
from gpuwatch.cli.probe.follow import follow
from gpuwatch.cli.shared import exit_codes
from gpuwatch.cli.shared.output import writing
from gpuwatch.cli.shared.signals import leaving_politely
from gpuwatch.cli.shared.source import Refusal, Source, source_options

if TYPE_CHECKING:
    from gpuwatch.diagnose.preflight.reference_node import Profile
    from gpuwatch.hosts.plan import Plan
    from gpuwatch.probe.results import Results
    from gpuwatch.session import Session


MAX_PROFILE_BYTES = 1 << 20


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
@click.option(
    "--against",
    metavar="NODE|FILE",
    help="Only compare all nodes with this node, or with a file of --save-profile; needs no job.",
)
@click.option(
    "--save-profile",
    "save_to",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the settings of the node of --against to a file.",
)
def check(
    source: Source, as_json: bool, wait_s: float | None, deep: bool, against: str | None, save_to: Path | None
) -> int:
    """Run the preflight checks of a job: ranks, network, versions, limits, settings, GPUs.

    Every check prints PASS, WARN, FAIL or SKIP, the reason, and what to do. Nothing is changed on the
    nodes. `--deep` loads the GPUs and the network for some seconds, and is skipped if any GPU is busy.

    `--against` compares driver, firmware, VBIOS, kernel, clocks, limits and settings instead: one
    line a setting of which a node differs.

    Exit status: 0 no check failed (warnings and skipped checks allowed), 1 a check failed, 2 wrong
    usage, 130 Ctrl-C during the probe (the list is printed).
    """
    from gpuwatch.diagnose.preflight.check import unreadable
    from gpuwatch.diagnose.preflight.checklist import checklist
    from gpuwatch.diagnose.preflight.links import links
    from gpuwatch.report.once.first_report import wait_for_first_report
    from gpuwatch.report.preflight import print_checklist, to_json
    from gpuwatch.session.rank_settings import ask_all

    if (against is None and save_to is not None) or (against is not None and deep):
        raise click.UsageError("--save-profile needs --against; --against and --deep exclude each other.")
    if deep and source.recording is not None:
        raise Refusal([f"{source.recording}: a recording; --deep needs live nodes"])
    wait_s = default_wait_s(source.plan.interval_s) + 5.0 if wait_s is None else wait_s
    if against is not None and source.recording is not None:
        raise click.UsageError(
            "--against needs live nodes: a recording does not contain the settings of machines."
        )
    saved = None if against is None else read_reference(source.plan, against)
    with leaving_politely(), source.session() as session:
        with waiting_line() as progress:
            wait_for_first_report(session, wait_s, progress)
        if against is not None:
            return compare(session, against, saved, save_to, as_json)
        reported = ask_all(session)
        book = session.book
        alerts, clock, recorded = book.alerts.values(), session.clock, session.recorded
        checks = checklist(session.fleet, reported, alerts, book.incidents, clock, recorded=recorded)
        checks += unreadable(session.damaged)
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


def read_reference(plan: Plan, against: str) -> Profile | None:
    """Return the profile saved in the file `against`; None if `against` names a node of the plan.

    Raises:
        Refusal: It names neither a node nor a readable file of `--save-profile`.
    """
    from gpuwatch.report.preflight import profile_of
    from gpuwatch.whole_file import read_bounded

    if against in {node.name for node in plan.nodes}:
        return None
    try:
        return profile_of(read_bounded(Path(against), MAX_PROFILE_BYTES))
    except FileNotFoundError:
        raise Refusal([f"--against {against}: neither a node of the source nor a file"]) from None
    except (OSError, ValueError) as error:
        raise Refusal([f"--against {against}: {error}; --save-profile writes such a file"]) from error


def compare(
    session: Session, against: str, saved: Profile | None, save_to: Path | None, as_json: bool
) -> int:
    """Print how the nodes' settings differ from the reference; return the exit status.

    Args:
        session: Started, with the nodes' first reports.
        against: Name of the reference node, or of the file with `saved`.
        saved: The reference profile from a file; None: that of the node `against`.
        save_to: A file to write the reference profile to.
        as_json: Print JSON instead of text.

    Raises:
        Refusal: The reference node does not answer, or the profile cannot be written.
    """
    from gpuwatch.diagnose.preflight.checklist import answers, why
    from gpuwatch.diagnose.preflight.reference_node import compared, profile, silent_nodes, unanswered
    from gpuwatch.report.preflight import print_checklist, profiles_json
    from gpuwatch.session.rank_settings import ask_all_systems
    from gpuwatch.whole_file import write_whole

    systems = ask_all_systems(session)
    now = session.clock.monotonic()
    nodes = session.fleet.nodes.values()
    profiles = {
        node.name: profile(node, systems[node.name].values if node.name in systems else None)
        for node in nodes
        if answers(node, now)
    }
    silent = {node.name: why(node, now) for node in nodes if not answers(node, now)}
    reference = profiles.get(against) if saved is None else saved
    if reference is None:
        raise Refusal([f"--against {against}: {silent[against]}"])
    if save_to is not None:
        try:
            write_whole(save_to, json.dumps({"profile": reference}, indent=1, sort_keys=True).encode())
        except OSError as error:
            raise Refusal([f"--save-profile {save_to}: {error.strerror}"]) from error
    checks = silent_nodes(silent) + unanswered(name for name in profiles if name not in systems)
    checks += compared(profiles, reference, against)
    with writing():
        if as_json:
            click.echo(profiles_json(checks, reference, profiles))
        else:
            print_checklist(checks, sys.stdout)
    failed = any(one.status == "FAIL" for one in checks)
    return exit_codes.UNHEALTHY if failed else exit_codes.HEALTHY


def probed(session: Session) -> tuple[Results, bool]:
    """Run a quick probe over the session's links; return its results, and True if Ctrl-C ended it.

    If any GPU is busy, the probe refuses to run; the results contain the reason.
    """
    from gpuwatch.diagnose.preflight.links import QUICK

    with contextlib.closing(session.probe(QUICK)) as conductor:
        stopped = follow(conductor, lambda: conductor.results.phase != "connecting")
        if not stopped:
            conductor.confirm()
            stopped = follow(conductor, lambda: conductor.results.over)
    return conductor.results, stopped
