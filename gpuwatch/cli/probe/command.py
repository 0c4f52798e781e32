"""`gpuwatch probe`: measures the links between the ranks of a job, and finds the slow node or link."""

# ruff: noqa: PLC0415  a command imports only what it uses, so that --help and usage errors stay fast

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from gpuwatch.cli.probe.follow import follow
from gpuwatch.cli.probe.options import request_options
from gpuwatch.cli.probe.outputs import Outputs, is_demo, keep, put_data, read_baseline
from gpuwatch.cli.shared import exit_codes
from gpuwatch.cli.shared.output import writing
from gpuwatch.cli.shared.signals import leaving_politely
from gpuwatch.cli.shared.source import Refusal, Source, node_options

if TYPE_CHECKING:
    from gpuwatch.blocks.model import Line
    from gpuwatch.probe.judging.checks.baseline import Baseline
    from gpuwatch.probe.orchestration.conductor import Conductor
    from gpuwatch.probe.probe_request import ProbeRequest
    from gpuwatch.probe.results import Results


@click.command()
@node_options
@request_options
@click.option("--save-baseline", metavar="FILE", help="Save the results as a baseline for later probes.")
@click.option(
    "--baseline",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Compare with this baseline; slower results are alerts.",
)
@click.option("--json", "json_to", metavar="FILE", help="Write JSON (- is stdout); see docs/json.md.")
@click.option("--csv", "csv_to", metavar="FILE", help="Write CSV (- is stdout), one row per measurement.")
@click.option("--yes", is_flag=True, help="Run without confirmation.")
def probe(
    source: Source,
    request: ProbeRequest,
    save_baseline: str | None,
    baseline: Path | None,
    json_to: str | None,
    csv_to: str | None,
    yes: bool,
) -> int:
    """Measure the links between GPUs and find the slow node, NIC, direction or link.

    Collectives and pairs of ranks run over NCCL on the GPUs; without GPUs they run over gloo (CPU ranks and
    TCP), which is not the training fabric. Nothing is installed on the nodes; they need a Python with torch.
    The probe prints how long it will take, refuses to run while GPUs are in use, and asks for confirmation.

    Exit status: 0 no slow component found, 1 a bad node, NIC, link or GPU, or the probe failed, 2 wrong
    usage, refused or not confirmed (nothing was measured), 130 Ctrl-C (results so far are printed).
    """
    if request.pairs == "none" and not request.collectives and not request.gpu_checks:
        raise click.UsageError("nothing to measure: enable collectives, pairs or GPU checks.")
    outputs = Outputs(json_to, csv_to, save_baseline)
    outputs.check()
    before = None if baseline is None else read_baseline(baseline)
    with leaving_politely(), contextlib.closing(open_source(source, request, before)) as conductor:
        conductor.start()
        return conduct(conductor, source, outputs, yes=yes)


def open_source(source: Source, request: ProbeRequest, baseline: Baseline | None) -> Conductor:
    """Return the probe of the source, not started. Passphrases are asked for here.

    Raises:
        Refusal: A link or an option cannot be used.
    """
    from gpuwatch.link.stream.carrier import CarrierError
    from gpuwatch.probe.orchestration.opening import open_probe

    try:
        return open_probe(source.plan, source.options, source.ask, request, baseline)
    except CarrierError as error:
        raise Refusal([str(error)]) from error


def conduct(conductor: Conductor, source: Source, outputs: Outputs, *, yes: bool) -> int:
    """Run a started probe from the preflight to the verdict, and write its outputs; return the exit status.

    `yes`: do not ask before it measures.

    Raises:
        Refusal: The probe was refused or not confirmed.
        OutputError: An output cannot be written.
    """
    results = conductor.results
    stopped = follow(conductor, lambda: results.phase == "asking" or results.over)
    if not stopped:
        announce(results, source, outputs, asking=not yes)
        if results.phase == "asking":
            try:
                confirm(results, yes=yes)
            except Refusal:
                put_data(results, source, outputs)
                raise
            conductor.confirm()
            stopped = follow(conductor, lambda: results.over)
    finish(results, source, outputs)
    if stopped:
        click.echo("gpuwatch: interrupted; showing the results so far", err=True)
        return exit_codes.INTERRUPTED
    if results.phase == "refused":
        raise Refusal(refusal(results))
    return exit_status(results)


# --------------------------------------------------------------------------- before


def announce(results: Results, source: Source, outputs: Outputs, *, asking: bool) -> None:
    """Print the nodes' inventory and the plan on stdout, unless JSON or CSV goes there.

    With `asking`, also on stderr if stdout would not show them above the question.
    """
    from gpuwatch.report.probe.preflight import inventory_lines, plan_lines
    from gpuwatch.report.probe.text import title_line

    title = title_line(results, source.plan.source, demo=is_demo(source))
    lines = [title, *inventory_lines(results), *plan_lines(results)]
    if outputs.text:
        write(lines, sys.stdout)
    if asking and not (outputs.text and (sys.stdout.isatty() or not sys.stderr.isatty())):
        write(lines, sys.stderr)


def confirm(results: Results, *, yes: bool) -> None:
    """Ask for confirmation on the terminal; with `yes` do nothing.

    Raises:
        Refusal: There is no terminal to ask on, or the answer is no.
    """
    from gpuwatch.report.probe.preflight import question

    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Refusal([f"{question(results)} There is no terminal to confirm this on: repeat with --yes."])
    if not click.confirm(question(results), err=True):
        raise Refusal(["nothing was measured"])


def refusal(results: Results) -> list[str]:
    """Return the lines that state why nothing was measured, and the remedy."""
    from gpuwatch.report.probe.preflight import refused_lines

    return [line.text for line in refused_lines(results)]


# --------------------------------------------------------------------------- after


def finish(results: Results, source: Source, outputs: Outputs) -> None:
    """Print the report to stdout and write the requested files, as far as there are results.

    The report is left out if JSON or CSV goes to stdout, or if the probe was refused. The baseline is written
    only if the probe is done.
    """
    if results.phase != "refused" and outputs.text:
        from gpuwatch.report.probe.text import print_results

        with writing():
            sys.stdout.write("\n")
            print_results(results, sys.stdout)
    put_data(results, source, outputs)
    if outputs.baseline and results.phase == "done":
        keep(results, outputs.baseline)


def write(lines: list[Line], out: TextIO) -> None:
    """Print report lines to a stream."""
    from gpuwatch.report.probe.text import print_lines

    with writing():
        print_lines(lines, out)


def exit_status(results: Results) -> int:
    """Return UNHEALTHY if a node, NIC, link or GPU is bad or the probe did not end normally, else HEALTHY.

    Noisy results are healthy.
    """
    verdict = results.verdict
    if results.phase != "done" or (verdict is not None and verdict.status in ("bad", "failed")):
        return exit_codes.UNHEALTHY
    return exit_codes.HEALTHY
