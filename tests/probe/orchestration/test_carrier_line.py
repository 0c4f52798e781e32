"""A line to a node whose far end is not trusted, and may not be there at all."""

from __future__ import annotations

import os
import queue
import sys
import threading

import pytest

from gpuwatch.hosts.plan import NodeSpec
from gpuwatch.link.agent.login_slots import ConnectSlots
from gpuwatch.link.child_process import ChildCarrier
from gpuwatch.link.stream.carrier import Carrier, CarrierError
from gpuwatch.link.stream.limits import NOISE_LIMIT_BYTES
from gpuwatch.number_text import limit_text
from gpuwatch.probe.orchestration.nodes.carrier_line import CarrierLine
from gpuwatch.probe.orchestration.nodes.node_line import Lost, Received
from gpuwatch.probe.protocol import Count, Note
from tests.sentences import Sentences

HEAR_S = 60.0
PRELUDE = """
import json, sys
read = sys.stdin.buffer
read.read(int(read.readline()))
config = json.loads(read.readline())
def say(line): sys.stdout.buffer.write(line + b"\\n"); sys.stdout.buffer.flush()
def begin(): say(b"\\nGPUWATCHP " + config["nonce"].encode())
"""


class Listening:
    """What a line says, until its last word."""

    def __init__(self, program: str | None, beat_s: float = 5.0) -> None:
        self.received: queue.SimpleQueue[Received] = queue.SimpleQueue()

        def dial(command: str) -> Carrier:
            assert command
            if program is None:
                raise CarrierError("nobody answers at 10.0.0.1")
            return ChildCarrier([sys.executable, "-c", PRELUDE + program])

        self.line = CarrierLine(NodeSpec("gpu-001"), dial, ConnectSlots(4), 60.0, beat_s=beat_s)
        self.line.open(lambda _node, message: self.received.put(message))

    def next(self) -> Received:
        return self.received.get(timeout=HEAR_S)

    def last(self) -> tuple[list[Received], str]:
        """Everything up to the last word, and that."""
        before: list[Received] = []
        while not isinstance(message := self.next(), Lost):
            before.append(message)
        return before, message.reason


def test_lines_after_the_marker_are_received_and_orders_arrive(sentences: Sentences) -> None:
    listening = Listening(
        """
say(b'{"kind": "note", "text": "noise before the start"}')
begin()
say(b'{"kind": "note", "text": "hello"}')
order = read.readline()
while order == b"\\n": order = read.readline()
say(b'{"kind": "note", "text": ' + json.dumps(order.decode().strip()).encode() + b"}")
"""
    )
    assert listening.next() == Note(text="hello")
    assert listening.line.send(Count())
    assert listening.next() == Note(text='{"do":"count"}')
    _, reason = listening.last()
    sentences(reason)
    assert not listening.line.send(Count())


def test_what_a_node_says_cannot_steer_the_terminal() -> None:
    listening = Listening("""begin(); say(b'{"kind": "note", "text": "\\\\u001b]0;owned\\\\u0007"}')""")
    message, _ = listening.last()
    assert message == [Note(text="\u241b]0;owned\u2407")]


@pytest.mark.parametrize(
    "flood",
    [
        "while True: say(b'{}')",
        "while True: say(b'x' * (2 << 20))",
        'while True: say(b\'{"kind": "note", "text": "a"}\' * 1)',
        "while True: say(b'\\xff\\x00')",
    ],
)
def test_nonsense_and_floods_end_the_line(flood: str) -> None:
    listening = Listening(f"begin()\n{flood}")
    message, reason = listening.last()
    assert len(message) <= 25_000
    assert reason


def test_endless_noise_before_the_start_ends_the_line() -> None:
    _, reason = Listening("while True: say(b'welcome to the cluster')").last()
    assert limit_text(NOISE_LIMIT_BYTES) in reason


def test_a_node_that_cannot_be_reached_is_lost_with_the_reason(sentences: Sentences) -> None:
    sentences(Listening(None).last())


def test_a_launcher_that_fails_is_reported_as_our_error(sentences: Sentences) -> None:
    _, reason = Listening("begin(); raise ValueError('boom')").last()
    sentences(reason)
    assert "boom" in reason


def test_a_launcher_that_says_nothing_any_more_is_lost_and_one_that_beats_is_not(
    sentences: Sentences,
) -> None:
    alive = 'say(b\'{"kind": "alive"}\')'
    talk = f"import time; begin()\nfor _ in range(40): {alive}; time.sleep(0.1)\ntime.sleep(600)"
    message, reason = Listening(talk, beat_s=0.3).last()
    assert len(message) == 40
    sentences(reason)


def test_close_ends_the_far_end_even_when_it_does_not_read() -> None:
    listening = Listening(
        'import os, time; begin(); say(b\'{"kind": "note", "text": "%d"}\' % os.getpid()); time.sleep(600)'
    )
    note = listening.next()
    assert isinstance(note, Note)
    closing = threading.Thread(target=listening.line.close)
    closing.start()
    assert listening.last()[1] == "closed"
    closing.join(HEAR_S)
    assert not closing.is_alive()
    with pytest.raises(ProcessLookupError):
        os.kill(int(note.text), 0)
