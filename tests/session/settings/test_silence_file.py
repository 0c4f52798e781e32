"""Silences outlive the session that made them."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

import pytest

from gpuwatch import whole_file
from gpuwatch.diagnose.model.alert import Silence
from gpuwatch.own_folders import config_folder
from gpuwatch.rules.load import own_packs
from gpuwatch.session.settings.silence_file import SilenceFile

HOT = Silence("temperature", node="gpu-007", gpu=3)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "gpuwatch" / "silences.json"
    SilenceFile(path).write([HOT, Silence("storage.*", until=2000.0)], wall=1000.0)
    assert SilenceFile(path).read() == [HOT, Silence("storage.*", until=2000.0)]
    assert sorted(each.name for each in path.parent.iterdir()) == ["silences.json", "silences.lock"]
    assert path.stat().st_mode & 0o077 == 0


def test_one_that_has_ended_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "silences.json"
    SilenceFile(path).write([HOT, Silence("storage.*", until=2000.0)], wall=3000.0)
    assert SilenceFile(path).read() == [HOT]


def test_two_cockpits_keep_the_silences_of_both(tmp_path: Path) -> None:
    path = tmp_path / "silences.json"
    disk, net, late = Silence("disk_full"), Silence("ib_down", node="a"), Silence("clock_off")
    SilenceFile(path).write([HOT], wall=0.0)
    one, other = SilenceFile(path), SilenceFile(path)
    mine, yours = one.read(), other.read()
    mine = one.write([*mine, disk], wall=0.0)
    yours = other.write([*yours, net], wall=0.0)
    assert yours == [HOT, disk, net]
    assert one.write([each for each in mine if each != HOT], wall=0.0) == [disk, net], "one takes HOT back"
    assert other.write([*yours, late], wall=0.0) == [disk, net, late], "the other only adds"
    longer = Silence("disk_full", until=9.0)
    assert one.write([longer, net], wall=0.0) == [net, late, longer], "the same alerts, for another time"


def test_many_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "silences.json"
    script = (
        "import sys; from pathlib import Path; from gpuwatch.session.settings.silence_file import *\n"
        "f = SilenceFile(Path(sys.argv[1])); known = f.read()\n"
        "for n in range(20): known = f.write([*known, Silence(f'{sys.argv[2]}.{n}')], 0.0)\n"
        "assert f.trouble is None, f.trouble\n"
    )
    writers = [subprocess.Popen([sys.executable, "-c", script, str(path), name]) for name in "abc"]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    assert sorted(each.code for each in SilenceFile(path).read()) == sorted(
        f"{name}.{number}" for name in "abc" for number in range(20)
    )


def test_a_lock_that_is_not_let_go_of_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_file, "LOCK_S", 0.05)
    file = SilenceFile(tmp_path / "silences.json")
    with (tmp_path / "silences.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert file.write([HOT], wall=0.0) == [HOT]
    assert file.trouble is not None
    assert not file.path.exists()


def test_a_damaged_file_is_reported_and_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "silences.json"
    path.write_text('[{"code": "temperature", "nod": "x"}]')
    file = SilenceFile(path)
    assert file.read() == []
    assert file.trouble is not None
    assert str(path) in file.trouble
    file.write([HOT], wall=0.0)
    assert "nod" in path.read_text()


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "in the way").write_text("")
    file = SilenceFile(tmp_path / "in the way" / "silences.json")
    file.read()
    file.write([HOT], wall=0.0)
    assert file.trouble is not None


def test_no_file_is_no_trouble(tmp_path: Path) -> None:
    file = SilenceFile(tmp_path / "silences.json")
    assert (file.read(), file.trouble) == ([], None)


def test_the_folder_follows_xdg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert config_folder() == tmp_path / "gpuwatch"
    (tmp_path / "gpuwatch" / "rules").mkdir(parents=True)
    (tmp_path / "gpuwatch" / "rules" / "b.yaml").write_text("")
    (tmp_path / "gpuwatch" / "rules" / "a.yaml").write_text("")
    assert [pack.name for pack in own_packs()] == ["a.yaml", "b.yaml"]
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert config_folder() == Path.home() / ".config" / "gpuwatch"
