"""`gpuwatch evidence` as a command: what it refuses, and that Ctrl-C leaves no half bundle."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import time
import zipfile
from pathlib import Path

import pytest

from gpuwatch.cli.analysis.evidence_folder import missing_text
from tests.cli.running import COMMAND, ROOT, environment, gpuwatch
from tests.session.evidence.live import OOM, TOKEN, write_logs
from tests.workers.isolation import own_processes

LINE = "2026-11-26 12:00:00,000 [rank1] step {} loss 2.0 " + "x" * 180 + "\n"


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("--demo",), 2),
        (("--demo", "1", "2", "-o", "a.zip"), 2),
        (("--demo", "1", "--job", "x", "-o", "a.zip"), 2),
        (("hosts.yaml", "--local", "-o", "a.zip"), 2),
        (("--local", "-o", "/no/such/folder/a.zip"), 2),
        (("no-such-file.yaml", "-o", "a.zip"), 2),
    ],
)
@pytest.mark.sampled(2)
def test_wrong_usage(arguments: tuple[str, ...], status: int, tmp_path: Path) -> None:
    assert gpuwatch("evidence", *arguments, cwd=tmp_path).returncode == status
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_a_folder_of_a_dead_job_with_its_artifacts(tmp_path: Path) -> None:
    folder, out = tmp_path / "run", tmp_path / "a.zip"
    (folder / "logs").mkdir(parents=True)
    write_logs(folder / "logs")
    (folder / "logs" / "rank_1.log.gz").write_bytes(gzip.compress(b"step 1 loss 2.0\n" * 700))
    artifacts = {"tensorboard/events.out.tfevents.1", "profiler/rank_0.pt.trace.json"}
    artifacts.add("telemetry/steps.jsonl")
    for name in artifacts:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(b"\0\1")
    (folder / "config.yaml").write_text(f"model:\n  hf_token: {TOKEN}\n")
    (folder / "model.safetensors").write_bytes(b"\0" * 100)
    private = tmp_path / "private"
    private.write_text("root:secret\n")
    private.chmod(0o600)
    (folder / "logs" / "rank_9.log").symlink_to(private)
    done = gpuwatch("evidence", str(folder), "--artifacts", "-o", str(out))
    assert done.returncode == 0
    assert out.stat().st_mode & 0o777 == 0o600
    with zipfile.ZipFile(out) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    held = {name.removeprefix("artifacts/") for name in files if name.startswith("artifacts/")}
    assert held == {*artifacts, "config.yaml"}
    assert files["artifacts/config.yaml"] == b"model:\n  hf_token: [masked]\n"
    assert not [name for name, data in files.items() if TOKEN.encode() in data or b"root:secret" in data]
    assert json.loads(files["incident.json"])["incidents"][0]["rank"] == 2
    assert json.loads(files["scan.json"])["found"]
    (blocks,) = [data.decode() for name, data in files.items() if name.endswith("rank_2.log")]
    assert [line for line in blocks.splitlines() if line.startswith("> ")][-1].endswith(OOM)
    (packed,) = [data.decode() for name, data in files.items() if "rank_1.log.gz" in name]
    assert 100 <= packed.count("step 1") <= 130
    whole = gpuwatch("evidence", str(folder), "--logs", "all", "-o", str(out))
    assert whole.returncode == 0
    with zipfile.ZipFile(out) as archive:
        (name,) = [name for name in archive.namelist() if "rank_1.log.gz" in name]
        assert archive.read(name).count(b"step 1") == 700


@pytest.mark.long
def test_ctrl_c_leaves_no_half_bundle_and_the_same_command_goes_on(tmp_path: Path) -> None:
    log, out = tmp_path / "rank_1.log", tmp_path / "a.zip"
    log.write_text("".join(LINE.format(step) for step in range(20_000)) + f"{OOM}\n")
    part = out.with_name("a.zip.part")
    command = [*own_processes(), *COMMAND, "evidence", "--local", "--log", str(log), "--logs", "all"]
    command += ["-o", str(out), "--wait", "20"]
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
    running = subprocess.Popen(
        command, cwd=ROOT, env=environment(), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    signal.signal(signal.SIGINT, before)
    deadline = time.monotonic() + 60
    while not any(path.stat().st_size for path in part.glob("*.txt")) and running.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(running.pid, signal.SIGINT)
    assert running.communicate(timeout=60)[1]
    assert running.returncode == 130
    assert not out.exists()
    assert part.is_dir()
    done = subprocess.run(
        command, cwd=ROOT, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, timeout=90,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.zip", "rank_1.log"]
    with zipfile.ZipFile(out) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("rank_1.log")]
        lines = archive.read(name).decode().splitlines()
    assert len(lines) == 20_001
    assert [line.split()[4] for line in lines[:-1]] == [str(step) for step in range(20_000)]


def test_what_many_parts_lack_for_one_reason_is_one_line() -> None:
    missing = [(f"log {n}", "not in this recording") for n in range(90)] + [("stacks", "no \x1b[2Janswer")]
    lines = missing_text(missing).splitlines()
    assert len(lines) == 2
    assert "89" in lines[0]
    assert "\x1b" not in lines[1]
