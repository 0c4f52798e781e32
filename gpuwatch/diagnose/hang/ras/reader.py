"""Unpacks and parses a RAS answer from an agent."""

from __future__ import annotations

from gpuwatch.diagnose.hang.ras.json_format import read_json
from gpuwatch.diagnose.hang.ras.model import Ras, RasError
from gpuwatch.diagnose.hang.ras.text_format import read_text
from gpuwatch.number_text import limit_text
from gpuwatch.wire import OverlongError, RasAnswer, unpacked

MAX_BYTES = 64 << 20


def read_ras(answer: RasAnswer, node: str) -> Ras:
    """Unpack and parse a RAS answer.

    Raises:
        RasError: RAS did not answer, or its answer cannot be read.
    """
    if answer.error is not None:
        raise RasError(answer.error)
    words = _text(answer.packed)
    if answer.format == "json":
        return read_json(words, node, answer.address)
    return read_text(words.decode("utf-8", "replace"), node, answer.address)


def _text(packed: str) -> bytes:
    """Return a RAS answer (base64 of zlib data) decompressed, as bytes.

    Raises:
        RasError: It is damaged, or longer than MAX_BYTES.
    """
    try:
        return unpacked(packed, MAX_BYTES)
    except OverlongError as error:
        raise RasError(f"more than {limit_text(MAX_BYTES)}") from error
    except ValueError as error:
        raise RasError(f"damaged in transit: {error}") from error
