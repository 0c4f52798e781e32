"""`gpuwatch profile` on two real ranks, over a real sshd and here."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.cli.running import COMMAND, ROOT, environment, gpuwatch
from tests.end_to_end.hang.hanging import py_spy
from tests.end_to_end.tty.terminal import Terminal, quoted
from tests.parts import SEEN_BY_EVERY_AGENT, need, need_torch
from tests.servers.sshd import Sshd

pytestmark = SEEN_BY_EVERY_AGENT

PACES = (("rank_cpu_before_pct", "rank_cpu_pct"), ("step_before_s", "step_s"))
RANK = """
import os, threading, time
def load_batch(): threading.Event().wait(0.02)
def compute(): return sum(range(20000))
step = 0
while True:
    load_batch() if os.environ["RANK"] == "1" else compute()
    step += 1
    if step % 10 == 0: print("step: %d loss: 0.5 step_time: 0.02s" % step, flush=True)
    if os.environ["RANK"] == "0": time.sleep(0.005)
"""


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Two ranks, of which rank 1 waits for its data."""
    folder = tmp_path_factory.mktemp("profiled")
    (folder / "rank.py").write_text(RANK)
    name = f"profiled-{os.getpid()}"
    ranks = []
    for rank in ("0", "1"):
        env = {**os.environ, "RANK": rank, "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": name}
        with (folder / f"rank{rank}.log").open("w") as log:
            argv = [sys.executable, str(folder / "rank.py")]
            ranks.append(subprocess.Popen(argv, env=env, stdout=log))
    yield name
    for each in ranks:
        each.kill()
        each.wait()


def test_two_ranks_side_by_side_over_ssh(job: str, tmp_path: Path) -> None:
    picture = tmp_path / "profile.svg"
    with Sshd(tmp_path / "sshd", names=("node-1",)) as sshd:
        done = gpuwatch(
            "profile", "node-1", "-F", str(sshd.client.config), "--rank", "1", "--job", job, "--against", "0",
            "--seconds", "2", "--py-spy", py_spy(), "--json", "--wait", "45", "-o", str(picture),
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "% of one CPU" in done.stderr  # before it starts
    facts = json.loads(done.stdout)
    slow, usual = facts["ranks"]
    assert [(each["rank"], each["node"], each["error"]) for each in facts["ranks"]] == [
        (1, "node-1", None),
        (0, "node-1", None),
    ]
    assert slow["cost"]["py_spy_cpu_s"] > 0
    compared = [name for name in PACES if None not in (slow["cost"][name[0]], slow["cost"][name[1]])]
    assert compared, slow["cost"]
    assert usual["threads"][0]["samples"] > 20
    loading = next(
        each for each in facts["differences"] if (each["called_by"] or each)["function"] == "load_batch"
    )
    assert loading["points"] > 30
    assert len(list(ET.parse(picture).iter())) > 10  # noqa: S314 - our own file


@pytest.mark.parametrize("against", [(), pytest.param(("--against", "median"), marks=pytest.mark.long)])
def test_what_cannot_be_sampled_is_refused(job: str, against: tuple[str, ...]) -> None:
    rank = "1" if against else "7"
    done = gpuwatch("profile", "--local", "--rank", rank, "--job", job, "--wait", "6", *against)
    assert (done.returncode, done.stdout) == (2, "")
    assert ("median" if against else "0 to 1") in done.stderr


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="a pid namespace needs root")
def test_the_key_on_the_training_screen_samples_a_real_rank(tmp_path: Path) -> None:
    """`6`, the rank under the cursor, `ctrl+t`: the cost first, then after Enter its stacks.

    Ranks and screens have a pid namespace of their own: no other job of the machine is seen.
    """
    py_spy()
    (tmp_path / "rank.py").write_text(RANK)
    python = quoted(sys.executable)
    starts = [
        f"RANK={rank} WORLD_SIZE=2 TORCHELASTIC_RUN_ID=keyed {python} rank.py > rank{rank}.log &"
        for rank in "01"
    ]
    (tmp_path / "start.sh").write_text("\n".join([*starts, f"exec {python} -m gpuwatch --local\n"]))
    with Terminal(160, 45, GPUWATCH_DISCOVER="off", GPUWATCH_INCIDENT_HISTORY="off") as terminal:
        terminal.type(f"cd {tmp_path}; unshare --fork --pid --mount-proc sh start.sh")
        terminal.wait_for(r"1 live", 120)
        terminal.press("6")
        terminal.wait_for(r"keyed", 120)
        for key in ("Down", "Up", "Down", "Up"):  # the ranks are listed one after the other, in any order
            terminal.press(key)
            terminal.press("C-t")
            if re.search(r"rank 1 \(", terminal.wait_for(r"% of one CPU", 120)):
                break
            terminal.press("q")
            terminal.wait_for(r"keyed", 120)
        terminal.press("Enter")
        screen = terminal.wait_for(r"load_batch", 120)
        assert re.search(r"rank 1 .* \d{2,} samples", screen)
        assert re.search(r"py-spy \d\.\d+ s", screen)
        terminal.press("Escape")
        terminal.wait_for(r"keyed", 60)


TRACED = """
import time, torch
weights = torch.randn(300, 300, requires_grad=True)
step = 0
while True:
    (weights @ weights).sum().backward()
    step += 1
    if step % 100 == 0: print("step: %d loss: 0.5" % step, flush=True)
    time.sleep(0.005)
"""


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="a network namespace needs root")
def test_a_real_torch_rank_records_its_operators_on_demand(tmp_path: Path) -> None:
    """In a network of its own: the socket that libkineto asks has one name on a machine."""
    need_torch()
    (tmp_path / "rank.py").write_text(TRACED)
    name = f"traced-{os.getpid()}"
    words = ["profile", "--local", "--rank", "0", "--job", name, "--seconds", "2", "--kernels", "--json",
             "--wait", "60", "--py-spy", py_spy()]  # fmt: skip
    command = " ".join(quoted(each) for each in (*COMMAND, *words))
    rank = f"{quoted(sys.executable)} {tmp_path}/rank.py > {tmp_path}/log"
    script = f"{rank} & {command}; status=$?; kill $!; exit $status"
    env = {**environment(), "RANK": "0", "WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": name}
    env |= {"KINETO_USE_DAEMON": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [need("unshare"), "--net", "sh", "-c", script],
        env=env, cwd=ROOT, capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "/dev/shm" in done.stderr  # before it starts
    (traced,) = json.loads(done.stdout)["ranks"]
    assert traced["error"] is None
    kernels = traced["kernels"]
    assert (kernels["error"], kernels["busy_s"]) == (None, None)  # no GPU
    assert {each["category"] for each in kernels["totals"]} == {"cpu_op"}
    multiplied = next(each for each in kernels["work"] if each["name"] == "aten::mm")
    assert multiplied["count"] > 10
    assert 0 < multiplied["span_pct"] <= 100
    assert 1.5 < kernels["span_s"] < 10
    assert not [
        each for each in Path("/dev/shm").iterdir() if re.match(rf"gpuwatch-\w+_{traced['pid']}\.", each.name)
    ]


@pytest.mark.long
def test_ctrl_c_leaves_no_py_spy(job: str, tmp_path: Path) -> None:
    link = tmp_path / "bin" / "py-spy"
    link.parent.mkdir()
    link.write_bytes(Path(py_spy()).read_bytes())  # a path of its own, to be found by
    link.chmod(0o755)
    argv = [
        *COMMAND,
        "profile",
        "--local",
        "--rank",
        "1",
        "--job",
        job,
        "--seconds",
        "60",
        "--py-spy",
        str(link),
    ]
    command = subprocess.Popen(
        argv, env=environment(), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    deadline = time.monotonic() + 60
    while not running(link, b"record"):
        assert command.poll() is None, command.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    command.send_signal(signal.SIGINT)
    command.communicate(timeout=60)
    assert command.returncode == 130
    while running(link, b"record"):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def running(program: Path, argument: bytes) -> list[str]:
    """The pids that run a program with an argument."""
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (folder / "cmdline").read_bytes().split(b"\0") if folder.name.isdigit() else []
            if os.fsencode(program) in words and argument in words:
                found.append(folder.name)
    return found
