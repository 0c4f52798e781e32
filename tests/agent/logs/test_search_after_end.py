"""The end of a process that wrote logs lets the agent search for what it wrote elsewhere."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpuwatch.agent.logs.discovery import discovery
from gpuwatch.agent.logs.discovery.discovery import Discovery
from gpuwatch.agent.logs.files.mounts import Mounts
from gpuwatch.agent.logs.matching.prefilter import Prefilter
from gpuwatch.agent.logs.matching.ruleset import RuleSet

ERROR = (
    "Traceback (most recent call last):\n  torch/train.py\nKeyError: 'attention_mask'\nstep 3/10 loss 1.5\n"
)


def test_it_searches_soon_and_not_only_a_minute_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(discovery, "ENDED_S", 0.0)
    monkeypatch.setattr(discovery, "APART_S", 0.0)
    monkeypatch.setattr("gpuwatch.agent.logs.discovery.tail.LogTail.is_training", lambda *_, **__: True)
    added: list[str] = []
    catalog: Any = SimpleNamespace(
        starts=list, entries={}, blocked={}, add=lambda path, *_rest: added.append(path)
    )
    marker: Any = SimpleNamespace(file=lambda _path: None)
    rules = RuleSet([])
    search = Discovery(
        {"discover": True, "proc": str(tmp_path / "proc")}, catalog, Mounts(), marker, rules, Prefilter(rules)
    )
    while not search.settled:
        search.step()
    error = tmp_path / "torchelastic_x" / "ef_y" / "attempt_0" / "1" / "error.json"
    error.parent.mkdir(parents=True)
    error.write_text("KeyError")
    assert not search.step()
    assert added == []
    search.hurry()
    while search.step():
        pass
    assert added == [str(error)]
