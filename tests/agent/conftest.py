"""A fake driver for each test, and agents that are ended and looked for after it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agent.running import RunningAgent, described, left_behind
from tests.fake_nvml.build import FakeNvml, build
from tests.parts import need_compiler

Start = Callable[..., RunningAgent]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fake driver, as of today."""
    need_compiler()
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture(scope="session")
def old_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The fake driver without the symbols of the last years."""
    need_compiler()
    return build(tmp_path_factory.mktemp("old_nvml"), old_driver=True)


@pytest.fixture
def fake(library: Path, tmp_path: Path) -> FakeNvml:
    """A fake driver of eight H100s."""
    return FakeNvml(library, tmp_path / "fake")


def gone(driver: FakeNvml) -> None:
    """Nothing that was started with this driver may be there any more."""
    deadline = time.monotonic() + 60
    while left_behind(driver.control) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert [described(pid) for pid in left_behind(driver.control)] == []


@pytest.fixture
def start(fake: FakeNvml) -> Iterator[Start]:
    """Starts agents; each must be gone without a trace when the test is over."""
    agents: list[RunningAgent] = []

    def begin(driver: FakeNvml = fake, **options: Any) -> RunningAgent:
        agent = RunningAgent(options.pop("env", driver.env()), **options)
        agents.append(agent)
        return agent

    yield begin
    for agent in agents:
        agent.end()
    gone(fake)


@pytest.fixture(scope="module")
def healthy(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningAgent]:
    """An agent on eight healthy GPUs, shared by the tests of a module that only look or ask."""
    driver = FakeNvml(library, tmp_path_factory.mktemp("healthy"))
    agent = RunningAgent(driver.env())
    yield agent
    agent.end()
    gone(driver)
