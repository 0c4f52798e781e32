"""A node without Python: nvidia-smi and /proc through real shells and a real sshd."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.smi.node import SILENT_S
from gpuwatch.link.stream.options import LinkOptions
from gpuwatch.session import Session
from gpuwatch.wire import SetInterval
from tests.link.smi.fake_smi import FakeSmi, bus, lost_row, row, uuid
from tests.link.watching import nothing_left, until
from tests.parts import need
from tests.sentences import Sentences
from tests.servers.sshd import Sshd

MIB = 1 << 20


@pytest.fixture
def smi(tmp_path: Path) -> FakeSmi:
    return FakeSmi(tmp_path / "bin")


def _command(smi_folder: Path, *shell: str) -> NodeSpec:
    """A command link to "a node" with this folder as its whole PATH."""
    env = shutil.which("env") or "env"
    return NodeSpec("n1", link="command", command=(env, f"PATH={smi_folder}", *shell))


@contextmanager
def _session(spec: NodeSpec, options: LinkOptions | None = None) -> Iterator[Session]:
    with nothing_left(), Session(Plan((spec,), interval_s=0.2), options) as session:
        yield session


def _gpus(session: Session, count: int = 2) -> bool:
    session.poll()
    node = session.fleet.nodes["n1"]
    return len([gpu for gpu in node.gpus.values() if gpu.fast is not None]) == count


def _notice(session: Session, code: str) -> str | None:
    session.poll()
    hello = session.fleet.nodes["n1"].hello
    found = [notice.text for notice in hello.notices if notice.code == code] if hello else []
    return found[0] if found else None


def test_the_gpus_and_the_host_are_shown_and_the_notice_says_what_is_missing(smi: FakeSmi) -> None:
    need("getconf")
    with _session(_command(smi.folder)) as session:
        node = session.fleet.nodes["n1"]
        until(lambda: _gpus(session) and node.clock and node.host and node.host.cpu_pct is not None, "values")
        until(lambda: _gpus(session) and node.state(time.monotonic()) == "live", "a new frame")
        assert node.hello is not None
        assert node.hello.driver == "535.161.08"
        assert node.hello.host == os.uname().nodename
        assert node.hello.cpu_count == os.cpu_count()
        notice = next(notice for notice in node.hello.notices if notice.code == "no_python")
        assert (notice.severity, "nvidia-smi" in notice.text) == ("warning", True)
        assert "python3" in (notice.remedy or "")
        gpu = node.gpus[uuid(1)]
        assert (gpu.info.index, gpu.info.bus_id, gpu.info.memory_total_bytes) == (1, bus(1), 81920 * MIB)
        assert gpu.fast is not None
        assert (gpu.fast.utilization_pct, gpu.fast.memory_used_bytes, gpu.fast.power_w) == (
            97,
            1024 * MIB,
            310.55,
        )
        assert gpu.fast.throttle == ["power_cap", "sw_thermal"]
        assert gpu.medium is not None
        assert (gpu.medium.pcie_gen, gpu.medium.fan_pct) == (4, None)
        assert gpu.missing == {"fan_pct": "not_supported"}
        assert node.host is not None
        assert node.host.memory_total_bytes == psutil.virtual_memory().total
        assert node.clock is not None
        assert abs(node.clock.offset_s) <= node.clock.error_s + 0.05
        assert abs(gpu.fast.t - time.time()) < 60  # in UTC, whatever the node's zone
        assert node.refused == 0
    until(lambda: not any(psutil.pid_exists(pid) for pid in smi.pids()), "the end of nvidia-smi")


def test_an_old_nvidia_smi_is_asked_for_less(smi: FakeSmi) -> None:
    smi.grow_old()
    smi.show(row(0, more=False), row(1, more=False))
    with _session(_command(smi.folder)) as session:
        until(lambda: _gpus(session), "the GPUs")
        until(lambda: _notice(session, "nvidia_smi_failed") is None, "the end of the notice")
        gpu = session.fleet.nodes["n1"].gpus[uuid(0)]
        assert gpu.fast is not None
        assert (gpu.fast.sm_clock_mhz, gpu.fast.throttle, gpu.slow) == (1410, None, None)


@pytest.mark.parametrize(
    "broken",
    [
        lost_row(1),
        "Unable to determine the device handle for GPU 0000:01:00.0: GPU is lost.  Reboot the system.",
    ],
)
def test_a_lost_gpu_is_lost_not_zero_and_comes_back(smi: FakeSmi, broken: str) -> None:
    with _session(_command(smi.folder)) as session:
        until(lambda: _gpus(session), "the GPUs")
        gpu, other = (session.fleet.nodes["n1"].gpus[uuid(index)] for index in (1, 0))
        smi.show(row(0), broken)
        until(lambda: session.poll() and gpu.state == "lost", "the loss")
        assert "GPU is lost" in (gpu.reason or "")
        assert other.state == "ok"
        smi.show(row(0), row(1))
        until(lambda: session.poll() and gpu.state == "ok", "the return")
        events = session.fleet.nodes["n1"].events
        until(lambda: session.poll() and len(events) >= 2, "the events")
        assert [event.event for event in events] == ["gpu_lost", "gpu_back"]


def test_an_nvidia_smi_that_fails_leaves_the_host_and_its_words(smi: FakeSmi, sentences: Sentences) -> None:
    smi.fail("NVIDIA-SMI has failed because it couldn't communicate with the \033[31mNVIDIA driver.")
    with _session(_command(smi.folder)) as session:
        text = until(lambda: _notice(session, "nvidia_smi_failed"), "the notice")
        assert text is not None
        sentences(text)
        node = session.fleet.nodes["n1"]
        until(lambda: session.poll() and node.host is not None, "the host")
        until(lambda: session.poll() and node.state(time.monotonic()) == "live", "a new frame")


def test_an_nvidia_smi_that_hangs_makes_its_gpus_stuck_and_is_ended_with_the_link(smi: FakeSmi) -> None:
    with _session(_command(smi.folder)) as session:
        until(lambda: _gpus(session), "the GPUs")
        (pid,) = smi.pids()
        os.kill(pid, signal.SIGSTOP)
        gpu = session.fleet.nodes["n1"].gpus[uuid(0)]
        until(lambda: session.poll() and gpu.state == "stuck", f"{SILENT_S} s of silence")
        assert gpu.stuck_in == "nvidia-smi"
        until(lambda: _notice(session, "nvidia_smi_silent"), "the notice")
        assert session.fleet.nodes["n1"].link.phase == "live"
    until(lambda: not psutil.pid_exists(pid), "the end of the stopped nvidia-smi")


def test_requests_that_nobody_answers_are_refused(smi: FakeSmi) -> None:
    with _session(_command(smi.folder)) as session:
        until(lambda: _gpus(session), "the GPUs")
        assert not session._links.all[0].send(SetInterval(id=1, seconds=1.0))


def test_a_node_with_neither_says_both_and_is_tried_rarely(tmp_path: Path, sentences: Sentences) -> None:
    if shutil.which("nvidia-smi", path="/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin:/usr/lib/wsl/lib"):
        pytest.skip("this machine has an nvidia-smi")
    with _session(_command(tmp_path)) as session:
        node = session.fleet.nodes["n1"]
        until(lambda: session.poll() and node.link.phase == "lost", "the loss")
        sentences(node.link.reason)
        assert node.link.retry_at is not None
        assert node.link.retry_at - time.monotonic() > 30
        session.retry("another")
        session.retry("n1")
        until(lambda: session.poll() and node.link.attempt == 2, "the next attempt")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", ["paramiko", "ssh"])
@pytest.mark.parametrize("stuck", [False, True])
def test_a_killed_connection_leaves_no_process(tmp_path: Path, smi: FakeSmi, way: str, stuck: bool) -> None:
    forced = f'ForceCommand env PATH={smi.folder} /bin/sh -c "$SSH_ORIGINAL_COMMAND"'
    with Sshd(tmp_path / "sshd", names=["n1"], lines=[forced]) as sshd:
        spec, options = sshd.spec(), sshd.client.options()
        if way == "ssh":
            argv = (need("ssh"), "-F", str(sshd.client.config), "-T", "{address}")
            spec = NodeSpec("n1", link="command", command=argv)
        with _session(spec, options) as session:
            until(lambda: _gpus(session), "the GPUs")
            node = session.fleet.nodes["n1"]
            assert node.hello is not None
            pids = [node.hello.pid, *smi.pids()]
            if stuck:
                os.kill(pids[-1], signal.SIGSTOP)
            for pid in sshd.sessions():
                os.kill(pid, signal.SIGKILL)
            until(lambda: not any(psutil.pid_exists(pid) for pid in pids), f"the end of {pids}")
            until(lambda: _gpus(session) and node.hello and node.hello.pid != pids[0], "the next call")
        until(lambda: not any(psutil.pid_exists(pid) for pid in smi.pids()), "the end of all")
