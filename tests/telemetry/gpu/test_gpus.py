"""What a rank reads of its GPUs by ctypes, on the fake driver."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.cluster import ROOT
from tests.fake_nvml.build import FakeNvml, build
from tests.parts import need_compiler


@pytest.fixture(scope="module")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> FakeNvml:
    need_compiler()
    folder = tmp_path_factory.mktemp("nvml")
    return FakeNvml(build(folder / "lib"), folder / "work")


def read(nvml: FakeNvml, code: str, **env: str) -> Any:
    program = f"""
import json, time
from gpuwatch.telemetry.base.ranks import identify
from gpuwatch.telemetry.gpu.own_gpus import *
{code}
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**nvml.env(), **env},
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout)


OWN = "print(json.dumps(own_gpu(identify()).reading()))"
WATCHED = "print(json.dumps([gpu.identity['index'] for gpu in watched_gpus(identify())]))"


def test_the_values_of_the_ranks_own_gpu(nvml: FakeNvml) -> None:
    """Document 001, line 228."""
    nvml.set(
        "set 2 utilization 45",
        "set 2 temperature 71",
        "set 2 power_mw 320500",
        "set 2 memory_used 40000000000",
    )
    found = read(nvml, OWN, LOCAL_RANK="2", RANK="2", WORLD_SIZE="8")
    values = ("index", "utilization_pct", "temperature_c", "power_w")
    assert [found[name] for name in values] == [2, 45, 71, 320.5]
    assert found["memory_used_bytes"] == 40_000_000_000
    assert found["memory_pct"] == pytest.approx(100 * 40e9 / found["memory_total_bytes"])
    assert found["uuid"].startswith("GPU-")
    assert found["energy_j"] > 0


@pytest.mark.parametrize(("visible", "index"), [("5,6", 6), ("7", 7)])
def test_visible_devices_are_counted_as_torch_counts_them(nvml: FakeNvml, visible: str, index: int) -> None:
    nvml.set()
    assert read(nvml, OWN, LOCAL_RANK="1", CUDA_VISIBLE_DEVICES=visible)["index"] == index


def test_what_the_driver_refuses_is_unknown(nvml: FakeNvml) -> None:
    nvml.set("error * 3 nvmlDeviceGetPowerUsage", "error * 3 nvmlDeviceGetUtilizationRates")
    found = read(nvml, OWN)
    assert (found["power_w"], found["utilization_pct"]) == (None, None)
    assert found["temperature_c"] is not None


def test_local_rank_0_watches_the_gpus_of_its_node(nvml: FakeNvml) -> None:
    nvml.set()
    env = {"LOCAL_WORLD_SIZE": "4", "WORLD_SIZE": "4"}
    assert read(nvml, WATCHED, **env, LOCAL_RANK="0") == [0, 1, 2, 3]
    assert read(nvml, WATCHED, **env, LOCAL_RANK="1") == [1]
    assert read(nvml, WATCHED, **env, LOCAL_RANK="1", CUDA_VISIBLE_DEVICES="3") == [3]


def test_a_driver_that_hangs_does_not_delay_the_training(nvml: FakeNvml) -> None:
    nvml.set("hang 0 nvmlDeviceGetTemperature")
    code = """
seen = []
sampler = GpuSampler(watched_gpus(identify()), 0.01, seen.append)
sampler.start()
sampler.stop()
print(len(seen))
"""
    assert read(nvml, code) == 0


def test_a_session_has_averages_and_peaks_of_the_gpus(nvml: FakeNvml, tmp_path: Path) -> None:
    """Document 002, lines 60, 198 and 230: snapshots, averages and peaks, and the warning of an idle GPU."""
    nvml.set("set 0 utilization 45", "set 0 temperature 66")
    code = f"""
from gpuwatch.telemetry import TelemetrySettings, TelemetryTracker
settings = TelemetrySettings(gpu_snapshot_interval=0.005, performance_log_steps=5, track_gpu_temperature=True)
with TelemetryTracker(settings, logs_dir={str(tmp_path)!r}, output_dir={str(tmp_path)!r}) as tracker:
    for step in range(1, 101):
        while step == 5 and tracker.recorder.gpus.entries()[0]["samples"] < 3: time.sleep(0.01)
        tracker.step(loss=1.0)
folder = tracker.recorder.folder
summary = json.loads(folder.summary_json.read_text())
print(json.dumps([summary, folder.performance_log.read_text(), tracker.get_summary()]))
"""
    summary, performance, rank = read(nvml, code)
    gpu = summary["gpus"][0]
    assert (gpu["index"], gpu["utilization_avg_pct"], gpu["utilization_peak_pct"]) == (0, 45, 45)
    assert (gpu["temperature_max_c"], gpu["samples"] >= 3) == (66, True)
    warning = next(each for each in summary["warnings"] if each["class"] == "perf.gpu_utilization_low")
    assert "45.0%" in warning["example"]
    assert "WARNING  | MainProcess  | GPU 0 utilization low: 45.0%" in performance
    assert "| GPU 0 | Utilization: 45.0% | Memory: " in performance
    assert rank["gpu_temperature"]["max"] == 66
