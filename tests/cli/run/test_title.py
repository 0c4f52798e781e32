"""The status in the terminal's title: also beside a progress bar, never within a sequence of the command."""

from __future__ import annotations

import os

import pytest

from gpuwatch.cli.run.title import TerminalTitle


def written_after(monkeypatch: pytest.MonkeyPatch, *output: bytes) -> bytes:
    """What is written to the terminal for the title `on` after this output."""
    monkeypatch.setenv("TERM", "xterm")
    reading, writing = os.pipe()
    try:
        title = TerminalTitle(writing)
        for data in output:
            title.passed(data)
        title.wanted = "on"
        title.show()
        os.close(writing)
        return os.read(reading, 4096)
    finally:
        os.close(reading)


@pytest.mark.parametrize(
    "output",
    [
        b"",
        b"step 1\n",
        b"\r 50%|#####     | 30/60 [00:03<00:03]",
        "50%|█████".encode(),
        b"\x1b[1mbold",
        b"\x1b[A\x1b[2K",
        b"\x1b]0;title\x07",
        b"\x1b]0;title\x1b\\",
        b"\x1b(B",
    ],
)
def test_the_title_is_shown_between_any_whole_sequences(
    monkeypatch: pytest.MonkeyPatch, output: bytes
) -> None:
    """tqdm writes its bars without a line's end: most trainings have no other output for hours."""
    assert b"\x1b]2;on\x07" in written_after(monkeypatch, output)
    assert b"\x1b]2;on\x07" in written_after(monkeypatch, *(output[at : at + 1] for at in range(len(output))))


@pytest.mark.parametrize(
    "output",
    [
        b"\x1b",
        b"\x1b[",
        b"\x1b[38;5",
        b"\x1b[?25 ",
        b"\x1b]0;tit",
        b"\x1b]0;title\x1b",
        b"\x1bPq#0",
        b"\x1b(",
        "█".encode()[:1],
        "█".encode()[:2],
        "😀".encode()[:3],
    ],
)
def test_the_title_is_not_written_into_a_sequence(monkeypatch: pytest.MonkeyPatch, output: bytes) -> None:
    assert written_after(monkeypatch, b"text ", output) == b""
    assert written_after(monkeypatch, *(output[at : at + 1] for at in range(len(output)))) == b""
