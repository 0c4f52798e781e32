"""Uploads this machine's py-spy to a node that has none: piece by piece, into its agent's memory."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from gpuwatch.fleet.pending_request import Asked
from gpuwatch.number_text import limit_text
from gpuwatch.whole_file import read_bounded
from gpuwatch.wire import UploadResult

PIECE_BYTES = 44_000
"""Bytes per piece; in base64 and with its keys a request stays below the agent's limit of 64 KiB."""
MAX_PY_SPY_BYTES = 32 << 20
"""Largest program in bytes that an agent accepts; py-spy has 8 MB."""
SILENCE_S = 20.0
"""Seconds after which a node that accepts no piece is given up."""


class UploadError(Exception):
    """Raised if the program cannot be uploaded, with the reason."""


class Program(Struct, frozen=True):
    """A py-spy program to upload: zlib-compressed, with its SHA-256."""

    packed: bytes
    digest: str


def load(path: Path) -> Program:
    """Read a py-spy program for the upload.

    Raises:
        UploadError: the file cannot be read, is too large, or is no program.
    """
    try:
        program = read_bounded(path, MAX_PY_SPY_BYTES + 1)
    except OSError as error:
        raise UploadError((error.strerror or str(error)).lower()) from error
    if not program.startswith((b"\x7fELF", b"#!")):
        raise UploadError("not a program")
    if len(program) > MAX_PY_SPY_BYTES:
        raise UploadError(f"larger than {limit_text(MAX_PY_SPY_BYTES)}")
    return Program(zlib.compress(program), hashlib.sha256(program).hexdigest())


class UploadRequests(Protocol):
    """Interface of a session: requests that upload py-spy."""

    def upload_py_spy(self, node: str, piece: str, offset: int, size: int, digest: str) -> Asked:
        """Send a piece of the program to a node's agent; the answer is a `wire.UploadResult`."""
        ...


class PySpyUpload:
    """An upload to one node; call `update` after every poll until it is `over`."""

    def __init__(
        self, session: UploadRequests, node: str, program: Program, clock: Callable[[], float]
    ) -> None:
        """Create the upload of a program to a node; the next `update` starts it."""
        self.node = node
        self.ready = False
        """True if the node has the program."""
        self.why: str | None = None
        """Why the upload failed."""
        self._session = session
        self._program = program
        self._clock = clock
        self._sent = 0
        self._asked: Asked | None = None
        self._asked_at = clock()

    @property
    def over(self) -> bool:
        """True if the upload has ended."""
        return self.ready or self.why is not None

    @property
    def share(self) -> float:
        """Share of the program that is uploaded, 0 to 1."""
        return self._sent / len(self._program.packed)

    def update(self) -> None:
        """Process the node's answer to the last piece, and send the next piece."""
        if self._asked is not None and not self._asked.done:
            if self._clock() - self._asked_at > SILENCE_S:
                self.why = f"no answer in {SILENCE_S:.0f} s"
            return
        if self._asked is not None:
            self._take(self._asked)
        if not self.over:
            self._send()

    def _send(self) -> None:
        packed = self._program.packed
        piece = base64.b64encode(packed[self._sent : self._sent + PIECE_BYTES]).decode("ascii")
        self._asked_at = self._clock()
        self._asked = self._session.upload_py_spy(
            self.node, piece, self._sent, len(packed), self._program.digest
        )

    def _take(self, asked: Asked) -> None:
        self._sent = min(self._sent + PIECE_BYTES, len(self._program.packed))
        reported, self.why = asked.read(UploadResult)
        self.ready = reported is not None and reported.ready
        if not self.over and self._sent == len(self._program.packed):
            self.why = "the node did not accept it"
