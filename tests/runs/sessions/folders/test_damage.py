"""Session folders with any damage: what is left is shown, what is missing is named, nothing raises."""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gpuwatch.blocks.html import html
from gpuwatch.blocks.markdown import markdown
from gpuwatch.report.output.blocks import print_blocks
from gpuwatch.report.output.console import console_on, show
from gpuwatch.report.sessions.communication import communication_facts, communication_lines
from gpuwatch.report.sessions.comparison import comparison_facts, comparison_lines, list_lines
from gpuwatch.report.sessions.details import detail_facts, detail_lines
from gpuwatch.report.sessions.document import build_document
from gpuwatch.runs.comparison.communication import communication_report
from gpuwatch.runs.comparison.compare import compare
from gpuwatch.runs.sessions.find import find_sessions
from gpuwatch.runs.sessions.model.session import TrainingSession
from gpuwatch.telemetry.session.summary import LISTS, OBJECTS, SCALARS, empty_summary
from tests.hostile_text import EVIL, steering
from tests.runs.sessions.written import MAIN, MULTI, MULTIGPU, PERFORMANCE, write_session

ENDINGS = ("summary.json", "main.log", "multigpu.log", "performance.log")
PART = "parts/rank_0001.json"
KEYS = (*SCALARS, *OBJECTS, *LISTS)
INNER = sorted({key for keys in (*OBJECTS.values(), *LISTS.values()) for key in keys} | {
    "ranks", "results", "step", "time", "count", "first", "last", "example", "severity", "bytes_total",
    "time_total_s", "share_of_step_time", "uuid", "samples", "utilization_avg_pct", "memory_total_bytes",
})  # fmt: skip
SCALAR = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.sampled_from((10**20, 10**400, -(10**400), 2**63)),
    st.floats(), st.sampled_from(("", EVIL, "x" * 70_000, "\ud800", "multi", "single", "1e9", "NaN")),
)  # fmt: skip
ANY_JSON = st.recursive(
    SCALAR,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.sampled_from((*INNER, EVIL)), inner, max_size=5)
    ),
    max_leaves=12,
)
DAMAGES = ("cut", "empty", "absent", "noise", "folder", "link", "loop", "pipe", "sparse", "deep", "lines")

UNREADABLE = frozenset(("empty", "folder", "link", "loop", "pipe", "sparse", "deep"))
"""Damages after which nothing of a JSON file is left."""


def test_a_main_log_of_noise_is_named(tmp_path: Path) -> None:
    folder = write_session(tmp_path, MULTI, {"mode": "multi", "steps": 3}, main="\xff\xfe\0garbage\n" * 3)
    (session,) = find_sessions((), tmp_path).sessions
    assert any(problem.startswith(f"{MULTI}_main.log: ") for problem in session.problems)
    (folder / f"{MULTI}_main.log").write_text(MAIN)
    (session,) = find_sessions((), tmp_path).sessions
    assert not any(problem.startswith(f"{MULTI}_main.log: ") for problem in session.problems)


def whole_session(logs: Path) -> Path:
    """A complete session with a part, whose steps stand in its main log."""
    summary = {**empty_summary(), "mode": "multi", "world_size": 2, "steps": 100, "duration_s": 40.0}
    folder = write_session(logs, MULTI, summary, main=MAIN, multigpu=MULTIGPU, performance=PERFORMANCE)
    (folder / "parts").mkdir()
    part = {"format": "gpuwatch-session-part", "version": 1, "rank": 1, "ranks": [{"rank": 1, "steps": 100}]}
    (folder / PART).write_text(json.dumps(part))
    return folder


def damage(path: Path, kind: str, at: int) -> None:
    """Damage a file; `at`: 0 to 1000, where."""
    raw = path.read_bytes()
    place = len(raw) * at // 1000
    path.unlink()
    if kind == "cut":
        path.write_bytes(raw[:place])
    elif kind == "empty":
        path.touch()
    elif kind == "noise":
        path.write_bytes(raw[:place] + bytes(range(256)) * 4 + raw[place:])
    elif kind == "folder":
        path.mkdir()
    elif kind == "link":
        path.symlink_to("/dev/zero")
    elif kind == "loop":
        path.symlink_to(path.name)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "sparse":
        path.write_bytes(raw)
        os.truncate(path, (65 if path.suffix == ".json" else 4) << 20)
    elif kind == "deep":
        path.write_bytes(b'{"a":' * 50_000)
    elif kind == "lines":
        path.write_bytes(b"\n".join(reversed(raw.split(b"\n"))))


def every_form(sessions: list[TrainingSession]) -> tuple[str, str]:
    """All that the commands print of sessions, as text and as JSON."""
    reports = [communication_report(each, sessions) for each in sessions]
    facts = [
        comparison_facts(compare(sessions)),
        *map(detail_facts, sessions),
        *map(communication_facts, reports),
    ]
    document = build_document(sessions)
    text = io.StringIO()
    with console_on(text) as console:
        for line in (
            *list_lines(sessions),
            *comparison_lines(compare(sessions)),
            *(line for each in sessions for line in detail_lines(each)),
            *(line for each in reports for line in communication_lines(each)),
        ):
            show(console, line)
        print_blocks(document, console)
    return text.getvalue() + html(document) + markdown(document), json.dumps(facts, allow_nan=False)


@contextlib.contextmanager
def logs() -> Iterator[Path]:
    """A folder for one example."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name) / "logs"


def check(top: Path) -> TrainingSession:
    """Read the only session and print it in every form."""
    found = find_sessions((), top)
    (session,) = found.sessions
    text, facts = every_form(found.sessions)
    assert not steering(text.replace("\x1b[0m", "")), "the text steers a terminal"
    assert isinstance(json.loads(facts), list)
    return session


FILES = (*(f"{MULTI}_{ending}" for ending in ENDINGS), PART)


def damaged(broken: dict[str, tuple[str, int]]) -> None:
    with logs() as top:
        folder = whole_session(top)
        for name, (kind, at) in broken.items():
            damage(folder / name, kind, at)
        session = check(top)
        for name, (kind, _) in broken.items():
            if name.endswith(".json") and kind in UNREADABLE:
                assert any(Path(name).name in problem for problem in session.problems), (name, kind)
        if FILES[1] not in broken:
            assert [len(each.points) for each in session.curves.named("loss")] == [2]
        if FILES[0] not in broken:
            assert (session.summary.steps, session.summary.duration_s) == (100, 40.0)
        if FILES[3] not in broken:
            assert session.summary.gpus


def changed(summary: dict[str, Any], part: dict[str, Any]) -> None:
    with logs() as top:
        folder = whole_session(top)
        for path, more in ((folder / FILES[0], summary), (folder / PART, part)):
            known = json.loads(path.read_text())
            path.write_text(json.dumps({**known, **more}))
        session = check(top)
        assert [len(each.points) for each in session.curves.named("loss")] == [2]


BROKEN = st.dictionaries(
    st.sampled_from(FILES),
    st.tuples(st.sampled_from(DAMAGES), st.integers(0, 1000)),
    min_size=1,
    max_size=3,
)
CHANGED = st.dictionaries(st.sampled_from(KEYS), ANY_JSON, min_size=1, max_size=6)
FEW, MANY = (
    settings(
        max_examples=count,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.explicit, Phase.reuse, Phase.generate),
    )
    for count in (6, 400)
)
"""An example takes 30 ms and more: a failing one is not shrunk."""


@FEW
@given(BROKEN)
def test_a_damaged_folder_shows_the_rest(broken: dict[str, tuple[str, int]]) -> None:
    damaged(broken)


@FEW
@given(CHANGED, CHANGED)
def test_no_value_of_a_wrong_type_hides_the_rest(summary: dict[str, Any], part: dict[str, Any]) -> None:
    changed(summary, part)


@pytest.mark.long
@MANY
@given(BROKEN)
def test_many_damaged_folders(broken: dict[str, tuple[str, int]]) -> None:
    damaged(broken)


@pytest.mark.long
@MANY
@given(CHANGED, CHANGED)
def test_many_wrong_types(summary: dict[str, Any], part: dict[str, Any]) -> None:
    changed(summary, part)
