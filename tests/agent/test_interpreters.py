"""The same agent on every Python that a node may have."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from gpuwatch.wire import Hello, Ping
from tests.agent.conftest import gone
from tests.agent.pythons import VERSIONS, all_at_work, interpreter
from tests.agent.running import RunningAgent
from tests.fake_nvml.build import FakeNvml


def identified(hello: Hello) -> int:
    """GPUs that have reported their UUIDs; the others are listed by their index."""
    return sum(gpu.identified for gpu in hello.gpus)


def live_a_little(version: str, fake: FakeNvml) -> None:
    """Every thread and every kind of frame once; then nothing may be left, nor said on stderr."""
    fake.set("mig 1 1", "error 2 15 *", f"process 0 {os.getpid()} 1024 compute 5")
    agent = RunningAgent(fake.env(), python=interpreter(version), kmsg="/none")
    try:
        assert agent.hello(lambda h: identified(h) == 7).python.startswith(version + ".")
        busy = agent.gpu(0, lambda g: g.fast is not None and g.fast.tensor_activity_pct is not None)
        assert busy.state == "ok"
        assert agent.ranks(lambda r: r.partial is None and any(p.gpus for p in r.processes))
        agent.until(lambda _: 0 in fake.calls().get("nvmlDeviceRegisterEvents", {}), "registration")
        fake.add("xid 0 31 1")
        assert agent.event("xid").code == 31
        agent.send(Ping(id=1))
        assert agent.reply(1).error is None
        fake.set("gpus 8")
        agent.hello(lambda h: identified(h) == 8 and not h.gpus[1].mig_enabled)
        assert not any(getattr(f, "event", "") == "agent" for f in agent.frames), agent.frames
        agent.stdin.close()
        assert agent.wait() == 0
        assert agent.stderr.read() == b""
    finally:
        agent.end()
    gone(fake)


@pytest.fixture(scope="module")
def lives(
    request: pytest.FixtureRequest, library: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[None]]]:
    folder = tmp_path_factory.mktemp("interpreters")
    yield from all_at_work(
        request, lambda version: live_a_little(version, FakeNvml(library, folder / version))
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_agent_runs_on(version: str, lives: dict[str, Future[None]]) -> None:
    assert lives[version].result() is None
