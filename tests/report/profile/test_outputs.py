"""The report of two profiles as text, SVG and JSON, with names that are not harmless."""

from __future__ import annotations

import base64
import io
import json
import zlib
from xml.etree import ElementTree as ET

from gpuwatch.diagnose.profiles.cost import ProfileOptions
from gpuwatch.diagnose.profiles.profiled_rank import ProfiledRank, RankPace, read_threads
from gpuwatch.report.profile.json_output import profiles_json
from gpuwatch.report.profile.svg import flame_svg
from gpuwatch.report.profile.text import print_profiles
from gpuwatch.wire import ProcessProfile

HOSTILE = "<script>alert(1)</script>&\x1b[2J"


def profile(rank: int, waiting: int) -> ProfiledRank:
    text = (
        f"thread (1): MainThread;main (/t.py:1);{HOSTILE} (/t.py:2) {100 - waiting}\n"
        f"thread (1): MainThread;main (/t.py:1);wait (/t.py:3) {waiting}\n"
    )
    packed = base64.b64encode(zlib.compress(text.encode())).decode()
    measured = ProcessProfile(pid=7, packed=packed, errors=50, seconds=10.0, py_spy_cpu_s=0.5)
    threads, why = read_threads(measured)
    pace = RankPace(0.5, 99.0)
    return ProfiledRank(rank, "node-1", 7, "j", 3, 8, threads, measured, pace, pace, why)


PAIR = [profile(4, 70), profile(1, 20)]
GONE = ProfiledRank(9, "node-2", 8, "j", None, why="py-spy: Permission denied")


def test_json_has_the_difference_the_cost_and_null_for_what_is_unknown() -> None:
    facts = json.loads(profiles_json([*PAIR, GONE], ProfileOptions()))
    first, last = facts["ranks"][0], facts["ranks"][2]
    assert {each["function"]: each["points"] for each in facts["differences"]}["wait"] == 50.0
    assert first["cost"]["py_spy_cpu_pct"] == 5.0
    assert first["cost"]["step_s"] == 0.5
    assert first["threads"][0]["samples"] == 100
    assert (last["error"], last["threads"], last["cost"]["py_spy_cpu_s"]) == (GONE.why, [], None)
    assert first.keys() == last.keys()


def test_svg_is_well_formed_and_runs_nothing() -> None:
    drawn = flame_svg(PAIR)
    root = ET.fromstring(drawn)  # noqa: S314 - our own text
    assert "\x1b" not in drawn
    names = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert names == {"svg", "rect", "text", "g", "title"}
    titles = [element.text for element in root.iter() if element.tag.endswith("title")]
    assert any("70 samples" in (title or "") for title in titles)


def test_text_shows_the_difference_before_the_graphs() -> None:
    out = io.StringIO()
    print_profiles([*PAIR, GONE], 100, out)
    text = out.getvalue()
    assert text.index("+50.0") < text.index("|wait (t.py:3)")
    assert "\x1b" not in text
    assert "5.0 %" in text
    assert "Permission denied" in text
    assert "ptrace_scope" in text
    assert "--blocking" in text  # 50 of 150 samples could not be read


def test_nothing_sampled_is_no_fault() -> None:
    out = io.StringIO()
    print_profiles([GONE], 100, out)
    assert "rank 9" in out.getvalue()
    assert ET.fromstring(flame_svg([GONE])) is not None  # noqa: S314 - our own text
