"""A fake driver, where a test needs GPUs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fake_nvml.build import FakeNvml, build
from tests.parts import need_compiler
from tests.probe.launcher.driving import fake_torch


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fake driver, as of today."""
    need_compiler()
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def played_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A torch that launchers find and nothing imports, so that none has to be installed; its PYTHONPATH."""
    folder = str(fake_torch(tmp_path / "torch_of_the_test"))
    monkeypatch.setenv("PYTHONPATH", folder, prepend=os.pathsep)
    return folder


@pytest.fixture
def fake(library: Path, tmp_path: Path) -> FakeNvml:
    """A fake driver of eight H100s."""
    return FakeNvml(library, tmp_path / "fake")
