"""Frames survive the trip, bad lines are refused, and no remote string can steer a terminal."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from gpuwatch import wire
from gpuwatch.plain import MAY_STEER, plain

HOSTILE = [
    "\x1b]0;owned\x07",
    "\x1b[2J",
    "\x9b31m",
    "a\u202eb",
    "\u2066x\u2069",
    "zero\u200bwidth",
    "line\u2028end",
    "\x00\x08\x7f",
    "\U000e0041",
]


def frame(**fields: object) -> bytes:
    return json.dumps({"v": 1, "t": 1.0, "seq": 1, **fields}).encode()


def test_a_frame_survives_the_trip() -> None:
    sample = wire.Sample(
        t=5.0,
        seq=2,
        gpus=[wire.GpuSample(uuid="GPU-1", fast=wire.GpuFast(t=4.5, utilization_pct=0.0, throttle=[]))],
    )
    again = wire.decode(wire.encode(sample))
    assert again == sample
    assert isinstance(again, wire.Sample)
    fast = again.gpus[0].fast
    assert fast is not None
    assert fast.utilization_pct == 0.0, "a measured zero stays a zero"
    assert fast.power_w is None, "what was not measured is unknown"
    assert fast.throttle == [], "'no reason holds' is not 'unknown'"


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("ascii_only", [True, False])
def test_no_string_of_a_frame_can_steer_the_terminal(text: str, ascii_only: bool) -> None:
    line = json.dumps(
        {
            "v": 1,
            "t": 1.0,
            "seq": 1,
            "kind": "event",
            "event": "xid",
            "title": text,
            "detail": f"before {text} after",
        },
        ensure_ascii=ascii_only,
    ).encode()
    event = wire.decode(line)
    assert isinstance(event, wire.Event)
    for shown in (event.title, event.detail or ""):
        assert not any(unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for char in shown), shown


@given(st.text())
def test_plain_text_holds_no_control_or_format_character_that_terminals_obey(text: str) -> None:
    cleaned = plain(text)
    assert len(cleaned) == len(text)
    assert not any(unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"} for char in cleaned)
    overrides = {"RLO", "LRO", "RLE", "LRE", "PDF", "RLI", "LRI", "FSI", "PDI"}
    assert not any(unicodedata.bidirectional(char) in overrides for char in cleaned)


def test_every_character_that_is_not_seen_is_replaced_and_noticed_in_a_frame() -> None:
    for code in (*range(0x80, 0x1E000), *range(0xE0000, 0xE1000)):
        char = chr(code)
        is_hidden = unicodedata.category(char) in {"Cc", "Cf", "Cs", "Zl", "Zp"}
        if plain(char) != char and not 0xD800 <= code < 0xE000:
            assert MAY_STEER.search(char.encode())
        else:
            assert not is_hidden or plain(char) != char
    assert not {"\u3164", "\u115f", "\uffa0", "\u034f", "\u2800"} & set(
        plain("\u3164\u115f\uffa0\u034f\u2800")
    )


@given(st.binary(max_size=400))
def test_garbage_is_refused_and_never_raises_anything_else(line: bytes) -> None:
    with pytest.raises(wire.FrameError):
        wire.decode(b"{" + line)


@pytest.mark.parametrize(
    ("line", "states"),
    [
        (frame(kind="surprise"), "kind"),
        (frame(kind="sample", gpus=[{"uuid": 7}]), "str"),
        (frame(kind="bye"), "reason"),
        (b"[" * 100_000, "."),
        (b"x" * (wire.MAX_LINE_BYTES + 1), "over the limit"),
        (json.dumps({"v": 1, "t": 1, "seq": 1, "kind": "bye", "reason": "\ud800"}).encode(), "."),
    ],
)
def test_a_line_that_is_not_a_frame_says_why(line: bytes, states: str) -> None:
    with pytest.raises(wire.FrameError, match=states):
        wire.decode(line)


def test_a_field_of_a_newer_agent_is_ignored() -> None:
    assert isinstance(wire.decode(frame(kind="bye", reason="done", mood="fine")), wire.Bye)


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "sample", "t": 1e308},
        {"kind": "sample", "t": -1e12},
        {"kind": "event", "event": "xid", "title": "x", "t": 1e18},
        {"kind": "sample", "host": {"t": 1.0, "memory_total_bytes": 10**400}},
        {
            "kind": "finding",
            "id": 1,
            "rule": "a.b",
            "severity": "error",
            "file": "f",
            "offset": 0,
            "at": 1.0,
            "lines": ["x"],
            "key": -5,
        },
        {"kind": "logs", "files": 7},
        {"kind": "ranks", "processes": [{"pid": 1, "name": "a"}], "truncated": -1},
    ],
)
def test_a_value_out_of_bounds_is_refused_at_the_edge(fields: dict[str, object]) -> None:
    with pytest.raises(wire.FrameError):
        wire.decode(frame(**fields))


@pytest.mark.parametrize(
    ("kind", "rows", "bad"),
    [
        ("ranks", "processes", {"pid": 1, "name": "a", "rank": 1_000_000}),
        ("ranks", "processes", {"pid": 1, "name": "a", "rank": 0, "world_size": 90_000_000}),
        ("ranks", "processes", 7),
        ("logs", "files", {"path": "/a", "grown_at": -2.2e9}),
        ("logs", "files", {"path": "x" * 5000}),
    ],
)
def test_one_users_process_or_file_hides_no_other(kind: str, rows: str, bad: object) -> None:
    good = {"pid": 2, "name": "b\x1b[2J"} if kind == "ranks" else {"path": "/b\x1b[2J"}
    found = wire.decode(frame(kind=kind, **{rows: [bad, good, bad]}, truncated=1))
    assert isinstance(found, wire.Ranks | wire.Logs)
    assert found.truncated == 3
    if isinstance(found, wire.Ranks):
        assert [(one.pid, one.name) for one in found.processes] == [(2, "b\u241b[2J")]
        assert found.partial
    else:
        assert [one.path for one in found.files] == ["/b\u241b[2J"]


@pytest.mark.parametrize("rows", [[1] * 400_000, [{}] * 300_000, [1] * 5000, {"a": 1}, "abc"])
def test_a_frame_of_invalid_rows_is_refused_soon(rows: object) -> None:
    """Of each row the reason was made; a frame of 1 MiB took 0.3 s of CPU time."""
    with pytest.raises(wire.FrameError):
        wire.decode(frame(kind="ranks", processes=rows))


@pytest.mark.parametrize(
    "bad", [{"host": "h" * 5000}, {"rank": -1}, {"rank": 10**6}, {"fields": {"x": [1]}}, {"job": 7}]
)
def test_what_a_line_states_hides_no_finding(bad: dict[str, object]) -> None:
    found = wire.decode(frame(kind="finding", **FINDING, lines=["x"], pid=7, **bad))
    assert isinstance(found, wire.Finding)
    (name,) = bad
    assert (found.pid, getattr(found, name)) == (7, {} if name == "fields" else None)


FINDING = {"id": 1, "rule": "a.b", "severity": "error", "file": "/a", "offset": 0, "at": 1.0}


@pytest.mark.parametrize(("key", "line"), [(0, "first"), (1, "second"), (2, ""), (2**63 - 1, "")])
def test_a_finding_whose_key_is_outside_of_its_lines_has_no_key_line(key: int, line: str) -> None:
    finding = wire.decode(frame(kind="finding", **FINDING, lines=["first", "second"], key=key))
    assert isinstance(finding, wire.Finding)
    assert finding.key_line == line
    assert structs.replace(finding, key=-1).key_line == ""


def test_a_negative_key_is_refused_at_the_edge() -> None:
    with pytest.raises(wire.FrameError):
        wire.decode(frame(kind="finding", **FINDING, lines=["first"], key=-1))
