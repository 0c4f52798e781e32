"""Two nodes of torchrun under `gpuwatch run`: networks and host names of their own, one folder of logs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.run.training_scripts import LIBRARY, SCRIPT, runs
from tests.cli.running import COMMAND, environment
from tests.netlab.lab import Lab, address, lab
from tests.parts import need, need_torch

pytestmark = pytest.mark.long
STATIC = ("--master-addr", address(0), "--master-port", "29544")
C10D = ("--rdzv-backend", "c10d", "--rdzv-endpoint", f"{address(0)}:29545", "--rdzv-id", "two-nodes")


def started(made: Lab, node: int, folder: Path, *rendezvous: str) -> subprocess.Popen[str]:
    """`gpuwatch run -- torchrun ...` on one of the nodes."""
    hosts = folder / "hosts"
    hosts.write_text("127.0.0.1 localhost\n" + "".join(f"{address(each)} node-{each}\n" for each in (0, 1)))
    script = f'hostname node-{node} && mount --bind "{hosts}" /etc/hosts && exec "$@"'
    named = ("unshare", "--uts", "--mount", "sh", "-c", script, "sh")
    launcher = (
        *(sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "2"),
        *(("--node-rank", str(node)) if "--master-addr" in rendezvous else ("--local-addr", address(node))),
        *rendezvous,
    )
    return subprocess.Popen(
        [need("ip"), "netns", "exec", made.space(node), *named, *COMMAND, "run", "--", *launcher, "train.py"],
        cwd=folder,
        env=environment(OMP_NUM_THREADS="1", GLOO_SOCKET_IFNAME="eth0"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize(
    ("script", "rendezvous", "order"),
    [(SCRIPT, STATIC, (1, 0)), (SCRIPT, C10D, (0, 1)), (LIBRARY, STATIC, (0, 1))],
    ids=["static", "c10d", "library"],
)
def test_two_nodes_write_one_session(
    tmp_path: Path, script: str, rendezvous: tuple[str, ...], order: tuple[int, ...]
) -> None:
    need_torch()
    (tmp_path / "train.py").write_text(script)
    with lab(2) as made:
        nodes = [started(made, node, tmp_path, *rendezvous) for node in order]
        try:
            ended = [each.communicate(timeout=300) for each in nodes]
        finally:
            for each in nodes:
                each.kill()
    assert [each.returncode for each in nodes] == [0, 0], ended
    (session,) = runs(tmp_path, "list")["sessions"]
    assert (session["mode"], session["world_size"], session["status"]) == ("multi", 4, "completed")
    shown = runs(tmp_path, "show", session["id"])["sessions"][0]
    assert [rank["rank"] for rank in shown["ranks"]] == [0, 1, 2, 3]
    assert {rank["node"] for rank in shown["ranks"]} == {"node-0", "node-1"}
    assert shown["steps"] == (40 if script is SCRIPT else 20)
    folder = next((tmp_path / "logs").glob("training_*"))
    summary = json.loads(next(folder.glob("*_summary.json")).read_text())
    assert summary["node_count"] == 2
    assert "node_001.json" in summary["parts"]
    assert len(list((folder / "ranks").glob("console_node-*.log"))) == 2
