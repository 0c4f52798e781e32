"""`gpuwatch evidence`: one zip file with everything about an incident or a job."""

# ruff: noqa: PLC0415  a command imports only what it uses, so that --help and usage errors stay fast

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpuwatch.cli.shared import completed, exit_codes
from gpuwatch.cli.shared.output import OutputError
from gpuwatch.cli.shared.signals import leaving_politely
from gpuwatch.cli.shared.source import Refusal, read_source
from gpuwatch.cli.shared.source_flags import (
    LOGIN,
    NODES,
    PROMETHEUS,
    WATCHING,
    Decorator,
    SourceOptions,
    at_option,
)
from gpuwatch.plain import plain

if TYPE_CHECKING:
    from gpuwatch.diagnose.hang.combined_verdict import HangReport
    from gpuwatch.report.evidence.run import BundleContents, EvidenceRun
    from gpuwatch.session import Session
    from gpuwatch.session.evidence.artifact_listing import ArtifactChoice
    from gpuwatch.session.evidence.subject import EvidenceSubject

POLL_S = 0.02
OTHER_SOURCES = ("local", "demo", "slurm", "prometheus")
"""Options that name the source in place of the argument SOURCE."""
HANG_S = 20.0
"""Maximum seconds for querying the ranks' stacks."""
DEMO_S = 60.0
"""Seconds to wait for an incident of the demo, whose GPU falls off the bus after 45 s."""


def _node_options(command: Callable[..., int]) -> Callable[..., int]:
    options: tuple[Decorator, ...] = (*NODES[1:], *PROMETHEUS, *WATCHING, at_option, *LOGIN)
    for decorate in reversed(options):
        command = decorate(command)
    return command


@click.command()
@click.argument("words", nargs=-1, metavar="[SOURCE] [INCIDENT]", shell_complete=completed.files)
@_node_options
@click.option(
    "-o",
    "--output",
    "out",
    required=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The zip file to write.",
)
@click.option("--job", metavar="JOB", help="Bundle this job with all of its incidents.")
@click.option(
    "--logs",
    "extent",
    type=click.Choice(["around", "all"]),
    default="around",
    show_default=True,
    help="Lines around the evidence, or all lines of the job's logs.",
)
@click.option(
    "--artifacts",
    is_flag=True,
    help="Also TensorBoard events, profiler traces, telemetry and configuration beside the job's logs.",
)
@click.option("--no-stacks", is_flag=True, help="Do not sample the stacks of ranks that still run.")
@click.option(
    "--wait",
    "wait_s",
    type=click.FloatRange(0, 3600),
    show_default="3 and two intervals",
    help="Maximum seconds to wait until every node has answered, and for an incident.",
)
def evidence(
    words: tuple[str, ...],
    out: Path,
    job: str | None,
    extent: str,
    artifacts: bool,
    no_stacks: bool,
    wait_s: float | None,
    **given: Any,  # noqa: ANN401 - the source options, as click parsed them
) -> int:
    """Write one zip file about an incident or a job, to hand over: begin with its index.md.

    It holds the log lines around the evidence (or whole logs), stacks, NCCL RAS and flight-recorder
    answers, GPU values around the time, versions, environment and configuration of the job, a summary
    for a chat or ticket, and the facts as JSON. Secrets of known forms are masked.

    INCIDENT is a number as in `gpuwatch once`, or an id; default: the newest active one. SOURCE may also
    be a folder with the logs of a job that has ended.

    Ctrl-C leaves what was fetched in FILE.part; the same command continues with it.

    Exit status: 0 written, 1 there is no incident, 2 wrong usage, 74 FILE cannot be written, 130 Ctrl-C.
    """
    named, incident = split_words(words, with_source=not any(map(given.get, OTHER_SOURCES)))
    if incident is not None and job is not None:
        raise click.UsageError("INCIDENT and --job are mutually exclusive.")
    if not out.absolute().parent.is_dir():
        raise Refusal([f"{out}: no such folder: {out.absolute().parent}"])
    if out.is_dir():
        raise Refusal([f"{out} is a folder; -o takes the name of the zip file"])
    with leaving_politely():
        if named is not None and Path(named).is_dir():
            from gpuwatch.cli.analysis.evidence_folder import bundle_folder

            if job is not None:
                raise click.UsageError("--job is for a live cluster; a folder holds one job.")
            return bundle_folder(Path(named), out, incident, whole_logs=extent == "all", artifacts=artifacts)
        given["named"] = named
        choice = BundleChoice(out, incident, job, extent, wait_s, stacks=not no_stacks, artifacts=artifacts)
        return bundle_session(given, choice)


def split_words(words: tuple[str, ...], *, with_source: bool) -> tuple[str | None, str | None]:
    """Return (source, incident) of the positional arguments; None for one that is not given.

    `with_source`: False if an option names the source, so that the only argument is the incident.

    Raises:
        click.UsageError: There are too many arguments.
    """
    if len(words) > 1 + with_source:
        raise click.UsageError(f"unexpected argument: {words[1 + with_source]!r}")
    if not with_source:
        return None, words[0] if words else None
    return words[0] if words else None, words[1] if len(words) > 1 else None


@dataclass(frozen=True)
class BundleChoice:
    """The options of the command that define the bundle."""

    out: Path
    """The zip file to write."""
    incident: str | None
    """Number or id of an incident; None: the newest active one."""
    job: str | None
    """A job to bundle instead of an incident."""
    extent: str
    """"around" for lines around the evidence, "all" for whole logs."""
    wait_s: float | None
    """Maximum seconds to wait for nodes and an incident; None for the defaults."""
    stacks: bool
    """True to sample the stacks of running ranks."""
    artifacts: bool
    """True to fetch the artifacts beside the job's logs."""


def bundle_session(given: dict[str, Any], choice: BundleChoice) -> int:
    """Connect to the source, wait for the first reports, write the bundle; return the exit status.

    It is `UNHEALTHY`, without a bundle, if there is no incident and no job is given.

    Args:
        given: Values of the source options.
        choice: The other options.

    Raises:
        Refusal: There is no such job or incident.
        OutputError: The file cannot be written.
    """
    from gpuwatch.cli.monitor.once import default_wait_s, waiting_line
    from gpuwatch.report.evidence.run import NO_ARTIFACTS, BundleContents, recording_cut
    from gpuwatch.report.once.first_report import wait_for_first_report

    source, began = read_source(SourceOptions(**given)), time.monotonic()
    session = source.session()
    if not session.recorded:
        session.keep_stream()
    with session:
        with waiting_line() as progress:
            wait = default_wait_s(source.plan.interval_s) if choice.wait_s is None else choice.wait_s
            wait_for_first_report(session, wait, progress)
        if choice.job is None and choice.incident is None:
            longest_s = DEMO_S if given["demo"] and choice.wait_s is None else choice.wait_s or 0.0
            wait_for_incident(session, longest_s, began)
        subject = chosen_subject(session, choice.incident, choice.job)
        if subject is None:
            click.echo("gpuwatch: no incident; --job JOB writes a bundle about a job", err=True)
            return exit_codes.UNHEALTHY
        hang = sampled(session, subject) if choice.stacks else None
        chosen = listed(session, subject) if choice.artifacts else NO_ARTIFACTS
        contents = BundleContents(choice.extent == "all", chosen, lambda: hang, recording_cut(session))
        follow(session, _evidence_run(session, subject, choice.out, contents), choice.out)
    return exit_codes.HEALTHY


def _evidence_run(
    session: Session, subject: EvidenceSubject, out: Path, contents: BundleContents
) -> EvidenceRun:
    """Return a run that writes the bundle.

    Raises:
        OutputError: `out` cannot be written.
    """
    from gpuwatch.report.evidence.run import EvidenceRun

    try:
        return EvidenceRun(session, subject, out.absolute(), contents)
    except OSError as error:
        raise unwritable(out, error) from error


def wait_for_incident(session: Session, longest_s: float, began: float) -> None:
    """Poll until the session has an incident, at most until `longest_s` after `began` (monotonic seconds)."""
    with words() as report:
        while not session.book.incidents and (left_s := began + longest_s - time.monotonic()) > 0:
            session.poll()
            report(f"no incident yet; waiting at most {left_s:.0f} s")
            time.sleep(POLL_S)


def chosen_subject(session: Session, incident: str | None, job: str | None) -> EvidenceSubject | None:
    """Return the job or incident that the bundle is about; None if there is no incident.

    Raises:
        Refusal: There is no job or incident of the given name.
    """
    from gpuwatch.session.evidence.subject import UnknownSubjectError, chosen_incident, of_incident, of_job

    book, fleet = session.book, session.fleet
    try:
        if job is not None:
            return of_job(job, book.incidents, fleet, time.time())
        chosen = chosen_incident(book.incidents, incident)
    except UnknownSubjectError as error:
        raise Refusal([plain(str(error))]) from error
    return None if chosen is None else of_incident(chosen, fleet)


def sampled(session: Session, subject: EvidenceSubject) -> HangReport | None:
    """Query the subject's nodes for their ranks' stacks; return the result, None if no rank runs there."""
    from gpuwatch.session.hang.hang_query import HangQuery

    nodes = [session.fleet.nodes[name] for name in subject.nodes]
    if not any(process.rank is not None for node in nodes for process in node.processes):
        return None
    query = HangQuery(session, nodes=subject.nodes, longest_s=HANG_S)
    with words() as report:
        while not query.over:
            session.poll()
            query.update()
            report(query.progress or f"querying {query.asked} ranks for their stacks")
            time.sleep(POLL_S)
    return query.hang_report(session.fleet)


def listed(session: Session, subject: EvidenceSubject) -> ArtifactChoice:
    """Return the artifacts that the subject's nodes hold beside the logs of its job."""
    from gpuwatch.session.evidence.artifact_listing import ArtifactListing

    listing = ArtifactListing(session, subject)
    with words() as report:
        while not listing.over:
            session.poll()
            report("listing the artifacts of the job")
            time.sleep(POLL_S)
    return listing.choice()


def follow(session: Session, run: EvidenceRun, out: Path) -> None:
    """Poll until the bundle is complete, and print its progress, what it lacks and its size.

    Raises:
        OutputError: The bundle cannot be written; what was fetched stays in `OUT.part`.
    """
    from gpuwatch.cli.analysis.evidence_folder import missing_text
    from gpuwatch.number_text import file_size, plural

    size = f", {file_size(run.bytes)}" if run.bytes else ""
    before = f"; {file_size(run.resumed_bytes)} are here from an earlier run" if run.resumed_bytes else ""
    logs, nodes = len(run.fetch.logs), len({log.part.node for log in run.fetch.logs})
    about = f"{run.subject.name}: {plural(logs, 'log')} of {plural(nodes, 'node')}"
    if run.artifacts.files:
        about += f", {plural(len(run.artifacts.files), 'artifact')}"
    click.echo(plain(f"{about}{size}{before}"), err=True)
    whole = False
    try:
        with bar(run) as report:
            while not run.over:
                session.poll()
                run.update()
                report()
                time.sleep(POLL_S if run.written_bytes == 0 else 0)
        whole = True
    except OSError as error:
        raise unwritable(out, error) from error
    finally:
        run.close(keep=not whole)
        if not whole:
            click.echo(plain(f"gpuwatch: not finished; the same command continues with {out}.part"), err=True)
    click.echo(missing_text(run.troubles), err=True, nl=False)
    click.echo(plain(f"{out}: {file_size(out.stat().st_size)}, begin with its index.md"))


def unwritable(out: Path, error: OSError) -> OutputError:
    """Return the exception to raise because `out` cannot be written."""
    return OutputError(f"cannot write {out}: {error.strerror or error}")


def words() -> AbstractContextManager[Callable[[str], None]]:
    """Return a context that gives a function to show progress texts on stderr. Silent without a terminal."""
    from gpuwatch.cli.analysis.stacks import reporting

    return reporting()


def bar(run: EvidenceRun) -> AbstractContextManager[Callable[[], None]]:
    """Return a context that gives a function to update a progress bar on stderr.

    Silent without a terminal.
    """
    import sys

    if not sys.stderr.isatty():
        return contextlib.nullcontext(lambda: None)
    from gpuwatch.report.evidence.progress import evidence_bar

    return evidence_bar(run)
