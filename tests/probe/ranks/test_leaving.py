"""Nothing is left behind: no process and no file."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from gpuwatch.probe.protocol import Died, Note
from tests.parts import need_torch
from tests.probe.ranks.driver import Cluster, wait_until


@pytest.fixture(autouse=True)
def _torch() -> None:
    need_torch()


def gone(pid: int) -> bool:
    """No process, or one that only waits to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.sampled(1)
@pytest.mark.parametrize("ending", ["stop", "stdin ends", "killed"])
def test_no_process_outlives_the_worker_and_no_file_is_made(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Told to stop, left by its launcher, or killed: also in the middle of a collective."""
    for name in ("TMPDIR", "HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    with Cluster((3,)) as cluster:
        pids = [message.pid for message in cluster.ready()]
        worker = cluster.workers[0]
        if ending == "stop":
            assert cluster.stop() == [0]
            assert [message.text for message in cluster.all_of(Note, 0)] == []
            assert not cluster.all_of(Died, 0)
        else:
            worker.send(cluster.step("collective", collective="all_reduce", bytes=1 << 20, iterations=10**6))
            if ending == "killed":
                os.kill(worker.process.pid, signal.SIGKILL)
            assert worker.close() == (1 if ending == "stdin ends" else -signal.SIGKILL)
        for pid in pids:
            wait_until(lambda pid=pid: gone(pid))  # type: ignore[misc]
    assert not list(tmp_path.rglob("*"))


@pytest.mark.long
def test_megabytes_of_errors_are_cut_to_a_sentence() -> None:
    """An exception may carry a whole dump, and a library may write without ever ending a line."""
    loud = (
        "import os, gpuwatch.probe.ranks.rank as r;"
        "say = lambda: [os.write(2, b'x' * 65536) for _ in range(160)];"
        "r.ProbeRank._do = lambda *_: (_ for _ in say()).throw(RuntimeError('y' * 10_000_000));"
    )
    with Cluster((1,), before=loud) as cluster:
        (ready,) = cluster.ready()
        (done,) = cluster.do("collective", collective="all_reduce", bytes=1024)
        assert done.error == "y" * 300
        os.kill(ready.pid, signal.SIGKILL)
        (died,) = cluster.all_of(Died, 1)
        assert died.reason.startswith("killed by SIGKILL") and len(died.reason) < 1000
