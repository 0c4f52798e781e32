"""Nothing is left: no process, no listener for everybody, no file; and the wrong result is seen."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from gpuwatch.probe.talk import Died
from tests.parts import need_module
from tests.probe_worker.driver import Cluster, wait_until

LISTEN = "0A"


@pytest.fixture(autouse=True)
def _torch() -> None:
    need_module("torch", "pip install torch")


def gone(pid: int) -> bool:
    """No process, or one that only waits to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def listeners(pids: list[int]) -> set[str]:
    """Hexadecimal addresses, without the port, on which these processes listen."""
    links = {str(fd.readlink()) for pid in pids for fd in Path(f"/proc/{pid}/fd").iterdir()}
    inodes = {link.removeprefix("socket:[").removesuffix("]") for link in links}
    rows = []
    for table in ("tcp", "tcp6"):
        path = Path(f"/proc/net/{table}")
        if path.exists():
            rows += [line.split() for line in path.read_text("utf-8").splitlines()[1:]]
    return {row[1].partition(":")[0] for row in rows if row[3] == LISTEN and row[9] in inodes}


@pytest.mark.parametrize("ending", ["stop", "end of stdin", "killed"])
def test_no_process_outlives_the_worker(ending: str) -> None:
    """Told to stop, left by its launcher, or killed: also in the middle of a collective."""
    with Cluster((3,)) as cluster:
        pids = [said.pid for said in cluster.ready()]
        worker = cluster.workers[0]
        if ending == "stop":
            assert cluster.stop() == [0]
            assert not cluster.all_of(Died, 0)
        else:
            worker.tell(cluster.step("collective", collective="all_reduce", bytes=1 << 20, iterations=10**6))
            if ending == "killed":
                os.kill(worker.process.pid, signal.SIGKILL)
            assert worker.close() == (1 if ending == "end of stdin" else -signal.SIGKILL)
        for pid in pids:
            wait_until(lambda pid=pid: gone(pid))  # type: ignore[misc]


def test_nothing_listens_on_every_interface_and_only_the_worker_of_the_store_holds_its_socket() -> None:
    """torch's own store would listen on all; gloo's ranks listen on the interface they were given."""
    with Cluster((2, 1)) as cluster:
        pids = [said.pid for said in cluster.ready()]
        cluster.do("bandwidth", answers=2, pairs=[(0, 2)], bytes=4096)
        workers = [worker.process.pid for worker in cluster.workers]
        assert listeners(pids) == {"0100007F"}
        assert listeners(workers[:1]) == {"0100007F"}
        assert listeners(workers[1:]) == set()


def test_no_file_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither where temporary files go, nor at home."""
    for name in ("TMPDIR", "HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    with Cluster((2,)) as cluster:
        cluster.ready()
        cluster.do("collective", collective="all_reduce", bytes=4096)
        assert cluster.stop() == [0]
    assert not list(tmp_path.rglob("*"))
