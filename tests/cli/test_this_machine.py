"""`--local` with the real agent on the fake driver, through the ordinary loader."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cli.running import alone, gpuwatch
from tests.fake_nvml.build import FakeNvml, build
from tests.parts import need_compiler

WAIT = ("--wait", "60")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need_compiler()
    return build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def driver(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    fake = FakeNvml(library, tmp_path)
    for name, value in fake.env().items():
        monkeypatch.setenv(name, value)
    return fake


def test_eight_gpus_of_this_machine(driver: FakeNvml) -> None:
    driver.set("set 5 utilization 42", "set 5 power_mw 123000", "set 5 temperature 0")
    done = alone("once", "--local", "--json", *WAIT)
    facts = json.loads(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (facts["incidents"], facts["conditions"]) == ([], [])
    (node,) = facts["nodes"]
    gpus = node["gpus"]
    assert [gpu["index"] for gpu in gpus] == list(range(8))
    assert (gpus[5]["utilization_pct"], gpus[5]["power_w"], gpus[5]["temperature_c"]) == (42, 123, 0)
    assert gpus[5]["fan_pct"] is None
    assert gpus[5]["missing"]["fan_pct"] == "not_supported"
    assert node["host"]["cpu_pct"] is not None


def test_a_hung_gpu_is_named_with_its_call_while_the_others_have_values(driver: FakeNvml) -> None:
    driver.set("hang 3 nvmlDeviceGetUtilizationRates")
    done = alone("once", "--local", "--json", *WAIT)
    facts = json.loads(done.stdout)
    gpus = facts["nodes"][0]["gpus"]
    assert done.returncode == 1
    assert facts["healthy"] is False
    assert (gpus[3]["state"], gpus[3]["stuck_in"]) == ("stuck", "nvmlDeviceGetUtilizationRates")
    assert gpus[3]["stuck_s"] > 0
    assert all(gpu["utilization_pct"] is not None for gpu in gpus if gpu["index"] != 3)


@pytest.mark.long
def test_a_gpu_that_hangs_from_the_start_is_listed_and_counted(driver: FakeNvml) -> None:
    driver.set("hang 3 nvmlDeviceGetUUID")
    done = alone("once", "--local", "--json", *WAIT)
    facts = json.loads(done.stdout)
    (node,) = facts["nodes"]
    assert (done.returncode, facts["healthy"]) == (1, False)
    assert (node["gpus_present"], node["gpus_expected"], len(node["gpus"])) == (7, 8, 8)
    hung = node["gpus"][3]
    assert (hung["uuid"], hung["utilization_pct"], hung["stuck_in"]) == (None, None, "nvmlDeviceGetUUID")
    assert hung["state"] in ("unanswered", "stuck")
    if hung["state"] == "unanswered":
        assert ("gpu", 3) in [(each["part"], each["gpu_index"]) for each in facts["pending"]]


@pytest.mark.long
def test_dmon_gives_a_gpu_without_an_answer_a_row_of_dashes(driver: FakeNvml) -> None:
    driver.set("gpus 2", "hang 1 nvmlDeviceGetUUID")
    done = alone("dmon", "--local", "-s", "p", "-c", "2")
    rows = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
    hung = [row[2:5] for row in rows if row[1] == "1"]
    assert len(hung) == 2
    assert all(row == ["-"] * 3 or row[0] == "stuck" for row in hung)  # that long after a slow start


def test_a_cold_driver_is_waited_for_and_no_alarm(driver: FakeNvml) -> None:
    driver.set("gpus 2", "hang * nvmlDeviceGetHandleByIndex_v2")
    timer = threading.Timer(8.0, driver.set, ["gpus 2"])
    timer.start()
    done = alone("once", "--local", "--json", *WAIT)
    timer.join()
    facts = json.loads(done.stdout)
    assert facts["conditions"] == []
    assert facts["pending"] == []
    assert facts["nodes"][0]["gpus_present"] == 2


def test_dmon_of_this_machine(driver: FakeNvml) -> None:
    driver.set("gpus 2", "set * power_mw 200000")
    done = alone("dmon", "--local", "-s", "p", "-c", "3")
    rows = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
    assert done.returncode == 0, done.stderr
    assert [row[1] for row in rows] == ["0", "1"] * 3
    assert [row[2] for row in rows[-2:]] == ["200"] * 2  # of a busy machine the first beats may have no value


@pytest.mark.long
def test_dmon_waits_for_a_slow_driver(driver: FakeNvml) -> None:
    driver.set("gpus 1", "latency_us 100000")
    done = alone("dmon", "--local", "-s", "p", "-c", "1")
    rows = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
    assert (done.returncode, [row[1] for row in rows]) == (0, ["0"]), done.stdout
    assert rows[0][2] != "-"


def test_a_hanging_init_is_no_success_of_dmon_and_check(driver: FakeNvml) -> None:
    driver.set("hang - nvmlInitWithFlags")
    with ThreadPoolExecutor() as pool:
        checked = pool.submit(alone, "check", "--local", "--wait", "12", "--json")
        done = alone("dmon", "--local", "-s", "p", "-c", "1")
    assert (done.returncode, "no GPU" in done.stdout) == (1, False), done.stdout
    assert "nvmlInitWithFlags" in done.stdout
    checks = {each["id"]: each["status"] for each in json.loads(checked.result().stdout)["checks"]}
    assert (checked.result().returncode, checks["gpu.driver"]) == (1, "FAIL")


def test_a_machine_without_a_gpu_is_healthy_and_says_so_plainly(driver: FakeNvml) -> None:
    driver.set("gpus 0")
    done = alone("once", "--local", *WAIT)
    assert done.returncode == 0, done.stdout
    assert "no GPU" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_an_xid_of_the_last_tick_is_waited_for(driver: FakeNvml) -> None:
    driver.set("gpus 1")
    seen = threading.Thread(target=add_xid_when_registered, args=(driver,))
    seen.start()
    done = alone("once", "--local", "--json", *WAIT)
    seen.join()
    facts = json.loads(done.stdout)
    assert [each["class"] for each in facts["incidents"]] == ["gpu.xid.fell_off"], done.stdout


def add_xid_when_registered(driver: FakeNvml) -> None:
    """As soon as the agent would take it: the second sample, for which `once` waits, comes a second later."""
    while 0 not in driver.calls().get("nvmlDeviceRegisterEvents", {}):
        time.sleep(0.01)
    driver.add("xid 0 79 1")


def test_dmon_leaves_with_1_after_an_xid(driver: FakeNvml) -> None:
    driver.set("gpus 1")
    seen = threading.Thread(target=add_xid_when_registered, args=(driver,))
    seen.start()
    done = alone("dmon", "--local", "-s", "p", "-c", "4")
    seen.join()
    assert (done.returncode, "Xid 79" in done.stdout) == (1, True), done.stdout


@pytest.mark.sampled(1)
@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_packed_log_is_named_as_not_followed(
    driver: FakeNvml, tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    driver.set("gpus 0")
    (tmp_path / "rank0.log").write_bytes(pack(b"torch.OutOfMemoryError: CUDA out of memory\n"))
    done = alone("once", "--local", "--json", "--log", str(tmp_path / "rank0.log"), *WAIT)
    facts = json.loads(done.stdout)
    assert (done.returncode, facts["healthy"]) == (1, False)
    assert [Path(each["file"]).name for each in facts["unreadable_logs"]] == ["rank0.log"]


def test_each_log_option_that_leads_to_no_file_is_named_with_the_reason(
    driver: FakeNvml, tmp_path: Path
) -> None:
    driver.set("gpus 0")
    (tmp_path / "good.log").write_text("step 1 loss 2.0\n")
    os.mkfifo(tmp_path / "pipe.log")
    (tmp_path / "runs").mkdir()
    named = ["good.log", "gone*.log", "pipe.log", "runs"]
    options = [word for name in named for word in ("--log", str(tmp_path / name))]
    done = alone("once", "--local", "--json", *options, *WAIT)
    facts = json.loads(done.stdout)
    misses = {Path(each["option"]).name: each["why"] for each in facts["log_misses"]}
    assert (done.returncode, list(misses)) == (1, named[1:])
    assert "FIFO" in misses["pipe.log"]
    assert "folder" in misses["runs"]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("latency_us", [0, 30_000], ids=["quick", "slow"])
def test_a_training_on_one_gpu_of_four_is_remarked(driver: FakeNvml, latency_us: int) -> None:
    """A driver that answers slowly lists its processes after the first reading of the node's processes."""
    program = [sys.executable, "-c", "import time; time.sleep(120)"]
    with subprocess.Popen(program, env={"CUDA_VISIBLE_DEVICES": "0", "PATH": "/usr/bin"}) as child:
        idle = [f"set {gpu} utilization 0" for gpu in (1, 2, 3)]
        driver.set(
            f"latency_us {latency_us}",
            "gpus 4",
            "set 0 utilization 95",
            *idle,
            f"process 0 {child.pid} 40000000000 compute -1",
        )
        try:
            done = gpuwatch("once", "--local", "--json", *WAIT)
        finally:
            child.kill()
    reported = [each["text"] for each in json.loads(done.stdout)["conditions"] if each["code"] == "lone_gpu"]
    assert len(reported) == 1, done.stdout
    assert "GPU 0 of 4" in reported[0]
    assert "CUDA_VISIBLE_DEVICES=0" in reported[0]


def test_an_incident_comes_first_and_the_status_is_1(driver: FakeNvml, tmp_path: Path) -> None:
    driver.set("gpus 0")
    log = tmp_path / "rank_3.log"
    log.write_text("[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.\n")
    named = ("once", "--local", "--log", str(log), *WAIT)
    done = alone(*named)
    assert done.returncode == 1, done.stdout
    assert "incident: rank 3" in done.stdout.splitlines()[1]
    assert done.stdout.count("out of memory") == 1, done.stdout
    assert "1 incident" in done.stdout.splitlines()[-1]
    facts = json.loads(alone(*named, "--json").stdout)
    (incident,) = facts["incidents"]
    assert (incident["class"], incident["rank"], facts["healthy"]) == ("oom.cuda", 3, False)
    assert incident["evidence"][0]["file"] == str(log)
