"""`gpuwatch check`: what it says of the demo, and of real processes that look like ranks of a job."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.cli.running import gpuwatch, interrupted_at
from tests.parts import SEEN_BY_EVERY_AGENT
from tests.sentences import Sentences

pytestmark = SEEN_BY_EVERY_AGENT

CODE = "import sys; print('ready', flush=True); print(file=sys.stderr); sys.stdin.read()"


def checks_of(*argv: str, status: int) -> dict[str, dict[str, Any]]:
    done = gpuwatch("check", *argv, "--json")
    assert done.returncode == status, done.stdout + done.stderr
    reported = json.loads(done.stdout)
    assert sum(reported["counts"].values()) == len(reported["checks"])
    return {one["id"]: one for one in reported["checks"]}


@contextmanager
def rank(number: int, log: Path, **variables: str) -> Iterator[int]:
    """A process of a job of four; its stderr is a log file."""
    own = {
        "RANK": str(number),
        "LOCAL_RANK": str(number),
        "WORLD_SIZE": "4",
        "TORCHELASTIC_RUN_ID": "check-4",
    }
    with log.open("ab") as words:
        process = subprocess.Popen(
            [sys.executable, "-c", CODE],
            env={**os.environ, **own, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=words,
        )
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.communicate()


def test_the_demo_has_one_node_that_forgot_a_variable(sentences: Sentences) -> None:
    reported = checks_of("--demo", status=1)
    assert reported["env.equal"]["status"] == "FAIL"
    assert reported["env.equal"]["nodes"] == ["gpu-014"]
    assert "NCCL_IB_TIMEOUT gpu-[001-013,015-016] 22, gpu-014 (not set)" in reported["env.equal"]["detail"]
    assert [one["id"] for one in reported.values() if one["status"] in ("FAIL", "WARN")] == ["env.equal"]
    sentences(reported["ranks.initialised"]["detail"])


def test_deep_shows_how_far_its_probe_is_and_ctrl_c_keeps_the_list() -> None:
    """Document 004, line 761."""
    status, written = interrupted_at("collectives", "check", "--demo", "--deep", "--json")
    assert status == 130
    reported = {one["id"]: one for one in json.loads(written)["checks"]}
    assert reported["env.equal"]["status"] == "FAIL"
    assert reported["probe.links"]["status"] == "SKIP"


def test_deep_names_the_nic_that_is_slow() -> None:
    """Document 004, line 760."""
    reported = checks_of("--demo", "--deep", status=1)
    assert reported["probe.collectives"]["status"] == "PASS"
    assert reported["probe.links"]["nodes"] == ["gpu-013"]
    assert "mlx5_3" in reported["probe.links"]["detail"]


def test_what_is_wrong_with_a_real_job_is_reported(tmp_path: Path) -> None:
    """Document 004, line 759."""
    logs = [tmp_path / f"rank_{number}.log" for number in (0, 1, 1)]
    devices = ("0", "1", "1")
    with ExitStack() as stack:
        for number, (log, device) in enumerate(zip(logs, devices, strict=True)):
            extra = {"NCCL_ALGO": "Ring"} if number == 2 else {}
            extra |= {"CUDA_VISIBLE_DEVICES": device, "NCCL_P2P_DISABLE": "1"}
            stack.enter_context(rank(number, log, **extra))
        reported = checks_of("--local", "--wait", "20", status=1)
    assert reported["ranks.initialised"]["status"] == "FAIL"
    assert re.search(r"check-4: 3 of 4 ranks, \w+ 3\b", reported["ranks.initialised"]["detail"])
    assert "check-4: NCCL_ALGO rank-[0-1] (not set), rank-2 Ring" in reported["env.equal"]["detail"]
    assert re.search(r"rank 1, rank 2 .*GPU 1\b", reported["env.visible_devices"]["detail"])
    assert reported["logs.own"]["status"] == "WARN"
    assert str(logs[1]) in reported["logs.own"]["detail"]
    assert "over NVLink" in reported["env.sane"]["detail"]
    assert reported["gpu.ecc"]["status"] in ("PASS", "SKIP")  # never a PASS that nobody measured
    assert all(one["remedy"] for one in reported.values() if one["status"] in ("FAIL", "WARN"))


def test_a_node_that_does_not_answer_fails_the_check(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.yaml"
    hosts.write_text("hosts:\n  - name: gone\n    command: ['false']\n")
    reported = checks_of(str(hosts), "--wait", "3", status=1)
    assert reported["net.reachable"]["status"] == "FAIL"
    assert reported["net.reachable"]["nodes"] == ["gone"]


def test_nodes_are_compared_with_one_node_and_with_a_file(tmp_path: Path) -> None:
    saved = tmp_path / "good.json"
    argv = ("check", "--demo", "--against", "gpu-001", "--save-profile", str(saved), "--json")
    done = gpuwatch(*argv)
    assert done.returncode == 1, done.stdout + done.stderr
    reported = json.loads(done.stdout)
    assert [one["id"] for one in reported["checks"] if one["status"] == "FAIL"] == ["same.ib.firmware"]
    assert reported["checks"][0]["nodes"] == ["gpu-013"]
    assert (
        reported["reference"] == reported["profiles"]["gpu-001"] == json.loads(saved.read_text())["profile"]
    )
    compared = {
        "driver", "kernel", "bios", "gpu.vbios", "ib.firmware", "gpu.power_limit_w", "gpu.sm_clock_max_mhz",
        "gpu.ecc", "cpu.governor", "sysctl.vm.swappiness", "module.nvidia_peermem",
    }  # fmt: skip
    assert compared <= reported["reference"].keys()

    here = gpuwatch("check", "--local", "--against", str(saved), "--json")
    assert here.returncode == 1
    assert "same.cpu.count" in {one["id"] for one in json.loads(here.stdout)["checks"]}


def test_a_reference_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for against in ("gpu-099", str(tmp_path / "empty"), str(tmp_path)):
        done = gpuwatch("check", "--demo", "--against", against)
        assert (done.returncode, done.stdout) == (2, "")
        assert against in done.stderr
    assert gpuwatch("check", "--demo", "--save-profile", "x").returncode == 2
