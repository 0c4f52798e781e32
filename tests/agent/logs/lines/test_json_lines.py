"""Which values of a JSON object are the message, and which are data."""

from __future__ import annotations

import json

import pytest

from gpuwatch.agent.logs.lines.normalise import messages


@pytest.mark.parametrize(
    "record",
    [
        {"event": "line", "data": "[rank3]: boom\n", "pipe": "stderr"},
        {"log": "[rank3]: boom\n", "stream": "stderr", "time": "2026-01-02T03:04:05Z"},
        {"source": "stdout", "line": "[rank3]: boom", "container": "train-0"},
    ],
)
def test_output_that_a_launcher_caught_is_the_message(record: dict[str, object]) -> None:
    ((text, speaker),) = messages(json.dumps(record).encode())[0]
    assert (text, speaker.rank) == ("boom", 3)


def test_a_value_that_begins_like_a_ranks_line_is_not_cut_from_its_key() -> None:
    row = json.dumps(
        {"prompt": "explain", "completion": "[rank3]: Watchdog caught collective operation timeout"}
    )
    ((text, speaker),) = messages(row.encode())[0]
    assert (text, speaker.rank) == (row, None)
