"""Which nodes differ from a reference node, and in what."""

from __future__ import annotations

from gpuwatch.diagnose.preflight.reference_node import compared, silent_nodes, unanswered

GOOD = {"driver": "580.95", "gpu.vbios": "96.00", "ib.firmware": "28.39 (mlx5_[0-7])"}


def test_nodes_that_differ_are_named_by_setting() -> None:
    profiles = {"n1": GOOD, "n2": GOOD | {"driver": "580.82"}, "n3": GOOD | {"driver": "580.82"}}
    by_id = {check.id: check for check in compared(profiles, GOOD, "n1")}
    assert by_id["same.driver"].status == "FAIL"
    assert by_id["same.driver"].nodes == ("n2", "n3")
    assert by_id["same"].detail.startswith("2 ")
    assert "same.unknown" not in by_id


def test_a_setting_that_a_node_does_not_report_is_neither_equal_nor_different() -> None:
    profiles = {"n1": GOOD, "n2": {"driver": "580.95"}}
    by_id = {check.id: check for check in compared(profiles, GOOD, "n1")}
    assert by_id["same.unknown"].status == "SKIP"
    assert "gpu.vbios" in by_id["same.unknown"].detail
    assert not [check for check in by_id.values() if check.status == "FAIL"]


def test_a_setting_that_only_another_node_reports_is_unknown() -> None:
    by_id = {check.id: check for check in compared({"n2": GOOD | {"bios": "2"}}, GOOD, "file")}
    assert by_id["same.unknown"].status == "SKIP"


def test_a_profile_that_shares_no_setting_compares_nothing_and_fails() -> None:
    for empty in ({}, {"gone.setting": "1"}):
        by_id = {check.id: check for check in compared({"n1": GOOD, "n2": GOOD}, empty, "file")}
        assert by_id["same"].status == "FAIL"
        assert by_id["same"].nodes == ("n1", "n2")


def test_nodes_that_do_not_answer_fail() -> None:
    (unread,) = unanswered(["n2", "n3"])
    assert (unread.status, unread.nodes) == ("FAIL", ("n2", "n3"))
    assert unanswered([]) == []
    (check,) = silent_nodes({"n4": "connection refused"})
    assert (check.status, check.nodes) == ("FAIL", ("n4",))
    assert compared({}, GOOD, "file") == []
