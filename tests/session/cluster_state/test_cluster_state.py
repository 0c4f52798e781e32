"""Acknowledgements, silences and notes of a cluster: kept, shared by cockpits, and lost by none of them."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.diagnose.alerts.operator_marks import Acknowledgement, OperatorMarks
from gpuwatch.diagnose.model.alert import Alert, Proof, Silence
from gpuwatch.hosts.builtin import demo_plan, local_plan
from gpuwatch.hosts.load import load_source
from gpuwatch.hosts.plan import Thresholds
from gpuwatch.rules.load import load_packs
from gpuwatch.session.cluster_state import cluster_state
from gpuwatch.session.cluster_state.cluster_state import ClusterState, marks_file
from gpuwatch.session.cluster_state.marks import ClusterMarks, KeptNote, KeptSilence, lasting, with_note
from gpuwatch.session.cluster_state.marks_file import MarksError, MarksFile, file_name
from tests.tui.scripted_alerts import demo_incident

PACKS = load_packs()
HOT = Silence("temperature", node="gpu-007", gpu=3)
NOW = 1000.0


def cockpit(path: Path, *, shared: bool = False) -> tuple[ClusterState, AlertBook]:
    state, book = (
        ClusterState(MarksFile(path, shared=shared), list, lambda: NOW),
        AlertBook(PACKS, Thresholds()),
    )
    book.incidents = [demo_incident()]
    book.alerts = {alert.id: alert for alert in demo_incident().alerts}
    state.restore(book)
    return state, book


def wait(done: Callable[[], object]) -> None:
    began = time.monotonic()
    while not done():
        assert time.monotonic() < began + 60
        time.sleep(0.01)


def test_a_second_cockpit_shows_them_with_who(tmp_path: Path) -> None:
    path = tmp_path / "state" / "cluster.json"
    (one, mine), (other, theirs) = cockpit(path), cockpit(path)
    other.start()
    incident = mine.incidents[0]
    one.acknowledge(mine, incident.id)
    assert one.silence(mine, HOT) is None
    assert one.note(mine, incident.id, "ticket 4711\x1b[31m, power-cycled") is None

    def shown() -> object:
        other.update(theirs)
        return theirs.incidents[0].notes and theirs.silences

    assert cluster_state.POLL_EVERY_S <= 1.0
    wait(shown)
    (note,) = theirs.incidents[0].notes
    assert (note.by, "\x1b" in note.text) == (cluster_state.person(), False)
    assert theirs.silences == (HOT,)
    cause = incident.cause
    assert cause is not None
    marked = theirs._marks.applied(cause, NOW)
    assert (marked.acknowledged, marked.acknowledged_by) == (True, cluster_state.person())
    other.unacknowledge(theirs, incident.id)
    one.start()

    def gone() -> bool:
        one.update(mine)
        return not mine._marks.applied(cause, NOW).acknowledged

    wait(gone)
    one.close()
    other.close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_many_cockpits_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    script = (
        "import sys; from pathlib import Path\n"
        "from gpuwatch.session.cluster_state.marks import *\n"
        "from gpuwatch.session.cluster_state.marks_file import MarksFile\n"
        "file = MarksFile(Path(sys.argv[1]))\n"
        "for n in range(15):\n"
        "    file.change(lambda marks: with_note(marks, KeptNote('i', f'{sys.argv[2]}{n}', 1.0)), 2.0)\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", script, str(path), name]) for name in "ab"]
    assert [each.wait(60) for each in running] == [0, 0]
    texts = sorted(note.text for note in MarksFile(path).read()[0].notes)
    assert texts == sorted(f"{name}{number}" for name in "ab" for number in range(15))


def test_a_group_shares_a_file_in_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "team"
    folder.mkdir()
    folder.chmod(0o2770)
    file = MarksFile(folder / "cluster.json", shared=True)
    file.change(lambda marks: with_note(marks, KeptNote("i", "text", NOW)), NOW)
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        assert path.stat().st_gid == folder.stat().st_gid
    folder.chmod(0o777)
    with pytest.raises(MarksError):
        file.change(lambda marks: marks, NOW)


@pytest.mark.parametrize("text", ["{", '{"version": 99}', '{"notes": [{"incident": 1}]}', "[" * 10_000])
def test_a_damaged_file_is_reported_once_left_alone_and_the_marks_hold_here(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / "cluster.json"
    path.write_text(text)
    state, book = cockpit(path)
    assert state.silence(book, HOT) is not None
    assert book.silences == (HOT,)
    trouble = state.take_trouble()
    assert trouble is not None
    assert str(path) in trouble
    assert state.take_trouble() is None
    assert path.read_text() == text
    path.unlink()
    assert state.silence(book, Silence("disk_full")) is None
    assert [each.code for each in MarksFile(path).read()[0].silences] == ["temperature", "disk_full"]


def test_another_users_file_is_not_believed_unless_it_is_shared(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    path.write_text("{}")
    path.chmod(0o664)
    with pytest.raises(MarksError):
        MarksFile(path).read()
    assert MarksFile(path, shared=True).read()[0] == ClusterMarks()
    path.chmod(0o666)
    with pytest.raises(MarksError):
        MarksFile(path, shared=True).read()


STRANGER = 65534


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make files of another user")
def test_a_strangers_marks_silence_nothing(tmp_path: Path) -> None:
    text = '{"version":1,"silences":[{"code":"oom.cuda"}]}'
    team, anywhere = tmp_path / "team", tmp_path / "anywhere"
    for folder, mode in ((team, 0o2775), (anywhere, 0o1777)):
        folder.mkdir()
        folder.chmod(mode)
    planted = anywhere / "m.json"
    planted.write_text(text)
    os.chown(planted, STRANGER, STRANGER)
    link = team / "m.json"
    link.symlink_to(planted)
    os.chown(link, STRANGER, STRANGER, follow_symlinks=False)
    own = anywhere / "own"
    own.mkdir()
    os.chown(own, STRANGER, STRANGER)
    (own / "m.json").write_text(text)
    for path in (planted, link, own / "m.json"):
        with pytest.raises(MarksError):
            MarksFile(path, shared=True).read()
    link.unlink()
    link.write_text(text)
    os.chown(link, STRANGER, STRANGER)
    with pytest.raises(MarksError):
        MarksFile(link, shared=True).read()
    os.chown(link, STRANGER, team.stat().st_gid)  # a member of the group has written it
    assert MarksFile(link, shared=True).read()[0].silences


def test_silences_of_before_are_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    state, book = ClusterState(MarksFile(path), lambda: [HOT], lambda: NOW), AlertBook(PACKS, Thresholds())
    state.restore(book)
    assert book.silences == (HOT,)
    state.silence(book, Silence("disk_full"))
    assert [each.silence for each in MarksFile(path).read()[0].silences] == [HOT, Silence("disk_full")]


def test_what_is_old_or_has_ended_is_forgotten() -> None:
    notes = with_note(ClusterMarks(), KeptNote("i", "old", at=0.0))
    marks = structs.replace(notes, silences=(KeptSilence("a", until=5.0), KeptSilence("b", until=1e9)))
    left = lasting(marks, 1e8)
    assert (left.notes, [each.code for each in left.silences]) == ((), ["b"])


def alert(kind: str, first: float, count: int = 1) -> Alert:
    proof = Proof(kind, "text")  # type: ignore[arg-type]
    return Alert("x", "temperature", "warning", "t", "t", (proof,), first=first, last=first, count=count)


@pytest.mark.parametrize(
    ("kind", "first", "acknowledged"),
    [
        ("line", 900.0, True),
        ("line", 1003.0, True),
        ("line", 1500.0, False),
        ("value", 1500.0, False),
        ("value", 2010.0, True),
        ("value", 2900.0, False),
    ],
)
def test_what_another_cockpit_acknowledged_is_not_a_later_alert(
    kind: str, first: float, acknowledged: bool
) -> None:
    marks = OperatorMarks()
    began = 2000.0 if first > 2000 else 500.0
    marks.restore_acknowledged([Acknowledgement("x", 1000.0, "bob@a", 1000.0)], began)
    assert marks.applied(alert(kind, first), 3000.0).acknowledged is acknowledged


def test_a_value_that_comes_again_is_acknowledged_no_more() -> None:
    marks = OperatorMarks()
    marks.acknowledge([alert("value", 900.0)], 1000.0, "bob@a")
    assert marks.applied(alert("value", 900.0), 1001.0).acknowledged_by == "bob@a"
    assert not marks.applied(alert("value", 900.0, count=2), 1002.0).acknowledged
    assert marks.lapsed == {"x"}


def test_where_the_marks_of_a_plan_are(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.yaml"
    hosts.write_text("state: shared/gpu.json\nhosts: [gpu-001]\n")
    file = marks_file(load_source(str(hosts)))
    assert file is not None
    assert (file.path, file.shared) == (tmp_path / "shared" / "gpu.json", True)
    own = marks_file(local_plan())
    assert own is not None
    assert not own.shared
    assert own.path.is_relative_to(os.environ["XDG_STATE_HOME"])
    assert marks_file(demo_plan()) is None
    assert file_name("gpu-[001-016]") != file_name("gpu-[001-017]")
    assert "/" not in file_name("../../a/hosts.yaml")


def test_no_thread_is_left_when_it_is_closed(tmp_path: Path) -> None:
    state, _ = cockpit(tmp_path / "state" / "cluster.json")
    before = set(threading.enumerate())
    state.start()
    state.close()
    assert set(threading.enumerate()) <= before
