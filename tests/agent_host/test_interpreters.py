"""The modules run under every Python that a node may have."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from gpuwatch import wire
from tests.parts import missing

AGENT = Path(__file__).resolve().parents[2] / "gpuwatch/agent"
VERSIONS = [f"3.{minor}" for minor in range(6, 14)]

SMOKE = """
import json, os, subprocess, sys, types
package = types.ModuleType("gpuwatch_agent")
package.__path__ = [sys.argv[1]]
sys.modules["gpuwatch_agent"] = package
from gpuwatch_agent import host, kernel_log, machine, processes, xid
rank = {"RANK": "3", "WORLD_SIZE": "4"}
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=rank)
reader = host.HostReader()
reader.read()
log = kernel_log.KernelLog()
log.poll()
rows, truncated = processes.ProcessReader().read({child.pid: [{"uuid": "GPU-a"}]})
journal = kernel_log.KernelLog(kmsg="/none", journal=["cat"])
journal.poll()
print(json.dumps({
    "machine": machine.describe(), "host": reader.read(), "notice": log.notice, "rows": rows,
    "bus": machine.nvidia_devices_on_bus(), "xid": xid.meaning(79), "child": child.pid,
}))
for one in (log, journal):
    one.close()
child.communicate(b"\\n")
"""


def interpreter(version: str) -> str:
    """A Python of this version on PATH or under pyenv, else skip (or fail where all are required)."""
    if sys.version_info[:2] == tuple(int(part) for part in version.split(".")):
        return sys.executable
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for folder in sorted(pyenv.glob(version + ".*")):
        if (folder / "bin/python").exists():
            return str(folder / "bin/python")
    found = shutil.which("python" + version)
    if found is None:
        missing(f"no Python {version} here")
    return found or ""


@pytest.mark.parametrize("version", VERSIONS)
def test_the_readers_run(version: str) -> None:
    done = subprocess.run(
        [interpreter(version), "-I", "-B", "-W", "error::SyntaxWarning", "-c", SMOKE, str(AGENT)],
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr.decode()
    told = json.loads(done.stdout)
    assert told["machine"]["python"].startswith(version + ".")
    msgspec.convert(told["host"], wire.HostSample)
    rows = {row.pid: row for row in msgspec.convert(told["rows"], list[wire.Process])}
    assert (rows[told["child"]].rank, rows[told["child"]].world_size) == (3, 4)
    assert told["xid"][1] == "critical"
    assert done.stderr == b""
