"""Stores a py-spy uploaded by the cockpit in this process's memory; nothing is written on the node."""

import base64
import ctypes
import os
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_PACKED = 16 << 20
MAX_PROGRAM = 32 << 20
CLOSED_ON_EXEC = 1
"""MFD_CLOEXEC of memfd_create(2)."""


class UploadedProgram(object):
    """Receives a program piece by piece; `path`: where it can be run, once complete; None before."""

    def __init__(self) -> None:
        self.path: str | None = None
        self._digest: str | None = None
        self._packed = bytearray()

    def take(self, request: "dict[str, Any]") -> "dict[str, Any]":
        """Add a piece of the zlib stream (the first one restarts it); return `wire.UploadResult`.

        Raises:
            ValueError: it does not follow the one before, or the whole does not match its digest.
            OSError: this node cannot store programs in memory.
        """
        piece = base64.b64decode(str(request.get("piece", "")).encode("ascii"), validate=True)
        digest, offset, size = str(request.get("digest")), request.get("offset"), request.get("size")
        if digest == self._digest and self.path is not None:
            return {"ready": True}
        if offset == 0:
            self._digest, self._packed = digest, bytearray()
        if digest != self._digest or offset != len(self._packed) or not 0 < int(size or 0) <= MAX_PACKED:
            raise ValueError("a part of the program is missing")
        self._packed += piece
        if len(self._packed) < int(size or 0):
            return {"ready": False}
        packed, self._packed = bytes(self._packed), bytearray()
        self.path = _held(_unpacked(packed, digest))
        return {"ready": True}


def _unpacked(packed: bytes, digest: str) -> bytes:
    import hashlib  # noqa: PLC0415 - it brings OpenSSL along, 3 MB

    try:
        program = zlib.decompressobj().decompress(packed, MAX_PROGRAM)
    except zlib.error as error:
        raise ValueError("py-spy was damaged in transfer: {}".format(error)) from error
    if hashlib.sha256(program).hexdigest() != digest:
        raise ValueError("py-spy was damaged in transfer: wrong digest")
    return program


def _held(program: bytes) -> str:
    descriptor = memory_file(b"py-spy")
    left = memoryview(program)
    while left:
        left = left[os.write(descriptor, left) :]
    return "/proc/{}/fd/{}".format(os.getpid(), descriptor)


def memory_file(name: bytes) -> int:
    """Return the descriptor of an anonymous file that ends with this process; Python has the call since 3.8.

    Raises:
        OSError: this system has none.
    """
    create = getattr(ctypes.CDLL(None, use_errno=True), "memfd_create", None)
    if create is None:
        raise OSError(0, "the node's C library lacks memfd_create, so py-spy cannot run from memory")
    descriptor = int(create(name, CLOSED_ON_EXEC))
    if descriptor < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return descriptor
