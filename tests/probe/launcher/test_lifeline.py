"""Nothing outlives a probe: whoever is killed or goes silent, every process on the node ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from gpuwatch.probe.protocol import Alive, Died, Leaving, Note, Stop
from tests.probe.launcher.driving import STUB_WORKER, Driven, dial, gone, with_a_rank
from tests.sentences import Sentences
from tests.servers.sshd import Sshd, setenv

pytestmark = pytest.mark.usefixtures("played_torch")


def test_the_end_of_the_connection_ends_the_whole_group() -> None:
    driven = Driven()
    everyone = with_a_rank(driven)
    driven.close()
    assert gone(*everyone)


def test_a_killed_launcher_takes_worker_and_ranks_along() -> None:
    with Driven() as driven:
        everyone = with_a_rank(driven)
        os.kill(everyone[0], signal.SIGKILL)
        assert gone(*everyone)


def test_a_launcher_that_is_asked_to_terminate_takes_them_along() -> None:
    with Driven() as driven:
        everyone = with_a_rank(driven)
        os.kill(everyone[0], signal.SIGTERM)
        assert gone(*everyone)


def test_a_killed_worker_takes_its_ranks_along_and_the_launcher_says_so() -> None:
    with Driven() as driven:
        everyone = with_a_rank(driven)
        os.kill(everyone[1], signal.SIGKILL)
        assert gone(*everyone[1:])
        driven.send(Stop())
        assert driven.until(Leaving).reason == "stopped"


def test_empty_lines_keep_the_launcher_alive() -> None:
    with Driven(silence_s=6.0) as driven:
        everyone = with_a_rank(driven)
        for _ in range(60):
            driven.carrier.send(b"\n")
            assert not gone(everyone[0], within_s=0.1)


def test_a_worker_that_does_not_stop_is_killed() -> None:
    stubborn = STUB_WORKER.replace('order["do"] == "stop"', 'order["do"] == "never"')
    with Driven(modules={"gpuwatch.probe.worker": stubborn}) as driven:
        everyone = with_a_rank(driven)
        driven.send(Stop())
        assert driven.until(Leaving).reason == "stopped"
        assert gone(*everyone)


def test_each_limit_of_time_ends_everything_although_the_connection_lives(sentences: Sentences) -> None:
    """They wait side by side: the deadline, the silence of the carrier, and that of a stopped worker."""
    with (
        Driven(deadline_s=20.0) as late,
        Driven(silence_s=20.0) as silent,
        Driven(worker_silence_s=24.0) as halted,
    ):
        everyone = with_a_rank(halted)
        os.kill(everyone[1], signal.SIGSTOP)  # at once: it is ended after so long a silence
        of_late, of_silent = with_a_rank(late), with_a_rank(silent)
        for driven, processes in ((late, of_late), (silent, of_silent)):
            sentences(driven.until(Leaving).reason)
            assert gone(*processes)
        halted.until(Alive, lambda message: message.worker == "T")
        reason = halted.until(Died, lambda message: message.rank is None).reason
        assert "SIGSTOP" in reason
        sentences(reason)
        assert gone(*everyone[1:])


def test_shared_memory_of_killed_ranks_goes_with_them_and_that_of_others_stays(tmp_path: Path) -> None:
    ours, theirs = (Path(f"/dev/shm/nccl-{tmp_path.name}-{os.getpid()}-{who}") for who in ("ours", "theirs"))
    mapping = (
        f"import mmap; f = open({str(ours)!r}, 'w+b'); f.truncate(4096); m = mmap.mmap(f.fileno(), 4096)"
    )
    worker = STUB_WORKER.replace("worker = os.getpid()", mapping)
    assert worker != STUB_WORKER
    theirs.touch()
    try:
        driven = Driven(modules={"gpuwatch.probe.worker": worker.replace("os.getppid() != worker", "False")})
        everyone = with_a_rank(driven)
        assert ours.exists()
        driven.close()
        assert gone(*everyone)
        assert (ours.exists(), theirs.exists()) == (False, True)
    finally:
        theirs.unlink()
        ours.unlink(missing_ok=True)


def test_a_killed_parent_leaves_nothing(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path / "pids")], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    assert parent.stdout.readline() == "ready\n"
    everyone = msgspec.json.decode((tmp_path / "pids").read_bytes(), type=list[int])
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert gone(*everyone)


PARENT = """
import json, sys, time
from pathlib import Path
from tests.probe.launcher.driving import Driven, with_a_rank
driven = Driven()
Path(sys.argv[1]).write_text(json.dumps(with_a_rank(driven)))
print("ready", flush=True)
time.sleep(600)
"""


def node_with(played_torch: str, folder: Path) -> Sshd:
    """An sshd whose sessions find that torch."""
    variables = {"HOME": str(folder), "PYTHONPATH": played_torch}
    return Sshd(folder / "sshd", lines=(f"SetEnv {setenv(variables)}",))


def test_over_real_ssh_a_killed_session_leaves_nothing(tmp_path: Path, played_torch: str) -> None:
    with node_with(played_torch, tmp_path) as sshd:
        argv = ["ssh", "-F", str(sshd.client.config), "-o", "BatchMode=yes", "-T", sshd.names[0]]
        with Driven(dial(argv=argv)) as driven:
            everyone = with_a_rank(driven)
            sshd.kill_sessions()
            assert gone(*everyone)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("way", ["close", "stop"])
def test_over_real_ssh_it_ends_as_everywhere(tmp_path: Path, played_torch: str, way: str) -> None:
    with node_with(played_torch, tmp_path) as sshd:
        argv = ["ssh", "-F", str(sshd.client.config), "-o", "BatchMode=yes", "-T", sshd.names[0]]
        with Driven(dial(argv=argv)) as driven:
            everyone = with_a_rank(driven)
            assert driven.until(Note).text
            if way == "stop":
                driven.send(Stop())
                driven.until(Leaving)
            else:
                driven.close()
            assert gone(*everyone)
