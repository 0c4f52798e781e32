"""The accuracy of packs on labelled excerpts: detected, correct class, false alarms."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

from msgspec import Struct

from gpuwatch.agent.logs.matching.prefilter import Prefilter
from gpuwatch.agent.logs.matching.ruleset import RuleSet
from gpuwatch.agent.logs.scanning.scanner import Scanner
from gpuwatch.rules.model.time_limit import scanned
from gpuwatch.rules.scoring.labelled_file import LabelledFile

BENIGN = "benign"
ALARMING = frozenset({"warning", "error", "critical"})
ARRIVAL_TIME = 1_750_000_000.0
"""The arrival time of the lines of an excerpt (unix seconds); used only for lines without their own time."""


class Excerpt(Struct, frozen=True):
    """Some lines of a log, labelled by hand with their class and severity."""

    id: str
    label: str
    """The class, or `BENIGN`."""
    severity: str
    lines: tuple[str, ...]
    key_line: int | None = None
    rank: int | None = None


class ScoredExcerpt(Struct, frozen=True):
    """An excerpt, the findings in it, and whether it was detected and given the right class."""

    excerpt: Excerpt
    findings: tuple[dict[str, Any], ...]
    detected: bool
    class_correct: bool


@dataclass
class ClassScore:
    """The counts for one class: its excerpts, those detected, and those given the right class."""

    positives: int = 0
    detected: int = 0
    class_correct: int = 0


@dataclass
class Score:
    """The counts over all excerpts (detected, right class, false alarms), and the same by class."""

    positives: int = 0
    negatives: int = 0
    detected: int = 0
    class_correct: int = 0
    false_alarms: int = 0
    classes: dict[str, ClassScore] = field(default_factory=dict)
    judged: list[ScoredExcerpt] = field(default_factory=list)

    def facts(self) -> dict[str, Any]:
        """Return the score as data of the JSON output; shares are 0 to 1, None without any excerpt."""
        return {
            "positives": self.positives,
            "negatives": self.negatives,
            "detected": self.detected,
            "class_correct": self.class_correct,
            "false_alarms": self.false_alarms,
            "recall": _share(self.detected, self.positives),
            "class_accuracy": _share(self.class_correct, self.positives),
            "false_alarm_rate": _share(self.false_alarms, self.negatives),
            "classes": {
                name: {
                    "positives": each.positives,
                    "detected": each.detected,
                    "class_correct": each.class_correct,
                    "recall": _share(each.detected, each.positives),
                    "class_accuracy": _share(each.class_correct, each.positives),
                }
                for name, each in sorted(self.classes.items())
            },
        }


def read_excerpts(file: LabelledFile) -> list[Excerpt]:
    """Return the excerpts of a file.

    Raises:
        ValueError: A line is no excerpt; the message has its number.
    """
    return [_excerpt(file, number, line) for number, line in file.rows()]


def _excerpt(file: LabelledFile, number: int, line: str) -> Excerpt:
    try:
        row = json.loads(line)
        lines = tuple(str(each) for each in row["lines"])
        return Excerpt(
            str(row.get("id", number)), str(row["class"]), str(row.get("severity", "error")), lines,
            row.get("key_line"), row.get("rank"),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"{file.name}:{number}: not a labelled excerpt ({type(error).__name__}: {error}); "
            "a line is a JSON object with at least 'class' and 'lines'"
        ) from None


@lru_cache(maxsize=4)
def prefilter_of(ruleset: RuleSet) -> Prefilter:
    """Return the prefilter for all excerpts, as a node has one for all files; cached per rule set."""
    return Prefilter(ruleset)


def new_scanner(ruleset: RuleSet) -> Scanner:
    """Return a new scanner for one excerpt."""
    return Scanner(ruleset, "excerpt.log", itertools.count(1).__next__, prefilter=prefilter_of(ruleset))


def scan_excerpt(ruleset: RuleSet, lines: Sequence[str]) -> list[dict[str, Any]]:
    """Return an agent's findings in a file with only these lines; empty if the scan takes too long."""
    data = "\n".join(lines).encode("utf-8", "replace") + b"\n"

    def scan(scanner: Scanner) -> list[dict[str, Any]]:
        newest = {
            finding["id"]: finding for finding in [*scanner.feed(data, 0, ARRIVAL_TIME), *scanner.end()]
        }
        return list(newest.values())

    return scanned(ruleset, "excerpt.log", partial(new_scanner, ruleset), scan) or []


def score(ruleset: RuleSet, excerpts: Iterable[Excerpt]) -> Score:
    """Return the counts of detected and correctly classified excerpts and of false alarms.

    An excerpt is detected if it has a finding of severity warning or higher (any finding if it is labelled
    info), and class-correct if one of those has its class. A benign one with a finding of severity warning or
    higher is a false alarm.
    """
    total = Score()
    for excerpt in excerpts:
        findings = scan_excerpt(ruleset, excerpt.lines)
        counted = [f for f in findings if f["severity"] in ALARMING or excerpt.severity == "info"]
        if excerpt.label == BENIGN:
            counted = [f for f in findings if f["severity"] in ALARMING]
            total.negatives += 1
            total.false_alarms += bool(counted)
        correct = any(f["rule"] == excerpt.label for f in counted)
        total.judged.append(ScoredExcerpt(excerpt, tuple(findings), bool(counted), correct))
        if excerpt.label == BENIGN:
            continue
        mine = total.classes.setdefault(excerpt.label, ClassScore())
        for each in (total, mine):
            each.positives += 1
            each.detected += bool(counted)
            each.class_correct += correct
    return total


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None
