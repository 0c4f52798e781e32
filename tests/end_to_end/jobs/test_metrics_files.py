"""Metrics that a rank writes into a file of its own, which it holds open."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.launched import launched, quick_session
from tests.parts import SEEN_BY_EVERY_AGENT

pytestmark = [*SEEN_BY_EVERY_AGENT, pytest.mark.long]


@pytest.mark.parametrize("name", ["metrics.jsonl", "history.json"])
def test_a_metrics_file_held_open_for_writing_is_followed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--nowhere", "--metrics", name)
    with (
        quick_session(monkeypatch) as session,
        launched(session, tmp_path / "job", "metrics", *options) as job,
    ):
        job.until(lambda: name in job.files() and job.files()[name].ranks == [0])
        writers = session.fleet.progress.writers.values
        job.until(
            lambda: [one for one in writers() if one.file.endswith(name) and (one.value("step") or 0) > 3]
        )
