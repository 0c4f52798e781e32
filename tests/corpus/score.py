"""False alarms on harmless log folders beside recall on failures, by one run of `scan` over each folder.

`python -m tests.corpus.score [DIR]`: DIR holds `harmless/` and `failures/`, each with its `labels.yaml`;
without DIR it is this folder.
The labels stand beside the folders, never in them, so that a scan cannot read them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gpuwatch.report.scan.report import judged, scan_facts
from gpuwatch.rules.load import Packs, load_packs
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.scan.scan import Begin, scan

CORPUS = Path(__file__).parent
ALARMS = ("error", "critical")
ANY = "*"
"""A class of `labels.yaml`: any class will do, trouble alone counts."""
NOW = 1_800_000_000.0
"""The clock of the reports, unix seconds."""


@dataclass(frozen=True)
class Case:
    """A labelled folder, and what `scan` says of it."""

    name: str
    label: dict[str, Any]
    facts: dict[str, Any]

    @property
    def alarms(self) -> list[dict[str, Any]]:
        """Incidents and alerts that wake a person."""
        return [each for each in self.facts["incidents"] + self.facts["alerts"] if each["severity"] in ALARMS]

    @property
    def first(self) -> dict[str, Any]:
        """The first incident, else the gravest alert, else nothing."""
        return next(iter(self.facts["incidents"] or self.alarms), {})

    def right(self, key: str) -> bool | None:
        """Whether class, rank or node of the first incident is the labelled one. None: the label has none."""
        wanted = self.label.get(key)
        if wanted is None:
            return None
        found = self.first.get(key)
        if key == "class":
            return found in wanted or (ANY in wanted and found is not None)
        return bool(found == wanted)

    def __str__(self) -> str:
        """One line: what was said."""
        stated = [f"{each['class']}: {each.get('sentence') or each.get('text')}" for each in self.alarms]
        return f"{self.name:36} {'; '.join(stated) or 'nothing of severity error or critical'}"


@dataclass(frozen=True)
class Score:
    """Both figures of one corpus."""

    harmless: tuple[Case, ...]
    failures: tuple[Case, ...]

    @property
    def false_alarms(self) -> list[Case]:
        """Harmless folders with an incident or alert of severity error or critical."""
        return [case for case in self.harmless if case.alarms]

    @property
    def missed(self) -> list[Case]:
        """Failures of which nothing of severity error or critical is said."""
        return [case for case in self.failures if not case.alarms]

    def wrong(self, key: str) -> list[Case]:
        """Failures whose first incident has another class, rank or node than the label."""
        return [case for case in self.failures if case.right(key) is False]

    def right(self, key: str) -> tuple[int, int]:
        """How many are right, of how many that have the label."""
        answers = [case.right(key) for case in self.failures]
        return answers.count(True), len(answers) - answers.count(None)

    def lines(self) -> Iterator[str]:
        """What falls short, then both figures."""
        yield from (f"FALSE   {case}" for case in self.false_alarms)
        yield from (f"MISSED  {case}" for case in self.missed)
        for key in ("class", "rank", "node"):
            yield from (f"{key.upper():7} {case} (not {case.label[key]})" for case in self.wrong(key))
        found = len(self.failures) - len(self.missed)
        parts = [f"{key} {'/'.join(map(str, self.right(key)))}" for key in ("class", "rank", "node")]
        yield f"harmless: {len(self.false_alarms)} false alarms in {len(self.harmless)} folders"
        yield f"failures: recall {found}/{len(self.failures)}, {', '.join(parts)}"


@cache
def packs() -> Packs:
    """The built-in packs, read once."""
    return load_packs()


@cache
def ready() -> Begin:
    """Their patterns compiled, for all folders."""
    return Begin.of(packs().all, "agent")


def scanned(folder: Path) -> dict[str, Any]:
    """The JSON of `gpuwatch scan folder`, in this process."""
    result = scan(gather([folder]), packs().all, "agent", cores=1, begin=ready())
    return scan_facts(judged(result, packs(), NOW, 0.0))


def cases(kind: Path) -> tuple[Case, ...]:
    """The folders of one kind, by name."""
    labels = yaml.safe_load((kind / "labels.yaml").read_text(encoding="utf-8"))
    return tuple(Case(name, label, scanned(kind / name)) for name, label in sorted(labels.items()))


@cache
def score(corpus: Path = CORPUS) -> Score:
    """Scan all folders of a corpus."""
    return Score(cases(corpus / "harmless"), cases(corpus / "failures"))


if __name__ == "__main__":
    print("\n".join(score(Path(sys.argv[1]) if len(sys.argv) > 1 else CORPUS).lines()))
