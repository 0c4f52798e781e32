"""The same agent on every Python that a node may have."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from gpuwatch.wire import Ping
from tests.agent.conftest import Start
from tests.fake_nvml.build import FakeNvml
from tests.parts import missing

VERSIONS = tuple(f"3.{minor}" for minor in range(6, 14))


def interpreter(version: str) -> str:
    """A Python of this version under pyenv or on PATH."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for folder in sorted(root.glob(f"{version}.*")):
        if (folder / "bin/python").exists():
            return str(folder / "bin/python")
    found = shutil.which(f"python{version}")
    if found is None or "shims" in found:
        missing(f"Python {version} is not here")
    return str(found)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_agent_runs_on(version: str, start: Start, fake: FakeNvml) -> None:
    fake.set("mig 1 1", "error 2 15 *", f"process 0 {os.getpid()} 1024 compute 5")
    agent = start(python=interpreter(version))
    assert agent.hello(lambda h: len(h.gpus) == 7).python.startswith(version + ".")
    assert agent.gpu(0, lambda g: g.fast is not None and g.fast.tensor_activity_pct is not None).state == "ok"
    assert agent.ranks(lambda r: any(p.gpus for p in r.processes)).partial is None
    agent.until(lambda _: 0 in fake.calls().get("nvmlDeviceRegisterEvents", {}), "registration")
    fake.add("xid 0 31 1")
    assert agent.event("xid").code == 31
    agent.send(Ping(id=1))
    assert agent.reply(1).error is None
    assert not any(getattr(f, "event", "") == "agent" for f in agent.frames), agent.frames
    agent.stdin.close()
    assert agent.wait() == 0
    assert agent.stderr.read() == b""
