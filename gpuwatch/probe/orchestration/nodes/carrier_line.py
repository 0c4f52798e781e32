"""The connection to a real node, on which the launcher is started by one of the plan's dialers."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Iterator, Mapping

import msgspec

from gpuwatch.agent.masking.secret_masking import masked
from gpuwatch.hosts.plan import NodeSpec
from gpuwatch.link.agent.login_slots import ConnectSlots
from gpuwatch.link.start import failure_reasons
from gpuwatch.link.stream.carrier import Carrier, CarrierError, Dialer
from gpuwatch.link.stream.limits import LineSplitter, StartFinder, StreamError, TokenBucket
from gpuwatch.link.stream.remote_text import shown_text
from gpuwatch.probe.orchestration.nodes.node_line import Lost, OnMessage
from gpuwatch.probe.orchestration.nodes.shipping import probe_way
from gpuwatch.probe.protocol import AnyNodeMessage, AnyOrder, Leaving
from gpuwatch.wire.codec import decode_strictly

READ_BYTES = 64 * 1024
LINES_PER_S = 2_000.0
LINES_BURST = 20_000.0
"""Number of lines that a node may send at once.

A node with 16 ranks sends about 200 lines per second if every step takes 0.1 s.
"""
BAD_LINES = 20
"""A node is given up after this many invalid lines."""
CLOSE_S = 2.0
WHAT = "probe"
BEAT_S = 5.0
"""Interval of the empty lines that show the launcher that the conductor is alive."""
SILENCE_S = 30.0
"""The launcher ends everything after this many seconds without any line (an unplugged cable)."""
SILENT_BEATS = 9
"""Number of heartbeats without a line after which a started launcher, which sends one every 5 s, is lost.

Heartbeats are counted, not seconds, because a suspended process of gpuwatch has not read anything.
"""
MAX_LINE_BYTES = 1 << 20
"""Maximum length of a line; a preflight of a node with 16 GPUs and their processes has about 10 kB."""
SENTENCES = ("error", "reason", "text")
"""Fields of messages that may quote a traceback or the last lines of a process, which may hold secrets."""


class TalkError(ValueError):
    """Raised for an invalid line of the other side; the message is safe to show."""


_decoder: msgspec.json.Decoder[AnyNodeMessage] = msgspec.json.Decoder(AnyNodeMessage)
_encoder = msgspec.json.Encoder()


def decode_message(line: bytes | None) -> AnyNodeMessage:
    """Decode one line of a launcher, with secrets masked; None stands for a line that was too long.

    Raises:
        TalkError: too long, not JSON, of an unknown kind, or a field of the wrong type.
    """
    if line is None:
        raise TalkError(f"a line of more than {MAX_LINE_BYTES} bytes")
    return without_secrets(decode_strictly(line, _decoder, TalkError))


def without_secrets(message: AnyNodeMessage) -> AnyNodeMessage:
    """Return the message with secrets masked in its sentences, which quote the output of processes."""
    sentences = {name: getattr(message, name, None) for name in SENTENCES}
    quoted = {name: masked(text) for name, text in sentences.items() if isinstance(text, str)}
    return msgspec.structs.replace(message, **quoted) if quoted else message


def encode_order(order: AnyOrder) -> bytes:
    """Encode an order as one line, including the newline."""
    return _encoder.encode(order) + b"\n"


class CarrierLine:
    """The `NodeLine` of a real node.

    One thread reads, one writes, and no other thread blocks on the node.
    """

    def __init__(
        self,
        spec: NodeSpec,
        dialer: Dialer,
        slots: ConnectSlots,
        deadline_s: float,
        *,
        beat_s: float = BEAT_S,
    ) -> None:
        """Create the connection without opening it.

        Args:
            spec: The node.
            dialer: Opens the carrier.
            slots: Limits simultaneous logins; shared by the connections of a probe.
            deadline_s: Everything on the node is killed this many seconds after the start.
            beat_s: Interval of empty lines while nothing else is sent (seconds).
        """
        self.node = spec.name
        self.labels: Mapping[str, str] = spec.labels
        self._spec = spec
        self._dialer = dialer
        self._slots = slots
        self._deadline_s = deadline_s
        self._beat_s = beat_s
        self._orders: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._carrier: Carrier | None = None
        self._closing = False
        self._started = False
        self._left: str | None = None
        self._silent_beats = 0
        """Heartbeats since its last line."""
        self._reader: threading.Thread | None = None

    def open(self, receive: OnMessage) -> None:
        """Connect, start the launcher and read until the end, in a separate thread."""
        self._reader = threading.Thread(
            target=self._run, args=(receive,), name=f"probe {self.node}", daemon=True
        )
        self._reader.start()

    def send(self, order: AnyOrder) -> bool:
        """Queue an order; return False before the launcher's start and after its end."""
        if not self._started or self._closing:
            return False
        self._orders.put(encode_order(order))
        return True

    def close(self) -> None:
        """Close the carrier, which ends the launcher and all that it started; waits at most 2 s."""
        with self._lock:
            self._closing = True
            carrier = self._carrier
        self._slots.wake()
        self._orders.put(None)
        if carrier is not None:
            carrier.close()
        if self._reader is not None and self._reader is not threading.current_thread():
            self._reader.join(CLOSE_S)

    def _run(self, receive: OnMessage) -> None:
        try:
            reason = self._converse(receive)
        except CarrierError as error:
            reason = str(error)
        except Exception as error:  # a thread that dies unseen would leave the probe waiting
            reason = f"an error in gpuwatch, please report it: {error!r}"
        receive(self.node, Lost(shown_text(reason)))

    def _converse(self, receive: OnMessage) -> str:
        slot = self._slots.take(lambda: self._closing)
        if slot is None:
            return "closed"
        try:
            spec = self._spec
            way = probe_way(spec.python, spec.activate, self._deadline_s, silence_s=SILENCE_S)
            carrier = self._dialer(way.command)
            with self._lock:
                self._carrier = carrier
                closing = self._closing
            if closing:
                carrier.close()
                return "closed"
            # Beside the reading: a login shell that prints a lot must not wait for us while we wait for it.
            writer = threading.Thread(
                target=self._write, args=(carrier, way.first), name="probe orders", daemon=True
            )
            writer.start()
            return self._read(carrier, StartFinder(way.nonce, way.mark), slot, receive)
        finally:
            self._slots.give(slot)

    def _read(self, carrier: Carrier, finder: StartFinder, slot: object, receive: OnMessage) -> str:
        words = _Words()
        broke = None
        try:
            while data := carrier.recv(READ_BYTES):
                self._silent_beats = 0
                rest: bytes | None = data
                if not finder.found:
                    rest = finder.feed(data)
                    if rest is None:
                        continue
                    self._started = True
                    self._slots.give(slot)
                for message in words.of(rest or b""):
                    if isinstance(message, Leaving):
                        self._left = message.reason
                    receive(self.node, message)
        except StreamError as error:
            return str(error)
        except OSError as error:
            broke = f"the connection broke: {error.strerror or error}"
        finally:
            self._started = False
            self._orders.put(None)
            carrier.close()
        if self._closing:
            return "closed"
        if self._silent_beats >= SILENT_BEATS:
            silent_s = SILENT_BEATS * self._beat_s
            return f"no data for {silent_s:.0f} s: the launcher is stopped, or the network is down"
        if broke is not None:
            return broke
        if finder.found:
            return failure_reasons.after_start(self._left, carrier.stderr(), WHAT).reason
        return failure_reasons.before_start(finder.noise, carrier.stderr(), self._spec.python, WHAT).reason

    def _write(self, carrier: Carrier, first: bytes) -> None:
        data: bytes | None = first
        with contextlib.suppress(OSError):  # the reader receives the end of the stream and states why
            while data is not None:
                carrier.send(data)
                try:
                    data = self._orders.get(timeout=self._beat_s)
                except queue.Empty:
                    data = b"\n"
                    self._silent_beats += self._started
                    if self._silent_beats >= SILENT_BEATS:
                        carrier.close()


class _Words:
    """Decodes received bytes into messages, with limits on size and rate."""

    def __init__(self) -> None:
        self._lines = LineSplitter(MAX_LINE_BYTES)
        self._allowance = TokenBucket(LINES_PER_S, LINES_BURST)
        self._bad = 0

    def of(self, data: bytes) -> Iterator[AnyNodeMessage]:
        """Yield the messages in the next bytes; the first invalid lines (`BAD_LINES` - 1) are skipped.

        Raises:
            StreamError: too many lines, or too many that are not from a launcher.
        """
        now = time.monotonic()
        for line in self._lines.split(data):
            if not self._allowance.spend(1, now):
                raise StreamError(
                    f"the node sent more than {LINES_PER_S:.0f} lines per second, "
                    "which is not the output of a probe"
                )
            try:
                yield decode_message(line)
            except TalkError as error:
                self._bad += 1
                if self._bad >= BAD_LINES:
                    raise StreamError(f"the node sent lines that are not from a probe ({error})") from error
