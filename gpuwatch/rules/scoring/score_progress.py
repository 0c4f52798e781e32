"""The accuracy of dialects on labelled progress lines: which fields they find, and which are wrong."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from msgspec import Struct

from gpuwatch.agent.logs.matching.ruleset import RuleSet
from gpuwatch.agent.logs.progress.quantities import QUANTITIES
from gpuwatch.agent.logs.scanning.scanner import Scanner
from gpuwatch.rules.model.time_limit import scanned
from gpuwatch.rules.scoring.labelled_file import LabelledFile
from gpuwatch.rules.scoring.score import ARRIVAL_TIME, new_scanner

FIELDS = tuple(dict.fromkeys(name for name, _, _ in QUANTITIES.values()))
EXACT = frozenset({"step", "total_steps", "skipped", "rank"})
"""Fields that are counts, compared exactly."""
TOLERANCE = 1e-3
"""Relative tolerance for measured numbers: labels and lines round differently."""


class Labelled(Struct, frozen=True):
    """A line of a log with the correct values, labelled by hand."""

    id: str
    dialect: str
    line: str
    expect: Mapping[str, float | str]
    ignore: frozenset[str] = frozenset()
    """Fields that cannot be decided from the line alone."""
    absent: frozenset[str] = frozenset()
    """Fields of a labelled line that must not be found although the line seems to have them."""


@dataclass
class FieldScore:
    """The counts of fields of some lines: expected, found, and found with the right number."""

    lines: int = 0
    expected: int = 0
    given: int = 0
    right: int = 0

    @property
    def recall(self) -> float | None:
        """Return the fraction of the expected fields found with the right number; None: none was expected."""
        return self.right / self.expected if self.expected else None

    @property
    def precision(self) -> float | None:
        """Return the fraction of the found fields whose number is the expected one; None: none was found."""
        return self.right / self.given if self.given else None

    def facts(self) -> dict[str, Any]:
        """Return the counts, the recall and the precision as data of the JSON output."""
        return {
            "lines": self.lines,
            "expected": self.expected,
            "given": self.given,
            "right": self.right,
            "field_recall": _rounded(self.recall),
            "field_precision": _rounded(self.precision),
        }


@dataclass
class ProgressScore:
    """The field scores of all lines and of each dialect, and the lines that were read wrongly."""

    total: FieldScore = field(default_factory=FieldScore)
    dialects: dict[str, FieldScore] = field(default_factory=dict)
    failures: list[tuple[Labelled, dict[str, Any]]] = field(default_factory=list)
    """Lines with a missing, wrong or additional field, and what was read."""

    def facts(self) -> dict[str, Any]:
        """Return the scores of all lines and of each dialect as data of the JSON output."""
        dialects = {name: each.facts() for name, each in sorted(self.dialects.items())}
        return {**self.total.facts(), "dialects": dialects}


def read_labelled(file: LabelledFile) -> list[Labelled]:
    """Return the labelled lines of a file.

    Raises:
        ValueError: A line is no labelled line; the message has its number.
    """
    return [_labelled(file, number, text) for number, text in file.rows()]


def _labelled(file: LabelledFile, number: int, text: str) -> Labelled:
    try:
        row = json.loads(text)
        return Labelled(
            str(row.get("id", number)),
            str(row.get("dialect", "unnamed")),
            str(row["line"]),
            dict(row["expect"] or {}),
            frozenset(row.get("ignore") or ()),
            frozenset(row.get("absent") or ()),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"{file.name}:{number}: not a labelled progress line ({type(error).__name__}: {error}); "
            "a line is a JSON object with 'line' and 'expect'"
        ) from None


def read_line(ruleset: RuleSet, line: str) -> dict[str, Any]:
    """Return the values that an agent reads in a file with only this line, by field; empty if none.

    Also `phases_s` (timers), `rank` and `request_s`, if the line has them. If two writers are on the line,
    the first counts.
    """

    def scan(scanner: Scanner) -> list[dict[str, Any]]:
        scanner.feed(line.encode("utf-8", "replace") + b"\n", 0, ARRIVAL_TIME)
        scanner.end()
        return scanner.progress()

    found: dict[str, Any] = {}
    offset = -1
    for frame in scanned(ruleset, "excerpt.log", partial(new_scanner, ruleset), scan) or []:
        reported = {
            **frame["fields"],
            **{name: frame[name] for name in ("rank", "phases_s") if name in frame},
        }
        if frame.get("latencies_s"):
            reported["request_s"] = frame["latencies_s"][0]
        found = {**reported, **found} if frame["offset"] == offset else {**found, **reported}
        offset = frame["offset"]
    return found


def score_progress(ruleset: RuleSet, lines: Iterable[Labelled]) -> ProgressScore:
    """Return the field scores: each field in `expect` counts as expected, each field read as found.

    Fields that a line lists in `ignore` are left out, except that those in `absent` count if they are found.
    """
    score = ProgressScore()
    for line in lines:
        given = read_line(ruleset, line.line)
        counted = {
            name for name in FIELDS if name in given and (name not in line.ignore or name in line.absent)
        }
        expected = {name for name in line.expect if name not in line.ignore}
        right = {name for name in counted & expected if same(name, given[name], line.expect[name])}
        for each in (score.total, score.dialects.setdefault(line.dialect, FieldScore())):
            each.lines += 1
            each.expected += len(expected)
            each.given += len(counted)
            each.right += len(right)
        if right != expected or right != counted:
            score.failures.append((line, given))
    return score


def same(name: str, given: object, expected: object) -> bool:
    """Return True if two values of a field are the same number, or are equal if one is not a number.

    Numbers are compared within `TOLERANCE`, except fields in `EXACT`.
    """
    try:
        one, other = float(str(given)), float(str(expected))
    except ValueError:
        return given == expected
    if math.isnan(one) or math.isnan(other):
        return math.isnan(one) and math.isnan(other)
    return one == other if name in EXACT else math.isclose(one, other, rel_tol=TOLERANCE)


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 4)
