from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest

from gpuwatch import wire
from gpuwatch.agent.processes import process_details, process_reader
from gpuwatch.agent.processes.process_details import runtime_logs
from gpuwatch.agent.processes.process_reader import ProcessReader
from tests.agent.trees import Clock, process, stat_line, wait_until, write
from tests.sentences import Sentences
from tests.workers.isolation import DRIVER_PIDS

AGENT = Path(process_reader.__file__).parents[1]
RANK_3 = {
    "RANK": "3",
    "LOCAL_RANK": "1",
    "WORLD_SIZE": "8",
    "MASTER_ADDR": "10.1.2.3",
    "MASTER_PORT": "29500",
}
SAY_READY = "import sys, time; sys.stderr.write('ready\\n'); sys.stderr.flush(); time.sleep(120)"
CHILD_INHERITS = f"""
import subprocess, sys
from tests.parts import SEEN_BY_EVERY_AGENT

pytestmark = SEEN_BY_EVERY_AGENT
sys.exit(subprocess.Popen([sys.executable, "-c", {SAY_READY!r}]).wait())
"""


class Job:
    """Real processes that end with the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.children: list[subprocess.Popen[bytes]] = []

    def start(self, code: str, environ: Mapping[str, str], log: str = "out.txt") -> int:
        """Start python with this environment and wait until it is there."""
        path = self.folder / log
        with path.open("wb") as out:
            child = subprocess.Popen(
                [sys.executable, "-c", code],
                env={"PATH": os.environ["PATH"], "AWS_SECRET_ACCESS_KEY": "hush-hush", **environ},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self.children.append(child)
        assert wait_until(lambda: b"ready" in path.read_bytes(), time.sleep)
        return child.pid

    def end(self) -> None:
        for child in self.children:
            os.killpg(child.pid, 9)
            child.wait()


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    started = Job(tmp_path)
    yield started
    started.end()


def rows(
    reader: ProcessReader, gpus: dict[int, list[dict[str, object]]] | None = None
) -> dict[int, wire.Process]:
    found, _ = reader.read(gpus or {})
    return {row.pid: row for row in msgspec.convert(found, list[wire.Process])}


def test_a_real_rank_with_its_gpu_log_and_place(job: Job) -> None:
    pid = job.start(SAY_READY, RANK_3, "rank_3.log")
    reader = ProcessReader()
    gpus: dict[int, list[dict[str, object]]] = {pid: [{"uuid": "GPU-a", "memory_bytes": 7}]}
    before = time.time()
    row = rows(reader, gpus)[pid]
    assert (row.rank, row.local_rank, row.world_size, row.master) == (3, 1, 8, "10.1.2.3:29500")
    assert row.gpus == [wire.ProcessGpu("GPU-a", 7)]
    assert row.logs == [str(job.folder / "rank_3.log")]
    assert row.variables == RANK_3
    assert row.command is not None
    assert SAY_READY[:40] in row.command
    assert row.rss_bytes is not None
    assert row.rss_bytes > 1 << 20
    assert row.start is not None
    assert abs(row.start - before) < 60
    assert row.user is not None
    assert rows(reader, gpus)[pid].cpu_pct is not None


def test_no_other_variable_ever_leaves(job: Job) -> None:
    pid = job.start(SAY_READY, RANK_3)
    found = ProcessReader().read({pid: [{"uuid": "GPU-a"}], os.getpid(): [{"uuid": "GPU-b"}]})
    text = json.dumps(found)
    assert str(pid) in text
    assert "AWS" not in text
    assert "hush" not in text
    assert "PATH" not in text


def test_a_rank_without_a_gpu_is_found_and_its_helpers_are_not(job: Job) -> None:
    pid = job.start(CHILD_INHERITS, {**RANK_3, "RANK": "77"})
    found = [row for row in rows(ProcessReader()).values() if row.rank == 77]
    assert [row.pid for row in found] == [pid]
    assert found[0].gpus == []


def test_what_a_sleeping_rank_has_started_is_its_work(job: Job) -> None:
    busy = "while True: sum(range(9999))"
    run = f"subprocess.run([sys.executable, '-c', {busy!r}])"
    spawn = f"import subprocess, sys; print('ready', flush=True); {run}"
    pid = job.start(spawn, {**RANK_3, "RANK": "79"})
    reader = ProcessReader(scan_every_s=0.0)

    def share() -> float:
        row = rows(reader).get(pid)
        return 0.0 if row is None else row.children_cpu_pct or 0.0

    assert wait_until(lambda: share() > 2.0, time.sleep)


def test_a_launcher_is_not_the_rank_it_starts(job: Job) -> None:
    """Torchrun under srun has a Slurm task number; what it starts has a rank."""
    spawn = f"""
import os, subprocess, sys
rank = dict(os.environ, RANK="78", LOCAL_RANK="0", WORLD_SIZE="80")
sys.exit(subprocess.Popen([sys.executable, "-c", {SAY_READY!r}], env=rank).wait())
"""
    task = {"SLURM_PROCID": "9", "SLURM_LOCALID": "0", "SLURM_NTASKS": "10"}
    launcher = job.start(spawn, task, "launcher.log")
    reader = ProcessReader()
    found = rows(reader)
    assert launcher not in found
    assert [row.launcher for row in found.values() if row.rank == 78] == [launcher]
    assert reader.launchers[launcher]["paths"] == [str(job.folder / "launcher.log")]
    assert [row.variables["SLURM_PROCID"] for row in found.values() if row.rank == 78] == ["9"]


def test_ranks_write_what_the_reader_of_their_pipe_writes(tmp_path: Path) -> None:
    """`torchrun ... 2>&1 | grep -v x | tee FILE`: FILE is the log of the launcher and of its ranks."""
    spawn = f"""
import os, subprocess, sys
rank = dict(os.environ, RANK="78", LOCAL_RANK="0", WORLD_SIZE="80")
sys.exit(subprocess.Popen([sys.executable, "-c", {SAY_READY!r}], env=rank).wait())
"""
    out, program = tmp_path / "captured", tmp_path / "spawn.py"
    program.write_text(spawn)
    pipeline = f"{sys.executable} {program} 2>&1 | grep --line-buffered -v nothing | tee {out} >/dev/null"
    shell = subprocess.Popen(["sh", "-c", pipeline], env={"PATH": os.environ["PATH"]}, start_new_session=True)
    try:
        assert wait_until(lambda: out.exists() and b"ready" in out.read_bytes(), time.sleep)
        reader = ProcessReader()
        (rank,) = (row for row in rows(reader).values() if row.rank == 78)
        assert rank.logs == [str(out)]
        assert rank.launcher is not None
        assert reader.launchers[rank.launcher]["paths"] == [str(out)]
    finally:
        os.killpg(shell.pid, 9)
        shell.wait()


@pytest.mark.parametrize(
    ("name", "is_launcher"), [("starter", True), ("sshd", False), ("sshd-session", False)]
)
def test_the_log_of_sshd_is_not_what_the_rank_behind_it_prints(
    tmp_path: Path, name: str, *, is_launcher: bool
) -> None:
    (tmp_path / name).symlink_to("/bin/sh")
    (tmp_path / "rank.py").write_text(SAY_READY)
    told = tmp_path / "ready"
    command = (
        f"RANK=77 LOCAL_RANK=0 WORLD_SIZE=80 {sys.executable} {tmp_path}/rank.py 2>&1 | tee {told} >/dev/null"
    )
    with (tmp_path / "own.log").open("wb") as own:
        argv = [str(tmp_path / name), "-c", f"{command}; true"]
        program = subprocess.Popen(argv, stdout=own, stderr=own, start_new_session=True)
    try:
        assert wait_until(lambda: told.exists() and b"ready" in told.read_bytes(), time.sleep)
        reader = ProcessReader()
        assert 77 in {row.rank for row in rows(reader).values()}
        assert (program.pid in reader.launchers) is is_launcher
    finally:
        os.killpg(program.pid, 9)
        program.wait()


@pytest.mark.parametrize("suffix", ["log", "jsonl", "ndjson", "json", "csv", "csv.1"])
def test_a_metrics_file_that_a_rank_holds_open_is_one_of_its_logs(job: Job, suffix: str) -> None:
    path = job.folder / f"metrics.{suffix}"
    pid = job.start(f"held = open({str(path)!r}, 'a')\n{SAY_READY}", RANK_3)
    assert str(path) in rows(ProcessReader())[pid].logs


@pytest.mark.parametrize("is_counted", [True, False], ids=["the kernel counts descriptors", "it does not"])
def test_a_log_that_a_rank_opens_later_is_listed_at_the_next_reading(
    job: Job, is_counted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_counted:
        monkeypatch.setattr(process_details, "open_count", lambda _folder: 0)
    go, path = job.folder / "go", job.folder / "late.log"
    waits = f"while not os.path.exists({str(go)!r}): time.sleep(0.01)\nheld = open({str(path)!r}, 'w')\n"
    pid = job.start(f"import os, time; print('ready', flush=True)\n{waits}time.sleep(60)", RANK_3)
    reader = ProcessReader(scan_every_s=0.0)
    assert rows(reader)[pid].logs == [str(job.folder / "out.txt")]
    go.touch()
    assert wait_until(path.exists, time.sleep)
    assert str(path) in rows(reader)[pid].logs


@pytest.mark.parametrize("how", ["delete", "rename"])
def test_lines_into_a_deleted_or_renamed_log_can_be_read(job: Job, how: str) -> None:
    path = job.folder / "rank_3.log"
    pid = job.start(SAY_READY, RANK_3, path.name)
    if how == "delete":
        path.unlink()
    else:
        path.rename(f"{path}.old")
    (log,) = rows(ProcessReader())[pid].logs
    assert Path(log).read_text() == "ready\n"
    assert log == (f"/proc/{pid}/fd/1" if how == "delete" else f"{path}.old")


def test_a_launcher_without_ranks_here_is_followed_with_its_job(tmp_path: Path) -> None:
    """`srun` and `mpirun` write the words of ranks of other nodes, which do not descend from them."""
    out = tmp_path / "srun.out"
    program = tmp_path / "srun"
    program.symlink_to(shutil.which("sleep") or "/bin/sleep")
    environ = {"SLURM_JOB_ID": "4711"}
    with out.open("wb") as words, subprocess.Popen([program, "60"], stdout=words, env=environ) as launcher:
        try:
            reader = ProcessReader(scan_every_s=0.0)

            def has_job() -> bool:  # between fork and exec it has none; a young process is read again
                reader.read({})
                return "job" in reader.launchers.get(launcher.pid, {})

            assert wait_until(has_job, time.sleep)
            assert reader.launchers[launcher.pid] == {"job": "4711", "paths": [str(out)]}
        finally:
            launcher.kill()


@pytest.mark.skipif(os.geteuid() != 0 or sys.version_info < (3, 9), reason="root runs programs as others")
@pytest.mark.parametrize("uid", [4242, 4343])
def test_a_program_named_as_a_launcher_states_no_job_of_another_user(uid: int) -> None:
    with TemporaryDirectory(dir="/tmp") as made:  # pytest's own folders are private
        folder = Path(made)
        folder.chmod(0o777)
        for name in ("torchrun", "train"):
            (folder / name).symlink_to(shutil.which("sleep") or "/bin/sleep")
        job = {"SLURM_JOB_ID": "77"}
        started = []
        with (folder / "out.log").open("wb") as words, ExitStack() as stack:
            for command, user, stdout, variables in (
                ([str(folder / "train"), "60"], 4343, None, {"RANK": "0", "WORLD_SIZE": "2"}),
                ([str(folder / "torchrun"), "60"], uid, words, {}),
            ):
                each = subprocess.Popen(command, user=user, stdout=stdout, env={**job, **variables})
                stack.enter_context(each)
                stack.callback(each.kill)
                started.append(each)
            rank = started[0]
            reader = ProcessReader(scan_every_s=0.0)

            def are_read() -> bool:
                ranks = reader.read({})[0]
                return each.pid in reader.launchers and any(row.get("rank") == 0 for row in ranks)

            assert wait_until(are_read, time.sleep)
            assert reader.launchers[each.pid].get("job") == ("77" if uid == 4343 else None)
            rank.kill()
            rank.wait()
            assert wait_until(lambda: not any(row.get("rank") == 0 for row in reader.read({})[0]), time.sleep)
            assert reader.launchers[each.pid].get("job") == ("77" if uid == 4343 else None)


@pytest.mark.parametrize("state", ["S", "T"])
def test_the_ranks_of_a_stopped_launcher_are_listed_so(tmp_path: Path, state: str) -> None:
    """`kill -STOP` of mpirun, which reads the output of its ranks."""
    stat = process(tmp_path, 40, {}, name="mpirun") / "stat"
    stat.write_text(stat.read_text().replace(") S ", f") {state} "))
    process(tmp_path, 50, RANK_3, parent=40)
    (row,) = rows(ProcessReader(proc=str(tmp_path))).values()
    assert (row.pid, row.launcher, row.launcher_stopped) == (50, 40, state == "T")


def test_what_started_a_rank_is_no_rank_above_it(tmp_path: Path) -> None:
    """A GPU process under a rank and a shell without variables has that rank's launcher."""
    process(tmp_path, 40, {}, name="bash")
    process(tmp_path, 50, RANK_3, parent=40)
    process(tmp_path, 60, {}, parent=50, name="sh")
    process(tmp_path, 70, {}, parent=60)
    process(tmp_path, 80, {**RANK_3, "RANK": "4"}, parent=40)
    found = rows(ProcessReader(proc=str(tmp_path)), {50: [{"uuid": "GPU-a"}], 70: [{"uuid": "GPU-a"}]})
    assert {pid: row.launcher for pid, row in found.items()} == {50: 40, 70: 40, 80: 40}


def test_a_gpu_process_has_the_rank_of_the_process_above(job: Job) -> None:
    """A worker that was started with a clean environment still belongs to its rank."""
    spawn = f"""
import subprocess, sys
sys.exit(subprocess.Popen([sys.executable, "-c", {SAY_READY!r}], env={{}}).wait())
"""
    parent = job.start(spawn, RANK_3)
    kids = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    found = rows(ProcessReader(), {int(kids[0]): [{"uuid": "GPU-a"}]})
    assert found[int(kids[0])].rank == 3
    assert parent not in found


def test_what_another_user_may_not_read_is_silently_absent(job: Job) -> None:
    """The agent need not be root: it sees that the process is there, and not whose rank it is."""
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if os.getuid() != 0 or python is None:
        pytest.skip("needs root, to become another user, and a python3 that this user can start")
    pid = job.start(SAY_READY, RANK_3)
    with tempfile.TemporaryDirectory() as folder:  # the repository may lie where that user cannot go
        shutil.copytree(AGENT, Path(folder) / "agent")
        Path(folder).chmod(0o755)
        code = f"""
import json, sys
sys.path.insert(0, {folder!r})
from agent.processes.process_reader import ProcessReader
print(json.dumps(ProcessReader().read({{{pid}: [{{"uuid": "GPU-a"}}]}})[0]))
"""
        done = subprocess.run(
            [python, "-I", "-B", "-c", code],
            user=65534,
            group=65534,
            capture_output=True,
            check=False,
            cwd="/",
        )
    assert done.stderr == b""
    (row,) = (one for one in msgspec.convert(json.loads(done.stdout), list[wire.Process]) if one.pid == pid)
    assert (row.user, row.rank, row.logs, row.variables) == ("root", None, [], {})
    assert row.command is not None


def test_a_pid_that_cannot_be_seen_keeps_its_memory_row(tmp_path: Path) -> None:
    gpus: dict[int, list[dict[str, object]]] = {4_000_000: [{"uuid": "GPU-a", "memory_bytes": 5}]}
    assert rows(ProcessReader(proc=str(tmp_path)), gpus)[4_000_000] == wire.Process(
        4_000_000, "?", gpus=[wire.ProcessGpu("GPU-a", 5)]
    )


def test_the_second_process_of_a_container_and_its_children_may_be_ranks(tmp_path: Path) -> None:
    """On the node pid 2 is kthreadd; in a container it may be the rank or its launcher."""
    rank_2 = tmp_path / "rank"
    process(rank_2, 2, {"RANK": "0", "WORLD_SIZE": "1"})
    assert {pid: one.rank for pid, one in rows(ProcessReader(proc=str(rank_2)), {}).items()} == {2: 0}
    process(tmp_path, 2, {})
    process(tmp_path, 7, {"RANK": "1", "WORLD_SIZE": "3"}, parent=2)
    kernel_thread = process(tmp_path, 8, {"RANK": "2", "WORLD_SIZE": "3"}, parent=2)
    fields = (kernel_thread / "stat").read_text().split()
    (kernel_thread / "stat").write_text(" ".join([*fields[:8], str(0x00208040), *fields[9:]]))
    found = rows(ProcessReader(proc=str(tmp_path)), {})
    assert {pid: one.rank for pid, one in found.items()} == {7: 1}


def test_a_namesake_in_a_container_is_not_blamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver's pid 50 is another process than the container's pid 50, which has no GPU open."""
    monkeypatch.delenv(DRIVER_PIDS)
    folder = process(tmp_path, 50, RANK_3)
    (tmp_path / "self/ns").mkdir(parents=True)
    (tmp_path / "self/ns/pid").symlink_to("pid:[4026532999]")
    (folder / "fd").mkdir()
    (folder / "fd/0").symlink_to("/dev/null")
    gpus: dict[int, list[dict[str, object]]] = {50: [{"uuid": "GPU-a"}]}
    rank = rows(ProcessReader(proc=str(tmp_path)), gpus)[50]
    assert (rank.rank, rank.gpus) == (3, [])  # it does not vanish either
    (folder / "fd/9").symlink_to("/dev/nvidia0")
    rank = rows(ProcessReader(proc=str(tmp_path)), gpus)[50]
    assert (rank.rank, [gpu.uuid for gpu in rank.gpus]) == (3, ["GPU-a"])
    other = process(tmp_path, 51, {})
    (other / "fd").mkdir()
    (other / "fd/0").symlink_to("/dev/null")
    assert rows(ProcessReader(proc=str(tmp_path)), {51: [{"uuid": "GPU-a"}]})[51].name == "?"


def test_a_rank_that_opens_its_gpu_late_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was read while it still loaded its libraries: that it had no GPU open then proves nothing."""
    monkeypatch.delenv(DRIVER_PIDS, raising=False)
    clock = Clock()
    folder = process(tmp_path, 50, RANK_3)
    (tmp_path / "self/ns").mkdir(parents=True)
    (tmp_path / "self/ns/pid").symlink_to("pid:[4026532999]")
    (folder / "fd").mkdir()
    (folder / "fd/0").symlink_to("/dev/null")
    reader = ProcessReader(proc=str(tmp_path), monotonic=clock)
    assert rows(reader)[50].rank == 3
    (folder / "fd/9").symlink_to("/dev/nvidia0")
    clock.now += 3.0
    assert rows(reader, {50: [{"uuid": "GPU-a"}]})[50].rank == 3


def test_a_pid_used_again_is_another_process(tmp_path: Path) -> None:
    process(tmp_path, 50, RANK_3, start=5000)
    reader = ProcessReader(proc=str(tmp_path), monotonic=Clock())
    gpus: dict[int, list[dict[str, object]]] = {50: [{"uuid": "GPU-a"}]}
    assert rows(reader, gpus)[50].rank == 3
    process(tmp_path, 50, {"RANK": "5", "WORLD_SIZE": "8"}, start=9000)
    assert rows(reader, gpus)[50].rank == 5


def test_what_is_no_rank_is_read_again_after_a_minute_not_at_each_search(tmp_path: Path) -> None:
    clock = Clock()
    process(tmp_path, 50, {}, name="bash")
    reader = ProcessReader(proc=str(tmp_path), monotonic=clock)
    assert rows(reader) == {}
    process(tmp_path, 50, RANK_3)  # as after `exec python train.py`
    clock.now += 10.0
    assert rows(reader) == {}
    clock.now += 60.0
    assert rows(reader)[50].rank == 3


def test_processor_time_is_per_cent_of_one_core(tmp_path: Path) -> None:
    clock = Clock()
    process(tmp_path, 50, RANK_3)
    reader = ProcessReader(proc=str(tmp_path), monotonic=clock)
    reader.read({})
    ticks = int(3 * os.sysconf("SC_CLK_TCK"))
    write(tmp_path, {"50/stat": stat_line(50, "python", 1, 5000, ticks)})
    clock.now += 2.0
    assert rows(reader)[50].cpu_pct == pytest.approx(150.0)


def test_a_process_that_blocks_its_readers_delays_only_itself(tmp_path: Path, sentences: Sentences) -> None:
    """`environ` takes the memory lock, which a hung driver call may hold for ever."""
    stuck = process(tmp_path, 60, {})
    (stuck / "environ").unlink()
    os.mkfifo(stuck / "environ")
    process(tmp_path, 50, RANK_3)
    process(tmp_path, 70, {**RANK_3, "RANK": "4"})
    clock = Clock()
    reader = ProcessReader(proc=str(tmp_path), monotonic=clock)
    gpus: dict[int, list[dict[str, object]]] = {60: [{"uuid": "GPU-a"}]}
    for _ in range(3):
        found = rows(reader, gpus)
        clock.now += 60.0
    assert sorted(found) == [50, 60, 70]
    assert found[60].name == "python"
    sentences(reader.partial)
    with (stuck / "environ").open("wb") as writer:
        writer.write(b"RANK=6\0WORLD_SIZE=8")
    assert wait_until(lambda: reader.partial is None, time.sleep)


@pytest.mark.parametrize(
    ("cgroup", "log"),
    [
        (f"0::/kubepods.slice/kubepods-burstable.slice/cri-containerd-{'ab' * 32}.scope",
         f"var/log/containers/trainer-0_ml_pytorch-{'ab' * 32}.log"),
        (f"12:cpu:/docker/{'cd' * 32}\n0::/docker/{'cd' * 32}",
         f"var/lib/docker/containers/{'cd' * 32}/{'cd' * 32}-json.log"),
        (f"0::/machine.slice/libpod-{'ef' * 32}.scope/container",
         f"var/lib/containers/storage/overlay-containers/{'ef' * 32}/userdata/ctr.log"),
    ],
    ids=["kubernetes", "docker", "podman"],
)  # fmt: skip
def test_what_a_container_prints_is_in_the_file_of_its_runtime(tmp_path: Path, cgroup: str, log: str) -> None:
    assert runtime_logs(cgroup, str(tmp_path)) == []
    written = tmp_path / "var/log/pods/ml_trainer-0/pytorch/0.log"
    written.parent.mkdir(parents=True)
    written.write_text("2026-01-01T00:00:00Z stdout F step 1\n")
    (tmp_path / log).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / log).symlink_to(written)
    assert runtime_logs(cgroup, str(tmp_path)) == [str(written)]
    name = cgroup.rpartition("/")[2]
    for named_by_a_user in (
        f"0::/user.slice/user-7.slice/user@7.service/app.slice/{name}",
        f"0::/x{'ab' * 32}y",
    ):
        assert runtime_logs(named_by_a_user, str(tmp_path)) == []


def test_slurm_and_container_come_from_the_cgroup(tmp_path: Path) -> None:
    long_id = "0123456789abcdef" * 4
    cgroups: dict[int, tuple[str, dict[str, Any]]] = {
        50: ("0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0", {"job": "4711"}),
        51: ("8:memory:/slurm/uid_1000/job_12/step_batch/task_0\n1:name=x:/", {"job": "12"}),
        52: (f"0::/system.slice/docker-{long_id}.scope", {"container": "docker:0123456789ab"}),
        53: (
            f"0::/kubepods.slice/x/cri-containerd-{long_id}.scope",
            {"container": "containerd:0123456789ab"},
        ),
        54: (f"0::/kubepods/burstable/pod1-2/{long_id}", {"container": "kubernetes:0123456789ab"}),
        55: (f"0::/machine.slice/libpod-{long_id}.scope/container", {"container": "podman:0123456789ab"}),
        56: (f"0::/kubepods.slice/x/crio-{long_id}.scope", {"container": "cri-o:0123456789ab"}),
        57: ("0::/user.slice/user-1000.slice/session-2.scope", {"container": None, "job": None}),
    }
    for pid, (cgroup, _) in cgroups.items():
        write(process(tmp_path, pid, {}), {"cgroup": cgroup})
    found = rows(ProcessReader(proc=str(tmp_path)), {pid: [{"uuid": "GPU-a"}] for pid in cgroups})
    for pid, (_, expected) in cgroups.items():
        assert {key: getattr(found[pid], key) for key in expected} == expected
    assert found[50].variables == {"SLURM_STEP_ID": "0"}


def test_logs_are_written_regular_files(tmp_path: Path) -> None:
    folder = process(tmp_path / "proc", 50, RANK_3)
    (folder / "fd").mkdir()
    modes = {"0": "0100000", "1": "0100001", "2": "0102002", "5": "0102001", "6": "0100000", "7": "0100001"}
    for number, path in {
        "0": "input.txt",  # read
        "1": "out",  # whatever its name
        "2": "err",  # open for both, as nohup leaves it
        "5": "train.log",
        "6": "labels.txt",  # read
        "7": "model.ckpt",  # written, but no log
    }.items():
        write(tmp_path, {path: ""})
        (folder / "fd" / number).symlink_to(tmp_path / path)
        write(folder, {f"fdinfo/{number}": f"pos:\t0\nflags:\t{modes[number]}\nmnt_id:\t25"})
    (folder / "fd/9").symlink_to("/tmp/gone.log (deleted)")
    write(folder, {"fdinfo/9": "flags:\t0100001"})
    row = rows(ProcessReader(proc=str(tmp_path / "proc")))[50]
    assert row.logs == [str(tmp_path / name) for name in ("out", "err", "train.log")]


def test_a_log_inside_a_container_is_reported_by_a_path_that_works_here(job: Job) -> None:
    """`unshare` gives a real process a mount namespace in which its log's path means something else."""
    inside = job.folder / "workspace"
    inside.mkdir()
    code = f"""
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(0x00020000) or libc.mount(b"none", b"/", None, 0x44000, None) \\
        or libc.mount(b"tmpfs", {os.fsencode(inside)!r}, b"tmpfs", 0, None):
    print("ready, but not allowed", flush=True)
else:
    log = open({str(inside / "rank.log")!r}, "w")
    print("ready", flush=True)
import time
time.sleep(120)
"""
    pid = job.start(code, RANK_3)
    if "not allowed" in (job.folder / "out.txt").read_text():
        pytest.skip("this user may not make a mount namespace")
    logs = rows(ProcessReader())[pid].logs
    assert f"/proc/{pid}/root{inside}/rank.log" in logs
    assert all(Path(log).exists() for log in logs)


def test_the_list_is_bounded_and_the_rest_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_reader, "MAX_PROCESSES", 10)
    for pid in range(100, 115):
        process(tmp_path, pid, {"RANK": str(pid), "WORLD_SIZE": "999"})
    found, truncated = ProcessReader(proc=str(tmp_path)).read({114: [{"uuid": "GPU-a"}]})
    assert (len(found), truncated) == (10, 5)
    assert found[0]["pid"] == 114


def test_the_tools_of_a_person_in_the_job_are_not_ranks(tmp_path: Path) -> None:
    inherited = {"SLURM_PROCID": "3", "SLURM_NTASKS": "8"}
    for pid, name in enumerate(("bash", "vim", "htop", "srun", "my tool", "python3"), start=50):
        process(tmp_path, pid, inherited, name=name)
    process(tmp_path, 80, {"RANK": "5"}, name="game")  # a word of its own, not torch's
    assert [row.name for row in rows(ProcessReader(proc=str(tmp_path))).values()] == ["python3"]


def test_control_bytes_of_a_command_line_stay_behind(tmp_path: Path) -> None:
    folder = process(tmp_path, 50, RANK_3)
    (folder / "cmdline").write_bytes(b"python\0\x1b]0;owned\x07\xff\0" + b"x" * 5000)
    row = rows(ProcessReader(proc=str(tmp_path)))[50]
    assert row.command is not None
    assert row.command.isprintable()
    assert len(row.command) == 300
