"""A collective's error that wraps the time-out of a socket: the rank waited, and is not the cause."""

from __future__ import annotations

from pathlib import Path

from tests.corpus.score import scanned

STEPS = "".join(f"2025-03-02 10:00:{s:02},000 INFO step {s}/1000 | loss 2.1\n" for s in range(30))
SOCKET = """Traceback (most recent call last):
  File "comm.py", line 74, in all_reduce
    if not peer.recv(1):
TimeoutError: timed out
"""
WRAPPER = """
During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "train.py", line 114, in <module>
    all_reduce()
RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting \
30000ms for recv operation to complete
"""


def test_the_rank_that_logged_no_time_out_is_the_likely_culprit(tmp_path: Path) -> None:
    for rank in range(4):
        error = SOCKET + WRAPPER if rank != 3 else ""
        (tmp_path / f"rank{rank}.log").write_text(f"{STEPS}{error}")
    (incident,) = scanned(tmp_path)["incidents"]
    assert (incident["rank"], incident["followers"]) == (3, 3)


def test_a_socket_that_no_collective_uses_times_out_by_itself(tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"rank{rank}.log").write_text(STEPS + (SOCKET if rank == 1 else ""))
    (incident,) = scanned(tmp_path)["incidents"]
    assert (incident["rank"], incident["class"]) == (1, "python.exception")
