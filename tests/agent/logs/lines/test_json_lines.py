"""Which values of a JSON object are the message, and which are data."""

from __future__ import annotations

import json

import pytest

from gpuwatch.agent.logs.lines.json_lines import texts_of
from gpuwatch.agent.logs.lines.normalise import messages
from gpuwatch.agent.logs.lines.prefixes import Speaker
from gpuwatch.agent.logs.records.byte_lists import without_byte_lists


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


XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=\udcffx, GPU has fallen off the bus."


def test_a_message_that_journald_wrote_as_a_list_of_bytes_is_read_and_found() -> None:
    codes = list(XID.encode("utf-8", "surrogateescape"))
    for separators in ((",", ":"), (", ", ": ")):
        line = json.dumps({"_HOSTNAME": "gpu-2", "MESSAGE": codes}, separators=separators)
        assert texts_of(line, Speaker())[0].startswith("NVRM: Xid (PCI:0000:3b:00): 79")
        assert b"NVRM: Xid (PCI" in without_byte_lists(line.encode())
    assert texts_of(json.dumps({"MESSAGE": [256, -1]}), Speaker()) == []


def test_the_error_file_of_a_torchelastic_rank_is_its_message_and_its_traceback() -> None:
    stack = 'Traceback (most recent call last):\n  File "t.py", line 1, in <module>\nRuntimeError: boom'
    file = {
        "message": {"message": "RuntimeError: boom", "extraInfo": {"py_callstack": stack, "timestamp": "1"}}
    }
    assert texts_of(json.dumps(file), Speaker()) == ["RuntimeError: boom", *stack.split("\n")]
