"""Ranks of which only the exit code is known, beside a rank whose own exception is logged."""

from __future__ import annotations

from typing import Any

import pytest

from tests.diagnose.finding import Reporter, places


def _led(error: dict[str, Any], at: float, code: int = 1, name: str = "python.exception") -> int | None:
    """Return the culprit if ranks 0 to 2 end at 0 s with `code`, and rank 3 logs an error at `at` seconds."""
    report = Reporter(places(4, 2))
    for rank in (0, 1, 2):
        report.emit("rank.exit_error", 0.01 * rank, rank, file=f"/ends/{rank}", exitcode=code)
    report.emit(name, at, 3, **error)
    report.emit("rank.exit_error", 0.6, 3, file="/ends/3", exitcode=1)
    (incident,) = report.judged()
    return incident.rank


@pytest.mark.parametrize("name", ["python.exception", "data.loader_crash"])
@pytest.mark.parametrize("error", [{}, {"timed": False}, {"file": "/logs/launcher.out"}])
def test_a_logged_exception_leads_over_mere_exit_codes(name: str, error: dict[str, Any]) -> None:
    assert _led(error, -0.1, name=name) == 3
    assert _led(error, 0.5, name=name) == 3


def test_an_exception_well_after_an_end_is_no_reason_for_it() -> None:
    assert _led({}, 20.0) == 0


def test_a_signal_is_more_than_an_exit_code() -> None:
    assert _led({}, 0.3, code=-8) == 0


def test_a_rank_whose_own_line_is_unknown_is_not_passed_over() -> None:
    """An error without a rank in the file of an end may be of that rank."""
    report = Reporter(places(4, 2))
    report.emit("python.exception", -0.2, None, file="/ends/0", what="first")
    report.emit("rank.exit_error", 0.0, 0, file="/ends/0", exitcode=1)
    report.emit("python.exception", 0.5, 3)
    assert report.judged()[0].rank in (0, None)


def test_a_device_still_leads() -> None:
    report = Reporter(places(64))
    report.kernel("gpu.xid.fell_off", 0.0, "gpu-001", pci="0000:03:00", xid=79)
    report.emit("rank.exit_error", 0.0, 3, exitcode=1)
    report.emit("python.exception", 0.1, 40)
    assert report.judged()[0].code == "gpu.xid.fell_off"
