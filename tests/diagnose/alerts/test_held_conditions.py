"""Conditions become alerts and end again, whatever their node is called."""

from __future__ import annotations

import pytest
from msgspec import structs

from gpuwatch.diagnose.alerts.held_conditions import HeldConditions
from gpuwatch.diagnose.incidents.timeline import timeline
from gpuwatch.diagnose.model.condition import Condition, Evidence
from gpuwatch.hosts.plan import Thresholds


@pytest.mark.parametrize("node", ["gpu-001", "fd00::1", "fe80::1%eth0", "a@b"])
def test_an_alert_of_any_node_ends(node: str) -> None:
    limits = Thresholds()
    book = HeldConditions(limits)
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
    book = HeldConditions(limits)
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
    book = HeldConditions(limits)
    at = limits.hold_s + 1
    for now in (0.0, at):
        lost = Condition("gpu_lost", "critical", "lost", Evidence("last values", age_s=2.0 + now), 3)
        book.see("n4", [lost], now, 1000.0 + now)
        book.turn(now, 1000.0 + now)
    (proof,) = next(iter(book.alerts.values())).proof
    assert (proof.text, proof.at) == ("last values", 998.0)


def test_an_alert_keeps_the_reading_of_the_time_at_which_it_began() -> None:
    limits = Thresholds()
    book = HeldConditions(limits)
    for now, degrees in ((0.0, 74.0), (5.0, 86.0), (limits.hold_s + 1, 73.0)):
        text = f"{degrees:.0f} C"
        hot = Condition("temperature", "warning", text, Evidence("temperature", degrees, age_s=0.0), 3)
        book.see("n4", [hot], now, 1000.0 + now)
        book.turn(now, 1000.0 + now)
    (alert,) = book.alerts.values()
    assert (alert.first, alert.first_text, alert.text) == (1000.0, "74 C", "73 C")
    (moment,) = timeline([alert], None)
    assert (moment.at, moment.what) == (1000.0, "74 C")


def test_an_entry_for_several_ranks_has_no_clause_that_holds_for_one() -> None:
    limits = Thresholds()
    book = HeldConditions(limits)
    for gpu in (1, 2):
        lost = Condition("gpu_lost", "critical", f"lost; {gpu} left", Evidence("-"), gpu)
        book.see(f"n{gpu}", [lost], 0, 0)
        book.turn(0, 0)
    alerts = [structs.replace(each, role="hint") for each in book.alerts.values()]
    assert [moment.what.partition(" on ")[0] for moment in timeline(alerts, None)] == ["lost"]
