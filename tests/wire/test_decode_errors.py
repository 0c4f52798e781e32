"""Bytes from outside that msgspec refuses with other errors than its own end no reader."""

from __future__ import annotations

import ast
import base64
import pickle
import zlib
from pathlib import Path

import pytest

import gpuwatch
from gpuwatch.diagnose.hang.ras.model import RasError
from gpuwatch.diagnose.hang.ras.reader import read_ras
from gpuwatch.runs.flight.dumps import read_dump
from gpuwatch.runs.flight.pickle_reader import NoDumpError
from gpuwatch.wire import RasAnswer
from tests.diagnose.dumps import content, steps

DEEP = b"[" * 3000 + b"]" * 3000
NOT_FOREIGN = {"runs/traces/event_stream.py", "runs/flight/pickle_reader.py"}
"""They handle the other errors in a further clause."""


@pytest.mark.parametrize("words", [b'{"nccl_version": "\xef\xff"}', b'{"x": ' + DEEP + b"}"])
def test_an_answer_of_ras_that_is_no_text_is_refused(words: bytes) -> None:
    packed = base64.b64encode(zlib.compress(words)).decode()
    with pytest.raises(RasError):
        read_ras(RasAnswer("127.0.0.1:28028", packed, "json"), "gpu-001")


def test_a_dump_with_half_a_character_for_a_number_is_refused() -> None:
    held = content(steps(2), {"0": [0, 1]})
    held["entries"][0] = {**held["entries"][0], "collective_seq_id": "\ud800"}
    with pytest.raises(NoDumpError):
        read_dump(pickle.dumps(held), 0, "nccl_trace_rank_0")


def test_no_reader_catches_the_errors_of_msgspec_alone() -> None:
    root = Path(gpuwatch.__file__).parent
    alone = []
    for path in root.rglob("*.py"):
        handlers = (
            each for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, ast.ExceptHandler)
        )
        names = [ast.unparse(each.type) for each in handlers if each.type is not None]
        if any("msgspec." in name for name in names):
            alone.append(str(path.relative_to(root)))
    assert set(alone) == NOT_FOREIGN
