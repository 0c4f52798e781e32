"""Secrets that the program of a link prints stand in no report: neither its errors nor its greetings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuwatch.link.stream.remote_text import shown_lines, whole_lines
from gpuwatch.probe.orchestration.nodes.carrier_line import decode_message
from gpuwatch.probe.protocol import Died
from tests.cli.running import gpuwatch

SECRET = "Zx9tQ4wLm27RkP"  # noqa: S105 - of no account
PRINTED = {
    "bearer": f"> Authorization: Bearer {SECRET}",
    "option": f"usage: tsh ssh --password {SECRET} node",
    "url": f"cannot reach https://admin:{SECRET}@proxy.example.org/",
    "variable": f"PROXY_PASSWORD={SECRET} was refused",
    "lines": f"db_password:\n  {SECRET}",
    "traceback": f"Traceback (most recent call last):\nOSError: https://u:{SECRET}@example.org",
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("command", "options"),
    [
        (["once"], ["--wait", "10"]),
        (["once"], ["--wait", "10", "--json"]),
        (["hosts", "check"], []),
        (["hosts", "check"], ["--json"]),
        (["check"], ["--wait", "30"]),
        (["probe"], ["--yes"]),
    ],
)
def test_no_report_shows_a_secret_that_the_program_of_a_link_prints(
    tmp_path: Path, command: list[str], options: list[str]
) -> None:
    rows = []
    for name, text in PRINTED.items():
        said = tmp_path / name
        said.write_text(f"{text}\n")
        rows += [
            f"  - {{name: {name}-{number}, command: [sh, -c, 'cat {said} >&{number}; exit 3']}}\n"
            for number in (1, 2)
        ]
    said = tmp_path / "variable"
    rows.append(f"""  - {{name: greeting, command: [sh, -c, 'cat {said}; exec "$@"', sh]}}\n""")
    hosts = tmp_path / "hosts.yaml"
    hosts.write_text("hosts:\n" + "".join(rows))
    done = gpuwatch(*command, str(hosts), *options)
    written = done.stdout + done.stderr
    assert done.returncode in (1, 2), written
    assert "[masked]" in written
    assert SECRET not in written
    assert SECRET[4:] not in written


def test_a_rank_of_a_probe_that_dies_quotes_no_secret() -> None:
    line = {"kind": "died", "status": 1, "reason": f"exit code 1; OSError: https://u:{SECRET}@example.org"}
    message = decode_message(json.dumps(line).encode())
    assert isinstance(message, Died)
    assert SECRET not in message.reason


def test_the_rest_of_a_line_that_was_cut_is_left_out() -> None:
    tail = SECRET.encode() + b"\ngone\n"
    assert shown_lines(whole_lines(tail, len(tail)), 2) == ["gone"]
    assert SECRET in whole_lines(tail, len(tail) + 1)
