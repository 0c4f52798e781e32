"""One Xid table: the driver's event and the kernel's line of a code are one alert, and one incident."""

from __future__ import annotations

from functools import cache

import pytest

from gpuwatch import wire
from gpuwatch.agent.gpu.driver import xid_event
from gpuwatch.agent.kernel.xid_lines import event as event_of_line
from gpuwatch.agent.kernel.xid_table import ACTIONS, CATALOGUE, FOLLOW_UPS, meaning
from gpuwatch.agent.logs.matching.ruleset import RuleSet
from gpuwatch.diagnose.alerts.deduplication.deduplicator import joined
from gpuwatch.diagnose.alerts.from_events import alert_of_event
from gpuwatch.diagnose.alerts.from_findings import alert_of
from gpuwatch.diagnose.alerts.placement.finding_place import LocatedFinding
from gpuwatch.diagnose.incidents.builder import incidents
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.rank_index import RankIndex
from gpuwatch.fleet.jobs.places import Places, RankPlace
from gpuwatch.rules.compiling.compile import compiled
from gpuwatch.rules.load import load_packs
from gpuwatch.rules.scoring.score import scan_excerpt

T0 = 1_790_000_000.0
NODE, GPU, PCI = "gpu-007", "GPU-7-3", "0000:4C:00"
PACKS = load_packs()
PLACES = Places((RankPlace(11, NODE, "4711", 3, GPU, f"0000{PCI}.0", 4242, 3, 16, ()),), {})
UNUSED_NOW = {61}
"""Unused in NVIDIA's list, but sent by old drivers: listed with its title, of the class of unknown codes."""


@cache
def rules() -> RuleSet:
    """Those about Xids."""
    return RuleSet(compiled(rule for rule in PACKS.rules if rule.id.startswith("gpu.xid.")))


def by_nvml(code: int) -> Alert:
    """The driver's event, as on a node whose kernel log may not be read."""
    event = wire.Event(seq=1, **{**xid_event(code, GPU), "t": T0})
    alert = alert_of_event(NODE, event, PACKS, RankIndex(PLACES), 0.0)
    assert alert is not None
    return alert


def by_line(code: int, text: str = ", pid=4242, name=train.py", place: str = f"PCI:{PCI}") -> Alert:
    """The kernel's line, through the scanner."""
    found = scan_excerpt(rules(), [f"NVRM: Xid ({place}): {code}{text}"])
    assert len(found) == 1, (code, found)
    own = {name: value for name, value in found[0].items() if name in wire.Finding.__struct_fields__}
    own |= {"t": T0, "seq": 1, "file": wire.KERNEL_LOG, "at": T0, "last_at": T0, "timed": True}
    return alert_of(LocatedFinding(NODE, wire.Finding(**own)), PACKS, RankIndex(PLACES))


def judged(alert: Alert) -> list[tuple[str, str, str | None, int | None, int | None]]:
    found = incidents([alert], PLACES, PACKS, T0 + 60.0)
    return [(each.code, each.severity, each.node, each.gpu, each.rank) for each in found]


@pytest.mark.parametrize("code", range(1, 200))
def test_event_and_kernel_line_of_a_code_lead_to_the_same_alert_and_incident(code: int) -> None:
    event, line = by_nvml(code), by_line(code)
    name, severity, _, _ = meaning(code)
    assert (event.code, event.severity) == (line.code, line.severity) == (name, severity)
    assert (event.text, event.title, event.role) == (line.text, line.title, line.role)
    assert (event.node, event.gpu, event.rank, event.job) == (line.node, line.gpu, line.rank, line.job)
    assert judged(event) == judged(line)
    assert bool(judged(event)) == (severity in ("error", "critical"))
    assert len(joined([event, line])) == 1
    assert (name == "gpu.xid.unknown") == (code not in CATALOGUE or code in UNUSED_NOW)


@pytest.mark.parametrize("place", ["PCI:0000:54:00", "0000:54:00", "PCI:0000:48:00 GPU-I:05"])
def test_every_code_has_one_rule_wherever_it_stands(place: str) -> None:
    for code in (*range(400), 1620):
        assert by_line(code, ", pid=48", place).code == meaning(code)[0], code


RECOVERY = "GPU recovery action changed from"
TEXTS = [
    *((code, "NETIR_BER Nonfatal XC0 i0 Link 13", "gpu.xid.nvlink", "warning") for code in range(144, 151)),
    *((code, "RLW_RXPIPE Fatal XC0 i0 Link 3", "gpu.xid.nvlink", "critical") for code in range(144, 151)),
    (71, "pid=3, NVLink: fatal error detected on link 2(0x1)", "gpu.xid.nvlink", "critical"),
    (154, f"{RECOVERY} 0x1 (GPU Reset Required) to 0x0 (None)", "gpu.xid.recovery", "info"),
    (154, f"{RECOVERY} 0x0 (None) to 0x2 (Node Reboot Required)", "gpu.xid.recovery", "critical"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "text", "name", "severity"), TEXTS)
def test_the_text_of_the_line_decides_on_both_paths(code: int, text: str, name: str, severity: str) -> None:
    line = by_line(code, f", {text}")
    assert (line.code, line.severity) == (name, severity)
    event = event_of_line(f"NVRM: Xid (PCI:{PCI}): {code}, {text}")
    assert event is not None
    assert event["severity"] == severity
    assert meaning(code, text)[:2] == (name, severity)


@pytest.mark.parametrize(
    ("code", "action"),
    [(13, "RESTART_APP"), (79, "RESTART_BM"), (95, "RESET_GPU"), (148, "WORKFLOW_NVLINK5_ERR")],
)
def test_the_remedy_names_what_nvidia_asks_for(code: int, action: str) -> None:
    assert ACTIONS[code] == action
    assert action in meaning(code)[3]


def test_actions_are_given_for_codes_of_the_catalogue_only() -> None:
    assert set(ACTIONS) <= set(CATALOGUE)
    assert set(CATALOGUE) - set(ACTIONS) <= {*range(162, 173)} | UNUSED_NOW
    assert set(CATALOGUE) >= FOLLOW_UPS
