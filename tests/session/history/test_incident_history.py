"""Incidents of earlier sessions: kept once each, by several processes at a time, and counted."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs
from msgspec.structs import replace

from gpuwatch.diagnose.model.incident import DAY_S
from gpuwatch.hosts.builtin import demo_plan, local_plan
from gpuwatch.session import Session
from gpuwatch.session.history import incident_file
from gpuwatch.session.history.incident_file import NAME, HistoryError, IncidentFile
from gpuwatch.session.history.incident_memory import VARIABLE, keeps_history, recurrence
from gpuwatch.session.history.places import MAX_COMPARED, IncidentsByPlace
from gpuwatch.session.history.seen_incident import SAME_S, SeenIncident, is_same
from tests.cli.running import alone, gpuwatch
from tests.counted_calls import calls_of
from tests.session.evidence.live import OOM
from tests.tui.scripted_alerts import demo_incident

NOW = 1_700_000_000.0
XID = SeenIncident(
    "gpu-011", 5, "GPU-5", "gpu.xid.fell_off", "critical", "4711", "rank 85: Xid 79",
    NOW, NOW + 30, True, "", "hosts.yaml",
)  # fmt: skip


def days_ago(days: float, **changes: object) -> SeenIncident:
    at = NOW - days * DAY_S
    return structs.replace(XID, first=at, last=at + 30, **changes)


ODD: list[dict[str, object]] = [
    {"first": "abc"}, {"gpu": "z"}, {"gpu": 2**62}, {"first": 1e308}, {"first": -1e18},
    {"severity": "\x1b[2J"}, {"source": None}, {"headline": b"\xff\xfe"}, {"headline": "A" * 3_000_000},
    {"timed": None, "source": 5, "first": b"x"},
]  # fmt: skip


@pytest.mark.parametrize("changes", ODD, ids="-".join)
def test_an_odd_row_hides_no_other(tmp_path: Path, changes: dict[str, object]) -> None:
    file = IncidentFile(tmp_path / NAME)
    file.keep([days_ago(1), days_ago(2, code="gpu.other")], NOW)
    with sqlite3.connect(file.path) as database:
        for name, value in changes.items():
            database.execute(f"UPDATE incidents SET {name} = ? WHERE code = 'gpu.other'", (value,))  # noqa: S608 - names of our own
    database.close()
    assert [one.code for one in file.read()] == [XID.code]
    assert file.damaged == 1
    file.keep([days_ago(1), days_ago(2, code="gpu.other")], NOW)
    assert len(file.read()) == 2


def test_the_same_class_on_the_same_gpu_is_counted_wherever_it_is_built_in() -> None:
    before = [
        days_ago(1, node="gpu-012", gpu=0),
        days_ago(13),
        days_ago(15),
        days_ago(2, uuid="GPU-6"),
        days_ago(3, code="gpu.ecc"),
        XID,
    ]
    found = recurrence(demo_incident(), XID, placed(before))
    assert (found.count, len(found.earlier), found.days) == (3, 2, 14)
    assert {"third", "79", "gpu-011", "5", "14"} <= set(found.text.split())
    assert [round((NOW - each.at) / DAY_S) for each in found.earlier] == [1, 13]
    assert recurrence(demo_incident(), XID, placed([XID])).text == ""


def test_any_number_of_incidents_at_one_place_costs_each_a_bounded_comparison() -> None:
    every = [structs.replace(XID, first=NOW - 600 * n, last=NOW - 600 * n) for n in range(600)]
    places = placed(every)
    assert recurrence(demo_incident(), XID, places).count == MAX_COMPARED + 1
    for one in every[1:]:
        places.remove(one)
    assert recurrence(demo_incident(), XID, places).count == 1


def test_an_incident_is_compared_with_few_rows_and_finds_its_own(tmp_path: Path) -> None:
    file = IncidentFile(tmp_path / NAME)
    starts = [NOW + 2 * SAME_S * n for n in range(400)]
    many = [structs.replace(XID, job=f"job-{n}", first=at, last=at) for n, at in enumerate(starts)]
    file.keep(many, starts[-1])
    seen_again = structs.replace(many[7], last=starts[-1] + 9)
    few = IncidentFile(tmp_path / "few.sqlite")
    few.keep(many[:64], starts[-1])
    among_few = calls_of(lambda: few.keep([seen_again], starts[-1] + 9))
    assert calls_of(lambda: file.keep([seen_again], starts[-1] + 9)) < 1.2 * among_few
    rows = file.read()
    assert len(rows) == 400 and max(rows, key=lambda each: each.last).job == "job-7"
    new, empty = structs.replace(XID, first=starts[-1] + 9), IncidentFile(tmp_path / "empty.sqlite")
    among_none = calls_of(lambda: empty.keep([new], NOW))
    assert calls_of(lambda: file.keep([new], NOW)) < 1.2 * among_none


def test_records_of_one_incident_count_once() -> None:
    one = days_ago(1, timed=False)
    again = [structs.replace(one, first=one.first + 60 * n, last=one.last + 60 * n) for n in range(5)]
    of_a_line = [days_ago(day, cause="r@n:f:1") for day in (3, 4)]
    assert recurrence(demo_incident(), XID, placed([*again, *of_a_line])).count == 3


def placed(incidents: list[SeenIncident]) -> IncidentsByPlace:
    places = IncidentsByPlace()
    for one in incidents:
        places.add(one)
    return places


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (XID, structs.replace(XID, first=NOW + 2), True),
        (XID, structs.replace(XID, first=NOW + 600, last=NOW + 660), False),
        (structs.replace(XID, timed=False), structs.replace(XID, first=NOW + 600, timed=False), True),
        (structs.replace(XID, timed=False), structs.replace(XID, first=NOW + 9000, timed=False), False),
        (structs.replace(XID, cause="r@n:f:1"), days_ago(5, cause="r@n:f:1"), True),
        (XID, structs.replace(XID, gpu=4, uuid=None), False),
    ],
)
def test_which_two_are_one_incident(one: SeenIncident, other: SeenIncident, same: bool) -> None:
    assert is_same(one, other) is same
    assert is_same(other, one) is same


def test_two_processes_write_at_once_and_each_incident_is_there_once(tmp_path: Path) -> None:
    path = tmp_path / "state" / NAME
    script = (
        "import sys; from pathlib import Path; from msgspec import structs\n"
        "from gpuwatch.session.history.incident_file import IncidentFile\n"
        "from tests.session.history.test_incident_history import XID, DAY_S\n"
        "file, own = IncidentFile(Path(sys.argv[1])), sys.argv[2]\n"
        "for day in range(40):\n"
        "    at = XID.first - day * DAY_S\n"
        "    both = structs.replace(XID, first=at, last=at)\n"
        "    file.keep([both, structs.replace(both, node=own, uuid=own)], XID.first)\n"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", script, str(path), name], cwd=Path(__file__).parents[3])
        for name in ("a", "b")
    ]
    assert [each.wait(60) for each in running] == [0, 0]
    kept = IncidentFile(path).read()
    assert sorted(each.node or "" for each in kept) == ["a"] * 40 + ["b"] * 40 + ["gpu-011"] * 40
    assert [each.first for each in kept] == sorted((each.first for each in kept), reverse=True)
    assert path.stat().st_mode & 0o777 == 0o600


def test_it_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incident_file, "MAX_ROWS", 10)
    file = IncidentFile(tmp_path / NAME)
    file.keep([days_ago(day) for day in range(30)], NOW)
    assert [each.first for each in file.read()] == [NOW - day * DAY_S for day in range(10)]
    file.keep([days_ago(500)], NOW)
    assert len(file.read()) == 10


def test_the_incidents_of_one_node_push_out_none_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incident_file, "MAX_ROWS", 10)
    file = IncidentFile(tmp_path / NAME)
    file.keep([days_ago(100 + day, node="gpu-001", uuid=None) for day in range(3)], NOW)
    file.keep([days_ago(day) for day in range(30)], NOW)
    assert Counter(each.node for each in file.read()) == {"gpu-001": 3, "gpu-011": 7}


def newer(path: Path) -> None:
    with sqlite3.connect(path) as file:
        file.execute("PRAGMA user_version = 99")


@pytest.mark.parametrize(
    "damage",
    [
        newer,
        lambda path: path.write_bytes(b"no database" * 100),
        lambda path: path.mkdir(),
        lambda path: (path.write_bytes(b""), path.chmod(0o666)),
        lambda path: path.symlink_to("/etc/passwd"),
    ],
)
def test_a_file_that_cannot_be_used_is_reported_once_and_the_session_goes_on(
    damage: Callable[[Path], object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    path = tmp_path / "gpuwatch" / NAME
    path.parent.mkdir(mode=0o700)
    damage(path)
    with pytest.raises(HistoryError):
        IncidentFile(path).keep([XID], NOW)
    session = Session(replace(local_plan(), nodes=()))
    with session:
        assert session._memory is not None
        while session._memory._places is None:
            session.poll()
    trouble = session.take_trouble()
    assert trouble is not None
    assert str(path) in trouble
    assert session.take_trouble() is None


def test_the_demo_is_never_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)
    assert keeps_history(local_plan())
    assert not keeps_history(demo_plan())


def test_what_once_has_seen_is_listed_once(tmp_path: Path) -> None:
    log = tmp_path / "rank_1.log"
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time.time() - 60))
    log.write_text(f"{at},000 [rank1] step 1 loss 2.0\n{at},500 [rank1] {OOM}\n")
    changes = {VARIABLE: "on", "XDG_STATE_HOME": str(tmp_path)}
    for _ in range(2):
        done = alone("once", "--local", "--json", "--log", str(log), "--wait", "20", changes=changes)
        (incident,) = json.loads(done.stdout)["incidents"]
        assert (incident["history"]["count"], incident["history"]["text"]) == (1, None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path))
        listed = json.loads(gpuwatch("incidents", "--json").stdout)["incidents"]
        assert [(each["class"], each["job"]) for each in listed] == [(incident["class"], incident["job"])]
        assert gpuwatch("incidents", "--since", "99w", "--node", "no-such").returncode == 0
        assert gpuwatch("incidents", "--since", "soon").returncode == 2
