"""A program that the cockpit lends: in the agent's memory, and run from there."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import zlib
from pathlib import Path

import pytest

from gpuwatch.agent.hang_evidence.uploaded_pyspy import MAX_PACKED, MAX_PROGRAM, UploadedProgram
from tests.sentences import Sentences

PROGRAM = b"#!/bin/sh\necho uploaded to $1\nexit\n" + os.urandom(200_000)


def pieces(program: bytes, size: int = 44_000, **other: object) -> list[dict[str, object]]:
    packed = zlib.compress(program)
    digest = hashlib.sha256(program).hexdigest()
    return [
        {
            "piece": base64.b64encode(packed[at : at + size]).decode(),
            "offset": at,
            "size": len(packed),
            "digest": digest,
            **other,
        }
        for at in range(0, len(packed), size)
    ]


def test_it_is_run_from_memory_once_it_is_whole(sentences: Sentences) -> None:
    uploaded = UploadedProgram()
    *first, last = pieces(PROGRAM.replace(b"uploaded to", b"uploaded to nobody but"))
    for piece in first:
        assert uploaded.take(piece) == {"ready": False}
        assert uploaded.path is None
    assert uploaded.take(last) == {"ready": True}
    assert uploaded.path is not None
    assert not os.path.lexists(Path(uploaded.path).readlink())  # no folder holds it
    output = subprocess.run([uploaded.path, "me"], capture_output=True, text=True, check=False).stdout
    sentences(output)
    assert uploaded.take(first[0]) == {"ready": True}  # it is here already


def test_one_that_is_begun_anew_replaces_what_came_before() -> None:
    uploaded = UploadedProgram()
    uploaded.take(pieces(PROGRAM + b"older")[0])
    assert [uploaded.take(piece)["ready"] for piece in pieces(PROGRAM)][-1]


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        (pieces(PROGRAM)[1], "is missing"),
        (pieces(PROGRAM, size=1 << 20, digest="0" * 64)[0], "wrong digest"),
        (pieces(PROGRAM, size=MAX_PACKED + 1)[0] | {"size": MAX_PACKED + 1}, "is missing"),
        (pieces(b"\0" * (MAX_PROGRAM + 1), size=1 << 20)[0], "wrong digest"),
        (pieces(PROGRAM)[0] | {"piece": "?"}, "base64"),
        ({"digest": "x", "offset": 0, "size": 4, "piece": base64.b64encode(b"junk").decode()}, "damaged"),
    ],
)
def test_a_program_with_a_wrong_digest_or_size_is_never_kept(odd: dict[str, object], why: str) -> None:
    uploaded = UploadedProgram()
    with pytest.raises(ValueError, match=why):
        uploaded.take(odd)
    assert uploaded.path is None
