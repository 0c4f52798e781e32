"""`gpuwatch hosts`: checks the nodes of a hosts file, or prints the JSON Schema of hosts files."""

# ruff: noqa: PLC0415  a command imports only what it uses, so that --help and usage errors stay fast

from __future__ import annotations

import json
import sys

import click

from gpuwatch.cli.shared import exit_codes
from gpuwatch.cli.shared.output import writing
from gpuwatch.cli.shared.signals import leaving_politely
from gpuwatch.cli.shared.source import Source, source_options

DEFAULT_TIMEOUT_S = 20.0


@click.group()
def hosts() -> None:
    """Check a hosts file, or print its JSON Schema."""


@hosts.command(short_help="Report what works on each node, and what does not.")
@source_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per node.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0.1, 3600),
    default=DEFAULT_TIMEOUT_S,
    show_default=True,
    help="Maximum seconds to wait for all nodes.",
)
def check(source: Source, as_json: bool, timeout_s: float) -> int:
    """Connect to every node once and report what works, what does not, and why.

    Per node: the login and how the host key was verified, Python, driver and GPUs, the clock, and what
    cannot be read.

    Exit status: 0 all nodes passed, 1 a node failed, 2 wrong usage or an error in the hosts file.
    """
    from gpuwatch.report.hosts_check import check_fleet, print_checks, to_json

    with leaving_politely(), source.session() as session:
        checks = check_fleet(session, timeout_s, source.options.ssh_config)
    with writing():
        if as_json:
            click.echo(to_json(checks))
        else:
            print_checks(checks, sys.stdout)
    return exit_codes.HEALTHY if all(each.ok for each in checks) else exit_codes.UNHEALTHY


@hosts.command()
def schema() -> int:
    """Print the JSON Schema of a hosts file, for editors."""
    from gpuwatch.hosts.keys import json_schema

    with writing():
        click.echo(json.dumps(json_schema(), indent=2))
    return exit_codes.HEALTHY
