"""An undated error above a launcher's table that lists several ranks at one time: no rank is named."""

from __future__ import annotations

from typing import Any

from tests.diagnose.finding import Reporter, places


def test_the_first_row_of_a_table_is_no_culprit_where_all_ended_at_one_time() -> None:
    """Rank 1's data loader died; rank 0 lost it in the same second, and torchrun sorts by number."""
    report = Reporter(places(2))
    shared: dict[str, Any] = {"file": "/logs/run.log", "backlog": True, "node": "gpu-001"}
    report.emit("data.loader_crash", 0.4, offset=76_000, timed=False, **shared)
    report.emit("peer.connection_lost", 0.4, offset=76_700, timed=False, **shared)
    for rank, offset in ((1, 78_300), (0, 78_600)):
        fields = {"exitcode": 1, "pid": 32 + rank, "table_entry": rank}
        report.emit("rank.exit_error", 0.0, rank, offset=offset, fields=fields, **shared)
    (incident,) = report.judged()
    assert (incident.code, incident.rank, incident.node) == ("data.loader_crash", None, "gpu-001")
