"""A fake driver, where a test needs GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fake_nvml.build import FakeNvml, build
from tests.parts import need_compiler


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fake driver, as of today."""
    need_compiler()
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def fake(library: Path, tmp_path: Path) -> FakeNvml:
    """A fake driver of eight H100s."""
    return FakeNvml(library, tmp_path / "fake")
