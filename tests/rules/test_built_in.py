"""The built-in packs that come from the cache folder are those that stand in the YAML."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from gpuwatch.rules.built_in import BuiltIn, built_in, built_in_packs, read_built_in
from gpuwatch.rules.compiling.sealed_files import seal


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "gpuwatch"


@pytest.fixture(scope="module")
def stated() -> BuiltIn:
    return read_built_in(built_in_packs())


def test_the_second_start_reads_the_same_from_the_file(folder: Path, stated: BuiltIn) -> None:
    assert built_in.__wrapped__() == stated
    (file,) = folder.iterdir()
    written = file.stat().st_ino
    assert built_in.__wrapped__() == stated
    assert (file.stat().st_ino, file.stat().st_mode & 0o777) == (written, 0o600)


def test_a_pack_that_changed_has_another_file(
    folder: Path, stated: BuiltIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packs = tmp_path / "packs"
    packs.mkdir()
    for pack in built_in_packs()[:2]:
        (packs / pack.name).write_bytes(pack.read_bytes())
    monkeypatch.setattr("gpuwatch.rules.built_in.BUILT_IN", packs)
    known = built_in.__wrapped__()
    assert 0 < len(known.packs) < len(stated.packs)
    (before,) = folder.iterdir()
    changed = packs / built_in_packs()[0].name
    changed.write_bytes(b"[]")
    os.utime(changed, (1.0, 1.0))
    assert set(built_in.__wrapped__().packs) < set(known.packs)
    assert len(set(folder.iterdir()) - {before}) == 1


@pytest.mark.parametrize("harm", ["cut", "foreign", "types", "no folder"])
def test_a_file_that_is_not_ours_is_not_believed(folder: Path, stated: BuiltIn, harm: str) -> None:
    built_in.__wrapped__()
    (file,) = folder.iterdir()
    data = msgspec.json.encode(BuiltIn((), (), {}))
    if harm == "cut":
        file.write_bytes(file.read_bytes()[:-10])
    elif harm == "foreign":
        file.write_bytes(seal(file.name, data) + b"\n" + data)
        file.chmod(0o666)
    elif harm == "types":
        file.write_bytes(seal(file.name, b"[]") + b"\n[]")
    else:
        file.unlink()
        folder.rmdir()
        folder.write_text("no folder")
    assert built_in.__wrapped__() == stated
