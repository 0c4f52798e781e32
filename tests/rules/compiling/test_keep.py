"""Compiled rules that are kept on disk are those that would be made, whatever lies there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuwatch.rules.compiling import keep
from gpuwatch.rules.compiling.compile import compiled
from gpuwatch.rules.compiling.sealed_files import seal
from gpuwatch.rules.load import load_packs
from gpuwatch.rules.parsing.parse import parse_pack
from tests.agent.logs.scan_lines import rule

RULES = load_packs().rules
"""Read before a test has a cache folder of its own."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "gpuwatch"


def test_the_second_time_they_come_from_the_file_and_are_the_same(folder: Path) -> None:
    made = keep.compiled_or_kept(RULES)
    assert made == compiled(RULES)
    (file,) = folder.iterdir()
    written = file.stat().st_ino
    assert keep.compiled_or_kept(RULES) == made
    assert file.stat().st_ino == written


def test_a_damaged_file_is_made_anew_and_other_rules_have_another(folder: Path) -> None:
    rules = [each for each, _ in parse_pack(rule("frobnicator seized"), "a.yaml")]
    made = keep.compiled_or_kept(rules)
    (file,) = folder.iterdir()
    file.write_bytes(b'[{"id": ')
    assert keep.compiled_or_kept(rules) == made
    assert file.read_bytes().endswith(b"}]")
    for number in range(keep.MAX_CACHE_FILES + 2):
        others = [each for each, _ in parse_pack(rule(f"frobnicator {number}"), "a.yaml")]
        assert keep.compiled_or_kept(others)[0]["match"] == [f"frobnicator {number}"]
    assert len(list(folder.iterdir())) == keep.MAX_CACHE_FILES


def test_what_is_used_stays_while_others_come(folder: Path) -> None:
    rules, *others = (
        [each for each, _ in parse_pack(rule(f"frobnicator {number}"), "a.yaml")]
        for number in range(keep.MAX_CACHE_FILES + 3)
    )
    keep.compiled_or_kept(rules)
    (file,) = folder.iterdir()
    written = file.stat().st_ino
    for other in others:
        os.utime(file, (0, 0))
        keep.compiled_or_kept(rules)
        keep.compiled_or_kept(other)
    assert file.stat().st_ino == written


def test_a_folder_that_cannot_be_made_costs_only_the_time(folder: Path) -> None:
    folder.write_text("no folder")
    rules = [each for each, _ in parse_pack(rule("frobnicator seized"), "a.yaml")]
    assert keep.compiled_or_kept(rules) == compiled(rules)


@pytest.mark.parametrize("content", [b"[]", b"[]\n[]", b"", b'[{"id": "x"}]', b"\n"])
def test_a_file_that_was_not_kept_by_us_is_not_believed(folder: Path, content: bytes) -> None:
    rules = [each for each, _ in parse_pack(rule("frobnicator seized"), "a.yaml")]
    made = keep.compiled_or_kept(rules)
    (file,) = folder.iterdir()
    file.write_bytes(content)
    assert keep.compiled_or_kept(rules) == made


def test_what_was_kept_for_other_rules_is_not_taken_for_these(folder: Path) -> None:
    rules, others = ([each for each, _ in parse_pack(rule(text), "a.yaml")] for text in ("hot", "cold"))
    keep.compiled_or_kept(others)
    (other,) = folder.iterdir()
    made = keep.compiled_or_kept(rules)
    (file,) = set(folder.iterdir()) - {other}
    file.write_bytes(other.read_bytes())
    assert keep.compiled_or_kept(rules) == made


def test_a_file_that_others_may_write_or_a_link_is_not_read(folder: Path, tmp_path: Path) -> None:
    rules = [each for each, _ in parse_pack(rule("frobnicator seized"), "a.yaml")]
    keep.compiled_or_kept(rules)
    (file,) = folder.iterdir()
    kept = file.read_bytes()
    forged = seal(file.name, b"[]") + b"\n[]"
    file.write_bytes(forged)
    assert keep.compiled_or_kept(rules) == [], "as whoever has our rights could"
    file.chmod(0o666)
    assert keep.compiled_or_kept(rules) != []
    assert file.read_bytes() == kept
    (tmp_path / "elsewhere").write_bytes(forged)
    file.unlink()
    file.symlink_to(tmp_path / "elsewhere")
    assert keep.compiled_or_kept(rules) != []
