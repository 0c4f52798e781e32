"""`gpuwatch rules`: lists the rules, explains one, and tests packs on labelled excerpts."""

# ruff: noqa: PLC0415  a command imports only what it uses, so that --help and usage errors stay fast

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuwatch.cli.shared import exit_codes
from gpuwatch.cli.shared.output import writing

if TYPE_CHECKING:
    from gpuwatch.rules.load import Packs

rule_packs_option = click.option(
    "--rules",
    "files",
    multiple=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Additional rule pack; may be repeated.",
)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def rules() -> None:
    """List, explain and test the rules that gpuwatch applies to logs."""


@rules.command("list", short_help="List the rules and dialects, or those that contain WORD.")
@click.argument("word", required=False)
@rule_packs_option
@AS_JSON
def list_rules(word: str | None, files: tuple[Path, ...], as_json: bool) -> int:
    """List all rules and dialects, or those whose id, title, severity or role contains WORD.

    Exit status: 0, or 2 for an error in a pack.
    """
    from gpuwatch.report.rules.rules import print_rules, rules_json

    packs = _packs(files)
    chosen = [rule for rule in packs.all if word is None or word.lower() in _stated_by(rule)]
    with writing():
        if as_json:
            click.echo(rules_json(chosen))
        else:
            print_rules(chosen, sys.stdout)
    return exit_codes.HEALTHY


@rules.command(short_help="Show what a rule means and what to do.")
@click.argument("rule_id", metavar="ID")
@rule_packs_option
@AS_JSON
def show(rule_id: str, files: tuple[Path, ...], as_json: bool) -> int:
    """Show one rule: what it matches, what it means, what to do.

    Exit status: 0, or 2 if there is no such rule.
    """
    from gpuwatch.hosts.validation.errors import did_you_mean
    from gpuwatch.report.rules.rules import print_rule, rules_json

    packs = _packs(files)
    rule = next((each for each in packs.all if each.id == rule_id), None)
    if rule is None:
        guess = did_you_mean(rule_id, packs.packs)
        raise click.UsageError(f"no such rule: '{rule_id}'{guess}; see gpuwatch rules list [WORD]")
    with writing():
        if as_json:
            click.echo(rules_json([rule]))
        else:
            print_rule(rule, packs.packs[rule.id], sys.stdout)
    return exit_codes.HEALTHY


@rules.command(short_help="Score packs against labelled excerpts or progress lines.")
@click.argument("excerpts", nargs=-1, required=True, metavar="FILE.jsonl...", type=click.Path(path_type=Path))
@rule_packs_option
@AS_JSON
@click.option("--failures", "-v", "--verbose", is_flag=True, help="Also print missed lines and false alarms.")
def test(excerpts: tuple[Path, ...], files: tuple[Path, ...], as_json: bool, failures: bool) -> int:
    """Run the packs over labelled excerpts or progress lines, as an agent reads them from a file.

    A line of a FILE is a JSON object with `class` ("benign": must raise no alarm), `severity` and `lines`:
    recall, class accuracy and false alarms are printed per class and in total. Or one with `line` and
    `expect` (field -> number): then how many fields were found and how many were right, per dialect and
    in total.

    Exit status: 0, or 2 for a file or pack that cannot be used.
    """
    from gpuwatch.agent.logs.matching.ruleset import RuleSet
    from gpuwatch.plain import plain
    from gpuwatch.report.rules import progress_score as progress_report
    from gpuwatch.report.rules import rules as report
    from gpuwatch.rules.compiling.keep import compiled_or_kept
    from gpuwatch.rules.scoring.labelled_file import LabelledFile
    from gpuwatch.rules.scoring.score import read_excerpts, score
    from gpuwatch.rules.scoring.score_progress import read_labelled, score_progress

    packs = _packs(files)
    try:
        labelled = [LabelledFile.read(file) for file in excerpts]
        read = [excerpt for file in labelled if not file.is_progress for excerpt in read_excerpts(file)]
        lines = [line for file in labelled if file.is_progress for line in read_labelled(file)]
    except OSError as error:
        raise click.UsageError(f"{error.filename}: {error.strerror}") from None
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    ruleset = RuleSet(compiled_or_kept(packs.all))
    result = score(ruleset, read) if read or not lines else None
    fields = score_progress(ruleset, lines) if lines else None
    for name, why in ruleset.suspended.items():
        click.echo(plain(f"rule {name} was suspended: {why}"), err=True)
    with writing():
        if as_json:
            facts = (result.facts() if result else {}) | (fields.facts() if fields else {})
            click.echo(json.dumps(facts, indent=2))
        elif result is not None:
            report.print_score(result, sys.stdout)
        if fields is not None and not as_json:
            progress_report.print_fields(fields, sys.stdout)
        missed = sys.stderr if as_json else sys.stdout
        if failures and result is not None:
            report.print_failures(result, missed)
        if failures and fields is not None:
            progress_report.print_wrong(fields, missed)
    return exit_codes.HEALTHY


def _stated_by(rule: object) -> str:
    return " ".join(
        str(getattr(rule, name, "progress")) for name in ("id", "title", "severity", "role")
    ).lower()


def _packs(files: tuple[Path, ...]) -> Packs:
    from gpuwatch.rules.load import load_packs
    from gpuwatch.rules.model.errors import RulesError

    try:
        return load_packs(files)
    except RulesError as error:
        raise click.UsageError("\n".join(error.problems)) from None
