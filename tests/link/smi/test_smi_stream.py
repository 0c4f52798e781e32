"""The fallback's lines: any chunking, any garbage, words where a number should be."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuwatch.link.smi.row import parse_row
from gpuwatch.link.smi.shell_script import COMMAND, first_line
from gpuwatch.link.smi.stream import LIMITS, SmiStream
from gpuwatch.link.stream.frame_stream import Item
from gpuwatch.link.stream.inbox import Refused
from gpuwatch.link.stream.limits import StreamError
from gpuwatch.wire import Hello, Ping, Reply, Sample, decode, encode, encode_request
from tests.link.smi.fake_smi import FakeSmi, row, uuid
from tests.link.watching import until
from tests.parts import need
from tests.sentences import Sentences

NONCE = "00c0ffee00c0ffee"
MARK = f"\nGPUWATCH1 {NONCE}\n".encode()
AT = 1_714_566_896.5
"""2024/05/01 12:34:56.5 UTC."""


def _block(at: str = f"{AT}00000000", ping: str = '{"do":"ping","id":-1}') -> bytes:
    lines = [f"@at {at}", "@cpu cpu  10 0 10 80 0 0 0 0", "@load 0.50 0.40 0.30 1/2 3", f"@done {ping}"]
    return "".join(f"{line}\n" for line in lines).encode()


def _row(time: str = "2024/05/01 12:34:56.250", line: str = row(0)) -> bytes:
    return f"{time}, {line}\n".encode()


def _run(*pieces: bytes, now: float = 0.0) -> list[Item]:
    stream = SmiStream(NONCE, 1.0, None)
    return [item for piece in (MARK, *pieces) for item in stream.feed(piece, now)]


def _reason(items: list[Item]) -> str:
    return next(item.reason for item in items if isinstance(item, Refused))


@pytest.mark.parametrize(
    ("local", "zone_s"),
    [
        ("2024/05/01 12:34:56.250", 0),
        ("2024/05/01 18:04:56.250", 19_800),
        ("2024/05/01 05:34:56.250", -25_200),
    ],
)
def test_times_are_utc_whatever_the_nodes_zone(local: str, zone_s: int) -> None:
    samples = [item for item in _run(_block(), _row(local)) if isinstance(item, Sample)]
    fast = samples[-1].gpus[0].fast
    assert fast is not None
    assert fast.t == pytest.approx(AT - 0.25), zone_s


def test_a_clock_of_whole_seconds_is_used_but_not_compared() -> None:
    items = _run(_block(f"{int(AT)}.%N"))
    assert [item.t for item in items if isinstance(item, Sample)] == [int(AT)]
    assert not [item for item in items if isinstance(item, Reply)]


@pytest.mark.parametrize(
    "pieces",
    [
        (_block(), _row(line=row(0).replace("310.55", "1e308").replace("81920", "1e308"))),
        (_block(), _row(line=row(0).replace(", 97,", ", 1e300,").replace("1410", "1e300"))),
        (_block("999999999999.000000000"), _row("9999/12/31 23:59:59.999")),
        (_block("0.000000000"), _row("0001/01/01 00:00:00.000")),
    ],
)
def test_numbers_and_times_beyond_those_of_an_agent_are_left_out(pieces: tuple[bytes, ...]) -> None:
    frames = [item for item in _run(*pieces, now=1.0) if isinstance(item, Sample | Hello)]
    assert all(decode(encode(frame)) == frame for frame in frames)
    readings = [gpu.fast for frame in frames if isinstance(frame, Sample) for gpu in frame.gpus]
    assert not any(one is not None and (one.power_w or 0) > 1e6 for one in readings)


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("[N/A]", "not_supported"),
        ("[Not Supported]", "not_supported"),
        ("N/A", "not_supported"),
        ("[Insufficient Permissions]", "no_permission"),
        ("[Unknown Error]", "unknown error"),
    ],
)
def test_words_instead_of_numbers_are_absent_with_their_reason(word: str, why: str) -> None:
    text = f"2024/05/01 12:34:56.250, {row(0)}".replace(" 310.55,", f" {word},").replace(" 97,", f" {word},")
    found = parse_row(text)
    sample = found.sample(uuid(0), AT)
    assert sample.fast is not None
    assert (sample.fast.power_w, sample.fast.utilization_pct, sample.fast.temperature_c) == (None, None, 61)
    assert found.missing() == {"power_w": why, "utilization_pct": why, "fan_pct": "not_supported"}


def test_only_errors_mean_a_lost_gpu() -> None:
    words = ", ".join(["[Unknown Error]"] * 21)
    line = f"0, {uuid(0)}, NVIDIA A100, 00000000:00:00.0, 535.1, [N/A], {words}"
    sample = parse_row(f"2024/05/01 12:34:56.250, {line}").sample(uuid(0), AT)
    assert (sample.state, sample.reason, sample.fast) == ("lost", "Unknown Error", None)


def test_a_gpu_without_a_uuid_is_reported_by_a_notice(sentences: Sentences) -> None:
    words = ", ".join(["[GPU is lost]"] * 26)
    hello = [item for item in _run(_block(), _row(line=f"3, {words}")) if isinstance(item, Hello)][-1]
    sentences([notice.text for notice in hello.notices])
    assert hello.gpus == []


@pytest.mark.parametrize(
    ("garbage", "words"),
    [
        (b"2024/05/01 12:34:56.250, 1, 2\n", "a row of 3 values"),
        (b"2024/05/01 99:99:99.250, " + row(0).encode() + b"\n", "without its time"),
        (_row(line=row(0).replace("0, ", "999999, ", 1)), "number 999999"),
        (b"x" * (LIMITS.max_line_bytes + 1) + b"\n", "more than 4096 bytes"),
        (b"\x1b]0;owned\x07\n", "\u241b]0;owned"),
        (b"@done reboot\n", "without a ping"),
    ],
)
def test_garbage_is_counted_and_the_stream_goes_on(garbage: bytes, words: str) -> None:
    items = _run(garbage, _block(), _row())
    assert words in _reason(items)
    assert [item for item in items if isinstance(item, Sample) and item.gpus]


def test_a_flood_of_empty_lines_ends_the_call() -> None:
    with pytest.raises(StreamError):
        _run(b"\n" * (1 << 20))


def test_a_flood_ends_the_call() -> None:
    with pytest.raises(StreamError, match="MiB/s"):
        _run(b"\n" * (int(LIMITS.bytes_burst) + 1))


@pytest.mark.parametrize("shell", ["sh", "bash", "dash", "zsh", "fish", "tcsh", "csh"])
def test_every_login_shell_runs_the_command(shell: str, tmp_path: Path) -> None:
    smi = FakeSmi(tmp_path / "bin")
    env = {"PATH": f"{smi.folder}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    stdin = first_line(NONCE, 60.0) + encode_request(Ping(id=-1)) * 2
    argv = [need(shell), "-c", COMMAND]
    done = subprocess.run(argv, input=stdin, capture_output=True, timeout=60, check=False, env=env)
    items = list(SmiStream(NONCE, 60.0, None).feed(done.stdout, 0.0))
    assert len([item for item in items if isinstance(item, Reply)]) == 2
    (sample,) = [item for item in items if isinstance(item, Sample)]
    assert sample.host is not None
    assert sample.host.load_1m is not None
    until(lambda: not any(psutil.pid_exists(pid) for pid in smi.pids()), "the end of nvidia-smi")


@given(st.lists(st.one_of(st.just(_block()), st.just(_row()), st.binary(max_size=60)), max_size=20))
def test_no_bytes_break_it_and_all_that_comes_out_is_a_frame(pieces: list[bytes]) -> None:
    for item in _run(*pieces):
        if isinstance(item, (Hello, Sample, Reply)):
            assert encode(item)
