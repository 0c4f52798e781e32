"""Parses `dcgmi diag` and `dcgmi health`: failed tests with their GPUs and the reason below them.

| GPU Memory                | Fail - GPU: 3                                  |
| Warning                   | GPU 3 has uncorrectable memory errors and row  |
|                           | remappings are pending                         |
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from gpuwatch.agent.kernel.xid_table import meaning
from gpuwatch.rules.model import rule_ids
from gpuwatch.runs.saved_outputs.model import Fields, ToolFinding, ToolLine
from gpuwatch.wire import Severity

MARKS = ("| Diagnostic  ", "| Health Monitor Report")
HEADING = re.compile(r"\| Diagnostic\s{2,40}\| Result|\| Health Monitor Report")
SUMMARY = "Overall Health"
MAX_TEXT = 600
_FAILED = re.compile(
    r"(?:GPUs?:? ?(?P<before>\d{1,6}): )?(?:Fail(?:ure)?|Unhealthy)\b(?: - )?(?P<rest>.{0,80})"
)
_NUMBERS = re.compile(r"(?<!\d)\d{1,6}(?!\d)")
_GPU = re.compile(r"\bGPU:? ?(\d{1,6})\b")
_NOTES = ("warning", "error", "info", "->errors", "-> errors")
_XID = re.compile(r"\bX[Ii][Dd] (\d{1,6})\b")


class _Reason(NamedTuple):
    """A reason that the text of a test states: its pattern, and the finding."""

    pattern: str
    rule: str
    severity: Severity
    fields: Fields
    is_heat: bool = False


_REASONS = (
    _Reason(r"remap\w* (?:has )?fail", rule_ids.GPU_REMAP_PENDING, "critical", {"failure": "Yes"}),
    _Reason(r"remap|page retirement|pages? (?:is |are )?pending", rule_ids.GPU_REMAP_PENDING, "error", {}),
    _Reason(r"uncorrectable|double[ -]bit|\bDBEs?\b|\bECC\b", rule_ids.GPU_XID_ECC, "critical", {}),
    _Reason(
        r"off the bus|\bis lost\b|not (?:reachable|responding)|unreachable", rule_ids.GPU_LOST, "critical", {}
    ),
    _Reason(r"nvlink|nvswitch", rule_ids.GPU_XID_NVLINK, "error", {}),
    _Reason(
        r"thermal|throttl|slowdown|power brake|temperature", rule_ids.GPU_THROTTLED, "error", {}, is_heat=True
    ),
)
"""The first row whose pattern matches decides."""
_UNSPECIFIC = _Reason("", rule_ids.GPU_DIAG_FAILED, "error", {})


@dataclass
class _Test:
    """One test (of `diag`) or subsystem (of `health`) with its rows."""

    name: str
    line: ToolLine
    gpu: int | None = None
    """Index of the GPU whose section has the test (`health`); None: no such section."""
    failed: bool = False
    warned: bool = False
    gpus: set[int] = field(default_factory=set)
    text: str = ""


class Dcgm:
    """Reads a table of DCGM, from its heading to the first line that is no row, border or blank."""

    def __init__(self) -> None:
        self._gpu: int | None = None
        self._tests: list[_Test] = []

    def take(self, line: ToolLine) -> bool:
        """Process a line; return False if it does not belong to the table."""
        text = line.text.strip()
        if text[:1] == "+" or not text:
            return True
        cells = text.split("|")
        if text[0] != "|" or len(cells) < 3:
            return text[0] == "|"
        self._row(cells[1].strip(), "|".join(cells[2:]).strip(" |"), line)
        return True

    def findings(self) -> list[ToolFinding]:
        """Return a finding for each test and GPU that failed or warned; without any, those of the summary.

        A warning that matches no row of `_REASONS` is left out.
        """
        found = [
            (_reason_of(f"{test.name} {test.text}"), test)
            for test in self._tests
            if test.failed or test.warned
        ]
        findings = [(reason, each) for reason, test in found for each in _reported(test, reason)]
        single = [(reason, each) for reason, each in findings if each.fields["test"] != SUMMARY]
        return [_of_several(*pair, single) for pair in single] or [each for _, each in findings]

    def _row(self, name: str, value: str, line: ToolLine) -> None:
        index = re.fullmatch(r"->\s*(?:GPU ?)?(\d{1,6})", name)
        if index:
            self._gpu = int(index[1])
            return
        note = name.lower().startswith(_NOTES)
        if name and not note:
            self._tests.append(_Test(name.lstrip("-> ").strip(), line, self._gpu))
        if not self._tests:
            return
        test = self._tests[-1]
        failed = None if note else _FAILED.match(value)
        if failed:
            if not test.failed:
                test.line = line
            test.failed = True
            gpus = failed["before"] or (failed["rest"] if "GPU" in failed["rest"] else "")
            test.gpus |= {int(each) for each in _NUMBERS.findall(gpus)}
        elif name and not note:
            test.warned = value.startswith("Warn")
        elif (note or not name) and len(test.text) < MAX_TEXT:
            test.text += f" {name} {value}".rstrip()


def _reported(test: _Test, reason: _Reason) -> list[ToolFinding]:
    named = {int(each) for each in _GPU.findall(test.text)} & test.gpus or test.gpus
    gpus = named or {int(each) for each in _GPU.findall(test.text)}
    if not gpus and test.gpu is not None:
        gpus = {test.gpu}
    if not test.failed and reason is _UNSPECIFIC:
        return []  # a warning about settings
    severity = reason.severity if test.failed else "warning"
    fields = {"test": test.name, **reason.fields}
    line = ToolLine(f"{test.line.text.strip()} {' '.join(test.text.split())}".strip(), test.line.offset)
    each_gpu: list[Fields] = [{"gpu": gpu} for gpu in sorted(gpus)] or [{}]
    return [ToolFinding(reason.rule, severity, line, {**own, **fields}) for own in each_gpu]


def _of_several(
    reason: _Reason, found: ToolFinding, every: Sequence[tuple[_Reason, ToolFinding]]
) -> ToolFinding:
    """Return the finding of a failed test; `every`: those of all tests, with the reasons.

    A finding of heat becomes an unspecific one if another test of its GPU failed for another reason.
    """
    others = ((why, each) for why, each in every if each.fields.get("gpu") == found.fields.get("gpu"))
    alone = not reason.is_heat or all(why.is_heat or each.severity == "warning" for why, each in others)
    return found if alone else replace(found, rule=_UNSPECIFIC.rule)


def _reason_of(text: str) -> _Reason:
    xid = _XID.search(text)
    if xid:
        code = int(xid[1])
        return _Reason("", meaning(code)[0], "error", {"xid": code})
    return next((row for row in _REASONS if re.search(row.pattern, text, re.IGNORECASE)), _UNSPECIFIC)
