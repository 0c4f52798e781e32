"""Filters and classifies the findings of rules that search for general words of trouble.

A finding is dropped if its line denies the trouble, counts it as 0, only supposes it or reports its repair.
Such rules capture the words of the trouble in a group `sign`; counts that must differ are in `have` and
`want`. Example: the rule of lost GPUs finds `GPU 3 has fallen off the bus` and also `no GPU has fallen off
the bus`, whose sign is denied.
"""

from __future__ import annotations

import re

from msgspec import structs
from msgspec.structs import replace

from gpuwatch.agent.logs.lines.levels import GRAVE, own_level
from gpuwatch.agent.logs.lines.programs import head_program
from gpuwatch.agent.logs.matching.event_form import is_continuing
from gpuwatch.diagnose.alerts.placement.finding_place import LocatedFinding
from gpuwatch.diagnose.error_outcome.refutation import SIGN
from gpuwatch.diagnose.last_lines.polarity import is_live
from gpuwatch.diagnose.model.failure_classes import RulePacks, of_kinds, stated_class
from gpuwatch.diagnose.stated_loss.statement import stated_loss
from gpuwatch.rules.model.failure_class import FailureClass
from gpuwatch.rules.model.rule_ids import RANK_ERROR_UNEXPLAINED
from gpuwatch.runs.placement.owners import may_be_host
from gpuwatch.wire import KERNEL_LOG, Finding

OF_MACHINES = of_kinds("machine_part")
"""Classes about parts of a machine."""
MAY_STATE_LOSS = of_kinds("may_state_loss")
OF_STATE = of_kinds("lost_state")
"""Classes of a state of the job that is lost for good."""
_ON_HOST = re.compile(
    r"(?i)\b(?:on|of|at) (?:(?:node|host) )?"
    r"(?P<name>(?!(?:mlx|bnxt|ens|enp|eno|eth|ib|bond|nvme|sd|md|gpu|cuda|port|rank|dev)[a-z]?\d)"
    r"(?=[a-z0-9.-]*\d)[a-z][a-z0-9.-]{1,60})(?![\w:/-])"
)
_GPU = re.compile(r"(?i)\b(?:GPU|cuda|device)[ #:_]?(\d{1,3})\b")


def as_stated(found: LocatedFinding, packs: RulePacks) -> LocatedFinding | None:
    """Return the finding; None if its line does not report the trouble that its words name.

    A line of level ERROR or above then remains a finding of the rule for unexplained errors. A loss in
    general words gets the failure class of what is lost. Findings of rules without signs stay unchanged.
    """
    finding = found.finding
    if MAY_STATE_LOSS.has(finding.rule, _stated(finding, packs)):
        lost = _lost(found, packs)
        return None if lost is None else _on_its_host(_by_level(lost, packs), packs)
    if SIGN not in finding.fields or _is_stated(finding):
        return found if SIGN not in finding.fields else _on_its_host(_by_level(found, packs), packs)
    return _as_error(found, packs)


def _by_level(found: LocatedFinding, packs: RulePacks) -> LocatedFinding:
    """Return the finding; a lost state of the job in a line of level ERROR or above gets severity `error`."""
    finding = found.finding
    if not OF_STATE.has(finding.rule, _stated(finding, packs)) or own_level(finding.key_line) not in GRAVE:
        return found
    return replace(found, finding=structs.replace(finding, severity="error"))


def _lost(found: LocatedFinding, packs: RulePacks) -> LocatedFinding | None:
    """Return the finding with the failure class and role of the loss that its line states; None: no loss."""
    finding = found.finding
    line = finding.key_line
    loss = stated_loss(line)
    rule = None if loss is None else packs.by_id.get(loss.code)
    if loss is None or rule is None:
        return None
    if finding.file == KERNEL_LOG and not OF_MACHINES.has(loss.code, stated_class(rule)):
        return None  # the kernel knows no members, shards or weights: `RDSEED32 is broken` is about the CPU
    fields = dict(finding.fields, **{SIGN: loss.sign})
    gpu = _GPU.search(line)
    if gpu is not None:
        fields["gpu"] = int(gpu[1])
    lost = structs.replace(finding, rule=loss.code, severity="warning", role=rule.role, fields=fields)
    return replace(found, finding=lost)


def _on_its_host(found: LocatedFinding, packs: RulePacks) -> LocatedFinding:
    """Return the finding; one about a part of a machine of unknown host gets the host that its line names."""
    finding = found.finding
    of_part = OF_MACHINES.has(finding.rule, _stated(finding, packs))
    named = _ON_HOST.search(finding.key_line) if of_part else None
    if found.node is not None or finding.host is not None or named is None or not may_be_host(named["name"]):
        return found
    return replace(found, finding=structs.replace(finding, host=named["name"]))


def _stated(finding: Finding, packs: RulePacks) -> FailureClass | None:
    return stated_class(packs.by_id.get(finding.rule))


def _as_error(found: LocatedFinding, packs: RulePacks) -> LocatedFinding | None:
    """Return the finding as an unexplained error; None if its line is no error by its level and wording.

    It has the severity `warning`, or `info` if the line says that the program continues.
    """
    finding = found.finding
    line = finding.key_line
    rule = packs.by_id.get(RANK_ERROR_UNEXPLAINED)
    excluded = () if rule is None else rule.unless
    if own_level(line) not in GRAVE or head_program(line) is not None:
        return None
    if any(re.search(each, line) for each in excluded):
        return None
    goes_on = is_continuing(line)
    unknown = structs.replace(
        finding,
        rule=RANK_ERROR_UNEXPLAINED,
        severity="info" if goes_on else "warning",
        fields={"goes_on": "yes"} if goes_on else {},
    )
    return replace(found, finding=unknown)


def _is_stated(finding: Finding) -> bool:
    have, want = finding.fields.get("have"), finding.fields.get("want")
    if isinstance(have, int) and isinstance(want, int) and have >= want:
        return False
    line, sign = finding.key_line, str(finding.fields[SIGN])
    at = line.find(sign)
    if at < 0:
        return True
    while at >= 0:
        if is_live(line, at, at + len(sign), lasting=True):
            return True
        at = line.find(sign, at + 1)
    return False
