"""Prints how well dialects read labelled progress lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

from rich.table import Table
from rich.text import Text

from gpuwatch.plain import plain
from gpuwatch.report.output.console import STYLES
from gpuwatch.report.rules.rules import print_part, score_style
from gpuwatch.rules.scoring.score_progress import FIELDS, FieldScore, Labelled, ProgressScore, same


def print_fields(score: ProgressScore, file: IO[str]) -> None:
    """Write a line per dialect with its counts of fields, then recall and precision."""
    table = Table(box=None, pad_edge=False)
    table.add_column("dialect", no_wrap=True)
    for heading in ("lines", "expected", "given", "right"):
        table.add_column(heading, justify="right")
    for name, each in sorted(score.dialects.items()):
        style = STYLES[
            score_style(is_right=each.right == each.expected == each.given, is_part_right=each.right > 0)
        ]
        cells = (each.lines, each.expected, each.given, each.right)
        table.add_row(Text(plain(name), style), *(str(cell) for cell in cells))
    print_part(file, table)
    total = score.total
    print_part(file, Text(f"field recall     {_of(total.recall, total, total.expected)}"))
    print_part(file, Text(f"field precision  {_of(total.precision, total, total.given)}"))


def print_wrong(score: ProgressScore, file: IO[str]) -> None:
    """Write every labelled line of which a field is missing, wrong or extra."""
    for line, given in score.failures:
        print_part(file, Text(f"{plain(line.id)}: {plain(line.dialect)}; {', '.join(_faults(line, given))}"))
        print_part(file, Text(f"    {plain(line.line[:300])}", "dim"))


def _faults(line: Labelled, given: dict[str, Any]) -> Iterator[str]:
    for name in FIELDS:
        expected = line.expect.get(name)
        if name in line.ignore and name not in line.absent:
            continue
        if name not in given and expected is not None:
            yield f"MISSED {name} {expected}"
        elif name in given and expected is None:
            yield f"MADE UP {name} {given[name]}"
        elif name in given and expected is not None and not same(name, given[name], expected):
            yield f"WRONG {name} {given[name]}, not {expected}"


def _of(share: float | None, total: FieldScore, whole: int) -> str:
    value = "-" if share is None else f"{share:.3f}"
    return f"{value}  ({total.right} of {whole})"
