"""`gpuwatch explain`: prints the entries of the playbook, the rules and the metrics for an id or words."""

# ruff: noqa: PLC0415  a command imports only what it uses, so that --help and usage errors stay fast

from __future__ import annotations

import sys
from pathlib import Path

import click

from gpuwatch.cli.config.rules import rule_packs_option
from gpuwatch.cli.shared import completed, exit_codes
from gpuwatch.cli.shared.output import writing

MATCHES_SHOWN_IN_FULL = 1
"""Number of matches of a search at which the match itself is shown in full, instead of a list."""


@click.command()
@click.argument("words", nargs=-1, metavar="[TOPIC|RULE|METRIC|WORDS]...", shell_complete=completed.explained)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@rule_packs_option
def explain(words: tuple[str, ...], as_json: bool, files: tuple[Path, ...]) -> int:
    """Explain a topic, a rule, an alert or a metric: what it means, what to do, what shows it.

    Without an argument the topics are listed. Words search all of it: gpuwatch explain link down.

    Exit status: 0, or 1 if nothing matches.
    """
    from gpuwatch.diagnose.explanations.explanation import all_explanations
    from gpuwatch.diagnose.explanations.search import Matches, find
    from gpuwatch.report.explain.text import explanation_json, print_explanation, print_matches
    from gpuwatch.rules.load import load_packs
    from gpuwatch.rules.model.errors import RulesError
    from gpuwatch.rules.model.rule import Rule

    try:
        packs = load_packs(files)
    except RulesError as error:
        raise click.UsageError("\n".join(error.problems)) from None
    known = all_explanations({each.id: each for each in packs.all if isinstance(each, Rule)})
    query = " ".join(words)
    matches = find(query, known)
    if not words:
        matches = Matches(None, tuple(each for each in known if each.kind == "topic"))
    elif matches.exact is None and len(matches.others) == MATCHES_SHOWN_IN_FULL:
        matches = Matches(matches.others[0], ())
    with writing():
        if as_json:
            sys.stdout.write(f"{explanation_json(matches)}\n")
        elif matches.exact is not None:
            print_explanation(matches.exact, matches.others, sys.stdout)
        elif matches.others:
            print_matches(matches.others, f"Matches for {query!r}" if words else "Topics", sys.stdout)
        else:
            click.echo(f"nothing matches {query!r}; gpuwatch explain lists the topics", err=True)
    return exit_codes.HEALTHY if matches.exact or matches.others else exit_codes.UNHEALTHY
