"""`gpuwatch incidents`: lists earlier incidents from the history on this machine."""

# ruff: noqa: PLC0415  a command imports only what it uses, so that --help and usage errors stay fast

from __future__ import annotations

import re
import sys
import time
from typing import TYPE_CHECKING

import click

from gpuwatch.cli.shared import exit_codes
from gpuwatch.cli.shared.output import writing
from gpuwatch.cli.shared.source import Refusal
from gpuwatch.whole_number import SECONDS_OF

if TYPE_CHECKING:
    from gpuwatch.session.history.seen_incident import SeenIncident

SPAN = re.compile(r"([0-9]{1,5})([mhdw])")


@click.command()
@click.option(
    "--since", default="14d", show_default=True, metavar="SPAN", help="How far back: 90m, 12h, 14d, 8w."
)
@click.option("--node", metavar="NAME", help="Only incidents of this node.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; see docs/json.md.")
def incidents(since: str, node: str | None, as_json: bool) -> int:
    """List the incidents that the screens, `once` and `record` have seen, the newest first.

    They are kept on this machine, per node and GPU, in the state folder. Those of the demo are not kept.

    Exit status: 0 done (also where there is none), 2 wrong usage, or the history cannot be read.
    """
    from gpuwatch.number_text import plural
    from gpuwatch.own_folders import state_folder
    from gpuwatch.report.incidents.history import history_json, print_history
    from gpuwatch.session.history.incident_file import NAME, HistoryError, IncidentFile

    now = time.time()
    try:
        file = IncidentFile(state_folder() / NAME)
        kept = file.read(now - span_s(since))
    except HistoryError as error:
        raise Refusal([str(error)]) from error
    if file.damaged:
        click.echo(f"gpuwatch: {plural(file.damaged, 'row')} of {file.path} cannot be read", err=True)
    found: list[SeenIncident] = [each for each in kept if node in (None, each.node)]
    with writing():
        if as_json:
            sys.stdout.write(f"{history_json(found, now)}\n")
        else:
            print_history(found, since, sys.stdout)
    return exit_codes.HEALTHY


def span_s(text: str) -> float:
    """Return the seconds of a span such as `90m`, `12h`, `14d` or `8w`.

    Raises:
        click.BadParameter: The text is not a span.
    """
    found = SPAN.fullmatch(text)
    if found is None:
        raise click.BadParameter(f"--since must be a number with m, h, d or w, such as 14d, not {text!r}")
    return int(found[1]) * SECONDS_OF[found[2]]
