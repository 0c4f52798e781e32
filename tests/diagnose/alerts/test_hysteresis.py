"""Conditions become alerts and end again, whatever their node is called."""

from __future__ import annotations

import pytest

from gpuwatch.diagnose.alerts.hysteresis import Hysteresis
from gpuwatch.diagnose.model.condition import Condition, Evidence
from gpuwatch.hosts.plan import Thresholds


@pytest.mark.parametrize("node", ["gpu-001", "fd00::1", "fe80::1%eth0", "a@b"])
def test_an_alert_of_any_node_ends(node: str) -> None:
    limits = Thresholds()
    book = Hysteresis(limits)
    hot = Condition("temperature", "warning", "hot", Evidence("temperature", 90.0, " C"), 3)
    for at in (0.0, limits.hold_s + 1):
        book.see(node, [hot], at, at)
        book.turn(at, at)
    assert [(each.node, each.state) for each in book.alerts.values()] == [(node, "firing")]
    over = 2 * limits.hold_s + limits.clear_s + 2
    book.see(node, [], over, over)
    book.turn(over, over)
    assert [each.state for each in book.alerts.values()] == ["resolved"]


def test_a_lost_node_is_over_soon_after_it_answers() -> None:
    limits = Thresholds()
    book = Hysteresis(limits)
    lost = Condition("node_lost", "critical", "lost", Evidence("last frame", 20.0, " s"))
    for at in (0.0, limits.hold_s + 1):
        book.see("n4", [lost], at, at)
        book.turn(at, at)
    over = limits.hold_s + 1 + 11.0
    book.see("n4", [], over, over)
    book.turn(over, over)
    assert [each.state for each in book.alerts.values()] == ["resolved"]


def test_the_evidence_of_an_alert_has_one_age() -> None:
    limits = Thresholds()
    book = Hysteresis(limits)
    at = limits.hold_s + 1
    for now in (0.0, at):
        lost = Condition("gpu_lost", "critical", "lost", Evidence("last values", age_s=2.0 + now), 3)
        book.see("n4", [lost], now, 1000.0 + now)
        book.turn(now, 1000.0 + now)
    (proof,) = next(iter(book.alerts.values())).proof
    assert (proof.text, proof.at) == ("last values", 998.0)
