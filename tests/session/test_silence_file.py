"""Silences outlive the session that made them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwatch.diagnose.silences import Silence
from gpuwatch.session.settings_folder import own_packs, settings_folder
from gpuwatch.session.silence_file import SilenceFile

HOT = Silence("temperature", node="gpu-007", gpu=3)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "gpuwatch" / "silences.json"
    SilenceFile(path).write([HOT, Silence("storage.*", until=2000.0)], wall=1000.0)
    assert SilenceFile(path).read() == [HOT, Silence("storage.*", until=2000.0)]
    assert [each.name for each in path.parent.iterdir()] == ["silences.json"]
    assert path.stat().st_mode & 0o077 == 0


def test_one_that_has_ended_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "silences.json"
    SilenceFile(path).write([HOT, Silence("storage.*", until=2000.0)], wall=3000.0)
    assert SilenceFile(path).read() == [HOT]


def test_a_damaged_file_is_told_and_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "silences.json"
    path.write_text('[{"code": "temperature", "nod": "x"}]')
    file = SilenceFile(path)
    assert file.read() == []
    assert file.trouble is not None
    assert str(path) in file.trouble
    file.write([HOT], wall=0.0)
    assert "nod" in path.read_text()


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
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
    assert settings_folder() == tmp_path / "gpuwatch"
    (tmp_path / "gpuwatch" / "rules").mkdir(parents=True)
    (tmp_path / "gpuwatch" / "rules" / "b.yaml").write_text("")
    (tmp_path / "gpuwatch" / "rules" / "a.yaml").write_text("")
    assert [pack.name for pack in own_packs()] == ["a.yaml", "b.yaml"]
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative")
    assert settings_folder() == Path.home() / ".config" / "gpuwatch"
