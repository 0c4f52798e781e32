"""Rules, and the scores of rule packs, as text and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

import msgspec
from msgspec import NODEFAULT
from msgspec.structs import fields
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpuwatch.blocks.model import Style
from gpuwatch.number_text import plural
from gpuwatch.plain import plain, plain_json
from gpuwatch.report.output.console import STYLES
from gpuwatch.rules.model.dialect import Dialect
from gpuwatch.rules.model.rule import Rule
from gpuwatch.rules.scoring.score import ALARMING, BENIGN, Score, ScoredExcerpt


def rules_json(rules: Sequence[Rule | Dialect]) -> str:
    """Return a JSON array of the rules with the keys of their packs that are set: also a pack."""
    return plain_json(json.dumps([_set_keys(rule) for rule in rules], indent=2, ensure_ascii=False))


def _set_keys(rule: msgspec.Struct) -> dict[str, Any]:
    """Return `role`, `kind` and the fields that differ from their defaults, of the structs in it too."""
    found = {}
    for field in fields(rule):
        value = getattr(rule, field.name)
        default = field.default_factory() if field.default_factory is not NODEFAULT else field.default
        if value != default or field.name in {"role", "kind"}:
            found[field.encode_name] = _plain_value(value)
    return found


def _plain_value(value: object) -> Any:  # noqa: ANN401 - JSON is what it is
    if isinstance(value, msgspec.Struct):
        return _set_keys(value)
    if isinstance(value, tuple):
        return [_plain_value(each) for each in value]
    return msgspec.to_builtins(value)


def print_rules(rules: Sequence[Rule | Dialect], file: IO[str]) -> None:
    """Write a table with a rule per line, then the number of rules."""
    table = Table(box=None, pad_edge=False)
    for heading in ("severity", "role", "id", "title"):
        table.add_column(heading, overflow="fold", no_wrap=heading != "title")
    for rule in rules:
        if isinstance(rule, Dialect):
            table.add_row(Text("-", "dim"), rule.kind, rule.id, Text(rule.title))
            continue
        table.add_row(Text(rule.severity, STYLES[rule.severity]), rule.role, rule.id, Text(rule.title))
    print_part(file, table)
    print_part(file, Text(f"{plural(len(rules), 'rule')}", "dim"))


def print_rule(rule: Rule | Dialect, pack: str, file: IO[str]) -> None:
    """Write everything about one rule."""
    if isinstance(rule, Dialect):
        _print_dialect(rule, pack, file)
        return
    parts: list[Text] = [
        Text.assemble((rule.id, "bold"), "  ", (rule.severity, STYLES[rule.severity]), f"  {rule.role}"),
        Text(rule.title, "bold"),
        Text(),
        Text(rule.explain.strip()),
        Text(),
        *(Text(f"{number}. {step.strip()}") for number, step in enumerate(rule.do, 1)),
        Text(),
    ]
    for heading, texts in (
        ("match", rule.match),
        ("general", () if rule.general is None else rule.general.match),
        ("unless", rule.unless if rule.general is None else (*rule.unless, *rule.general.unless)),
        ("after", (f"{rule.after.match}  (at most {rule.after.lines} lines above)",) if rule.after else ()),
        ("until", (rule.until,) if rule.until else ()),
        ("raised", (rule.raised,) if rule.raised else ()),
        ("flood", (f"{rule.flood.count} in {rule.flood.seconds:g} s",) if rule.flood else ()),
        ("recovery", (rule.recovery.match,) if rule.recovery else ()),
        ("kinds", (", ".join(rule.kinds),) if rule.kinds else ()),
        ("explains", (", ".join(rule.explains),) if rule.explains else ()),
        ("links", rule.links),
        ("example", rule.examples[:2]),
        ("pack", (pack,)),
    ):
        parts.extend(_under(heading, texts))
    for part in parts:
        print_part(file, part)


def _print_dialect(dialect: Dialect, pack: str, file: IO[str]) -> None:
    words = "\n".join(f"{word} -> {quantity}" for word, quantity in dialect.words.items())
    parts = [Text.assemble((dialect.id, "bold"), f"  {dialect.kind}"), Text(dialect.title, "bold"), Text()]
    for heading, texts in (
        ("match", dialect.match),
        ("unless", dialect.unless),
        ("words", (words,) if words else ()),
        ("like", (dialect.like,) if dialect.like != dialect.id else ()),
        ("example", [example.line for example in dialect.examples[:2]]),
        ("links", dialect.links),
        ("sources", dialect.sources),
        ("pack", (pack,)),
    ):
        parts.extend(_under(heading, texts))
    for part in parts:
        print_part(file, part)


def _under(heading: str, texts: Iterable[str]) -> Iterator[Text]:
    return (Text.assemble((f"{heading:<9}", "dim"), plain_block(text)) for text in texts)


def plain_block(text: str) -> str:
    """Return a text of several lines, sanitized, indented under its heading."""
    return "\n         ".join(plain(line) for line in text.rstrip().split("\n"))


def print_score(score: Score, file: IO[str]) -> None:
    """Write how many excerpts of each class there are, were detected and rightly classed, then the totals."""
    facts = score.facts()
    table = Table(box=None, pad_edge=False)
    table.add_column("class", no_wrap=True)
    for heading in ("excerpts", "detected", "right class"):
        table.add_column(heading, justify="right")
    for name, each in facts["classes"].items():
        style = STYLES[
            score_style(
                is_right=each["class_correct"] == each["positives"], is_part_right=each["detected"] > 0
            )
        ]
        table.add_row(
            Text(plain(name), style),
            str(each["positives"]),
            str(each["detected"]),
            str(each["class_correct"]),
        )
    print_part(file, table)
    for line in (
        f"recall           {_of(facts, 'recall', 'detected', 'positives')}",
        f"class accuracy   {_of(facts, 'class_accuracy', 'class_correct', 'positives')}",
        f"false alarms     {_of(facts, 'false_alarm_rate', 'false_alarms', 'negatives')}",
    ):
        print_part(file, Text(line))


def print_failures(score: Score, file: IO[str]) -> None:
    """Write every missed or misclassified excerpt and every false alarm, with the findings in it."""
    for judged in score.judged:
        if judged.excerpt.label == BENIGN:
            alarms = [f for f in judged.findings if f["severity"] in ALARMING]
            if alarms:
                _failure("FALSE ALARM", judged, alarms, file)
        elif not judged.class_correct:
            _failure("OTHER CLASS" if judged.detected else "MISSED", judged, judged.findings, file)


def _failure(what: str, judged: ScoredExcerpt, findings: Iterable[dict[str, Any]], file: IO[str]) -> None:
    excerpt = judged.excerpt
    found = ", ".join(f"{f['rule']} ({f['severity']})" for f in findings) or "nothing"
    print_part(
        file,
        Text(
            f"{what} {plain(excerpt.id)}: {plain(excerpt.label)} ({plain(excerpt.severity)}); found {found}"
        ),
    )
    for index, line in enumerate(excerpt.lines):
        mark = ">" if index == excerpt.key_line else " "
        print_part(file, Text(f"  {mark} {plain(line[:300])}", "dim"))


def _of(facts: dict[str, Any], share: str, part: str, whole: str) -> str:
    value = "-" if facts[share] is None else f"{facts[share]:.3f}"
    return f"{value}  ({facts[part]} of {facts[whole]})"


def score_style(*, is_right: bool, is_part_right: bool) -> Style:
    """Return the style of a row of a score."""
    return "plain" if is_right else "warning" if is_part_right else "error"


def print_part(file: IO[str], what: Text | Table) -> None:
    """Print a line or a table in the width that it needs."""
    Console(file=file, soft_wrap=True, highlight=False, markup=False, emoji=False).print(what)
