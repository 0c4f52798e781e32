"""No byte of a remote string reaches the terminal as a command, checked on a real pty."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.end_to_end.tty.pty_program import Pty

STEERING = [
    b"\x1b]0;PWNED",
    b"\x1b]52;c;UFdORUQ",
    b"\x1b[2JPWNED",
    b"\x9b31m",
    "\x9b".encode(),
    "\u202e".encode(),
    "\u2066".encode(),
]


def test_a_hostile_node_cannot_steer_the_terminal(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.yaml"
    command = [sys.executable, str(Path(__file__).with_name("hostile_agent.py"))]
    hosts.write_text(f"hosts:\n  - name: evil\n    link: {{command: {command}}}\n")
    program = Pty([sys.executable, "-m", "gpuwatch", str(hosts)])
    try:
        program.read_until(lambda seen: b"PWNED" in seen)
        for key in (b"\r", b"\r", b"-", b"1", b"!", b"!", b"\t", b"\r"):
            before = len(program.written)
            os.write(program.fd, key)
            program.read_until(lambda seen, before=before: len(seen) > before + 200)  # type: ignore[misc]
    finally:
        program.end()
    assert b"PWNED" in program.written, "the text itself is shown"
    for attack in STEERING:
        assert attack not in program.written, attack
