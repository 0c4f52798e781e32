"""The report of two profiles as text, SVG and JSON, with names that are not harmless."""

from __future__ import annotations

import base64
import io
import json
import zlib
from xml.etree import ElementTree as ET

from msgspec import structs

from gpuwatch.diagnose.profiles.cost import MAX_KERNEL_SECONDS, ProfileOptions, kernels_cost_text
from gpuwatch.diagnose.profiles.profiled_rank import ProfiledRank, RankPace, read_threads
from gpuwatch.report.profile.json_output import profiles_json
from gpuwatch.report.profile.svg import flame_svg
from gpuwatch.report.profile.text import print_profiles
from gpuwatch.wire import ProcessKernels, ProcessProfile, TimedWork

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


def test_kernels_stand_with_their_share_of_the_span_and_unknown_times_are_no_zeros() -> None:
    work = [TimedWork("kernel", HOSTILE, 3, 1.5), TimedWork("copy", "Memcpy HtoD", 1, 0.5)]
    busy = ProcessKernels(7, span_s=2.0, busy_s=1.75, work=work, totals=[TimedWork("kernel", "", 3, 1.5)])
    refused = ProcessKernels(7, why="it was not started with KINETO_USE_DAEMON=1")
    ranks = [structs.replace(PAIR[0], kernels=busy), structs.replace(PAIR[1], kernels=refused), GONE]
    first, second, third = json.loads(profiles_json(ranks, ProfileOptions()))["ranks"]
    assert [each["span_pct"] for each in first["kernels"]["work"]] == [75.0, 25.0]
    assert (first["kernels"]["busy_s"], first["kernels"]["error"]) == (1.75, None)
    unknown = second["kernels"]
    assert (unknown["busy_s"], unknown["span_s"], unknown["trace_bytes"]) == (None, None, None)
    assert (unknown["error"], unknown["work"], third["kernels"]) == (refused.why, [], None)
    out = io.StringIO()
    print_profiles(ranks, 100, out)
    text = out.getvalue()
    assert "\x1b" not in text
    assert "75.0" in text and "1500.00" in text
    assert "KINETO_USE_DAEMON" in text


def test_the_cost_of_kernels_is_stated_with_the_file_that_the_rank_writes() -> None:
    assert "/dev/shm" in kernels_cost_text(ProfileOptions(kernels=True))
    assert ProfileOptions(seconds=60, kernels=True).kernel_seconds == MAX_KERNEL_SECONDS
