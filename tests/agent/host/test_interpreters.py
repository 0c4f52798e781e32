"""The modules run under every Python that a node may have."""

from __future__ import annotations

import base64
import gzip
import json
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import msgspec
import pytest

from gpuwatch import wire
from tests.agent.pythons import VERSIONS, all_at_work, interpreter

AGENT = Path(__file__).resolve().parents[3] / "gpuwatch/agent"

SMOKE = """
import json, os, shutil, subprocess, sys, tempfile, types
package = types.ModuleType("gpuwatch_agent")
package.__path__ = [sys.argv[1]]
sys.modules["gpuwatch_agent"] = package
from gpuwatch_agent.hang_evidence import flight_files, flight_pipe, ras, stacks
from gpuwatch_agent.host import host_reader, machine
from gpuwatch_agent.kernel import kernel_log, xid_table
from gpuwatch_agent.processes import process_reader
folder = tempfile.mkdtemp()
rank = {"RANK": "3", "WORLD_SIZE": "4", "NCCL_RAS_ADDR": "127.0.0.1:1"}
rank["TORCH_FR_DUMP_TEMP_FILE"] = folder + "/fr_"
rank["TORCH_WORKER_SERVER_SOCKET"] = folder + "/none.sock"
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env=rank)
reader = host_reader.HostReader()
reader.read()
log = kernel_log.KernelLog()
log.poll()
rows, truncated = process_reader.ProcessReader().read({child.pid: [{"uuid": "GPU-a"}]})
journal = kernel_log.KernelLog(kmsg="/none", journal=["cat"])
journal.poll()
waits = stacks.stacks({"pids": [child.pid], "py_spy": "/bin/false"})
counts = ras.ras({"pids": [child.pid]})
dumps = flight_pipe.trigger({"pids": [child.pid]})
with open(folder + "/fr_3", "w") as file:
    file.write("{}")
left = flight_files.dump_files({"pids": [child.pid]})
piece = flight_files.dump_piece({"pid": child.pid, "prefix": folder + "/fr_", "name": "3"})
shutil.rmtree(folder)
print(json.dumps({
    "left": left, "piece": piece,
    "machine": machine.describe(), "host": reader.read(), "notice": log.notice, "rows": rows,
    "bus": machine.nvidia_devices_on_bus(), "xid": xid_table.meaning(79), "child": child.pid,
    "stacks": waits, "ras": counts, "dumps": dumps,
}))
for one in (log, journal):
    one.close()
child.communicate(b"\\n")
"""


def run(version: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [interpreter(version), "-I", "-B", "-W", "error::SyntaxWarning", "-c", SMOKE, str(AGENT)],
        capture_output=True,
        check=False,
        timeout=60,
    )


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[subprocess.CompletedProcess[bytes]]]]:
    yield from all_at_work(request, run)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_readers_run(version: str, runs: dict[str, Future[subprocess.CompletedProcess[bytes]]]) -> None:
    done = runs[version].result()
    assert done.returncode == 0, done.stderr.decode()
    reported = json.loads(done.stdout)
    assert reported["machine"]["python"].startswith(version + ".")
    msgspec.convert(reported["host"], wire.HostSample)
    rows = {row.pid: row for row in msgspec.convert(reported["rows"], list[wire.Process])}
    assert (rows[reported["child"]].rank, rows[reported["child"]].world_size) == (3, 4)
    assert reported["xid"][1] == "critical"
    (waits,) = msgspec.convert(reported["stacks"], wire.Stacks).processes
    assert (waits.pid, waits.threads[0].state) == (reported["child"], "S")
    assert re.match(r"py-spy: status 1; .*debug socket: ", str(waits.why))
    (counts,) = msgspec.convert(reported["ras"], wire.RasAnswers).answers
    assert counts.error is not None
    (dump,) = msgspec.convert(reported["dumps"], wire.DumpResults).processes
    assert "PIPE_FILE" in str(dump.error)
    (place,) = msgspec.convert(reported["left"], wire.DumpPlaces).places
    assert [(file.rank, file.size_bytes) for file in place.files] == [(3, 2)]
    piece = msgspec.convert(reported["piece"], wire.DumpPiece)
    assert gzip.decompress(base64.b64decode(piece.packed)) == b"{}"
    assert done.stderr == b""
