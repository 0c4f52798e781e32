"""The rule file, run by promtool over made-up series; each scenario states all that fires."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpuwatch.hosts.plan import Thresholds
from gpuwatch.report.exporter.alert_rules import alert_rules, rule_file
from tests.parts import need

ROOT = Path(__file__).parents[3]
G = 'node="n1",gpu="0",uuid="U0"'
J = 'job="411"'
END_S = 1800

SCENARIOS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "healthy": (
        {
            'gpuwatch_node_state{node="n1",state="live"}': "1x120",
            'gpuwatch_node_up{node="n1"}': "1x120",
            'gpuwatch_node_gpus_present{node="n1"}': "8x120",
            'gpuwatch_node_gpus_expected{node="n1"}': "8x120",
            f'gpuwatch_gpu_state{{{G},state="ok"}}': "1x120",
            f"gpuwatch_gpu_temperature_celsius{{{G}}}": "70x120",
            f"gpuwatch_gpu_slowdown_temperature_celsius{{{G}}}": "87x120",
            f"gpuwatch_gpu_utilization_ratio{{{G}}}": "1x120",
            f"gpuwatch_job_loss{{{J}}}": "2.5x120",
            f'gpuwatch_rank_last_write_timestamp_seconds{{{J},rank="0"}}': "0+15x120",
            "gpuwatch_exporter_dropped_series": "0x120",
        },
        (),
    ),
    "incidents": (
        {
            f'gpuwatch_incident_active{{{J},number="{number}",severity="{severity}",class="xid"}}': "1x120"
            for number, severity in enumerate(("critical", "error", "warning"))
        },
        ("GpuwatchIncidentCritical", "GpuwatchIncidentError", "GpuwatchIncidentWarning"),
    ),
    "too many series": ({"gpuwatch_exporter_dropped_series": "9x120"}, ("GpuwatchSeriesDropped",)),
    "a lost node": ({'gpuwatch_node_state{node="n1",state="lost"}': "1x120"}, ("GpuwatchNodeLost",)),
    "a stale node": ({'gpuwatch_node_state{node="n1",state="stale"}': "1x120"}, ("GpuwatchNodeStale",)),
    "a node that was gone for 30 s": (
        {'gpuwatch_node_state{node="n1",state="lost"}': "_x116 1x1 stale"},
        (),
    ),
    "7 of 8": (
        {
            'gpuwatch_node_up{node="n1"}': "1x120",
            'gpuwatch_node_gpus_present{node="n1"}': "7x120",
            'gpuwatch_node_gpus_expected{node="n1"}': "8x120",
        },
        ("GpuwatchGpuMissing",),
    ),
    "a lost GPU": ({f'gpuwatch_gpu_state{{{G},state="lost"}}': "1x120"}, ("GpuwatchGpuLost",)),
    "a stuck GPU": ({f'gpuwatch_gpu_state{{{G},state="stuck"}}': "1x120"}, ("GpuwatchGpuStuck",)),
    "an Xid": ({f"gpuwatch_gpu_last_xid_timestamp_seconds{{{G}}}": "1000x120"}, ("GpuwatchXid",)),
    "an Xid of yesterday": ({f"gpuwatch_gpu_last_xid_timestamp_seconds{{{G}}}": "-80000x120"}, ()),
    "over the slowdown": (
        {
            f"gpuwatch_gpu_temperature_celsius{{{G}}}": "88x120",
            f"gpuwatch_gpu_slowdown_temperature_celsius{{{G}}}": "87x120",
        },
        ("GpuwatchGpuOverheated",),
    ),
    "near the slowdown": (
        {
            f"gpuwatch_gpu_temperature_celsius{{{G}}}": "83x120",
            f"gpuwatch_gpu_slowdown_temperature_celsius{{{G}}}": "87x120",
        },
        ("GpuwatchGpuHot",),
    ),
    "hot without a slowdown": ({f"gpuwatch_gpu_temperature_celsius{{{G}}}": "86x120"}, ("GpuwatchGpuHot",)),
    "throttled": (
        {
            f'gpuwatch_gpu_throttle_ratio{{{G},reason="{reason}"}}': "0.5x120"
            for reason in ("hw_thermal", "power_brake", "sw_thermal", "power_cap")
        },
        ("GpuwatchThrottledHwThermal", "GpuwatchThrottledPowerBrake", "GpuwatchThrottledSwThermal"),
    ),
    "unlike its peers": (
        {
            f'{name}{{node="n1",gpu="{gpu}",uuid="U{gpu}"}}': f"{odd if gpu == 3 else usual}x120"
            for gpu in range(8)
            for name, usual, odd in (
                ("gpuwatch_gpu_utilization_ratio", 1, 1),
                ("gpuwatch_gpu_temperature_celsius", 60, 80),
                ("gpuwatch_gpu_sm_clock_hertz", 1_980_000_000, 1_200_000_000),
            )
        },
        ("GpuwatchGpuHotterThanPeers", "GpuwatchGpuSlowerThanPeers"),
    ),
    "held and idle": (
        {
            f"gpuwatch_gpu_utilization_ratio{{{G}}}": "0x120",
            f'gpuwatch_rank_info{{{J},rank="0",uuid="U0"}}': "1x120",
        },
        ("GpuwatchGpuIdleHeld",),
    ),
    "bad memory": (
        {
            f"gpuwatch_gpu_ecc_uncorrected_errors_total{{{G}}}": "2x120",
            f"gpuwatch_gpu_remap_failed{{{G}}}": "1x120",
            f"gpuwatch_gpu_remap_pending{{{G}}}": "1x120",
            f"gpuwatch_gpu_retired_pending{{{G}}}": "1x120",
            f'gpuwatch_gpu_recovery_action{{{G},action="gpu_reset"}}': "1x120",
        },
        (
            "GpuwatchGpuEccUncorrected",
            "GpuwatchGpuRecoveryAction",
            "GpuwatchGpuRemapFailed",
            "GpuwatchGpuRemapPending",
            "GpuwatchGpuRetiredPending",
        ),
    ),
    "NVLink replays": (
        {
            f'gpuwatch_gpu_nvlink_errors_total{{{G},kind="replay"}}': "0+1x120",
            f'gpuwatch_gpu_nvlink_errors_total{{{G},kind="crc"}}': "0x120",
        },
        ("GpuwatchNvlinkErrors",),
    ),
    "a few CRC errors": (
        {
            f'gpuwatch_gpu_nvlink_errors_total{{{G},kind="replay"}}': "0x120",
            f'gpuwatch_gpu_nvlink_errors_total{{{G},kind="crc"}}': "0+1x120",
        },
        (),
    ),
    "a full host": (
        {
            'gpuwatch_node_memory_used_bytes{node="n1"}': "99x120",
            'gpuwatch_node_memory_size_bytes{node="n1"}': "100x120",
            'gpuwatch_filesystem_used_bytes{node="n1",mountpoint="/"}': "99x120",
            'gpuwatch_filesystem_size_bytes{node="n1",mountpoint="/"}': "100x120",
        },
        ("GpuwatchDiskFull", "GpuwatchHostMemoryFull"),
    ),
    "a port that went down": (
        {'gpuwatch_infiniband_up{node="n1",device="mlx5_0",port="1"}': "1x100 0x20"},
        ("GpuwatchInfinibandDown",),
    ),
    "a port without a cable": ({'gpuwatch_infiniband_up{node="n1",device="mlx5_0",port="1"}': "0x120"}, ()),
    "a clock that is off": (
        {
            'gpuwatch_node_clock_offset_seconds{node="n1"}': "-3x120",
            'gpuwatch_node_clock_error_seconds{node="n1"}': "0.1x120",
        },
        ("GpuwatchClockOff",),
    ),
    "a silent job": (
        {
            f'gpuwatch_rank_last_write_timestamp_seconds{{{J},rank="0"}}': "0+15x100 1500x20",
            f'gpuwatch_job_step_percentile_seconds{{{J},percentile="50"}}': "2x120",
            f"gpuwatch_job_up{{{J}}}": "1x120",
        },
        ("GpuwatchJobSilent",),
    ),
    "a job with long steps": (
        {
            f'gpuwatch_rank_last_write_timestamp_seconds{{{J},rank="0"}}': "0+15x100 1500x20",
            f'gpuwatch_job_step_percentile_seconds{{{J},percentile="50"}}': "100x120",
            f"gpuwatch_job_up{{{J}}}": "1x120",
        },
        ("GpuwatchStepSlow",),
    ),
    "a job that has ended": (
        {
            f'gpuwatch_rank_last_write_timestamp_seconds{{{J},rank="0"}}': "0x120",
            f"gpuwatch_job_up{{{J}}}": "0x120",
        },
        (),
    ),
    "unequal ranks": (
        {f'gpuwatch_job_imbalance_ratio{{{J},column="step_s"}}': "0.3x120"},
        ("GpuwatchJobImbalance",),
    ),
    "a NaN": ({f"gpuwatch_job_loss{{{J}}}": " ".join(["NaN"] * 121)}, ("GpuwatchLossNotFinite",)),
    "half a checkpoint": (
        {f"gpuwatch_job_checkpoint_complete{{{J}}}": "0x120"},
        ("GpuwatchCheckpointIncomplete",),
    ),
    "slow steps": (
        {f'gpuwatch_job_step_percentile_seconds{{{J},percentile="50"}}': "40x120"},
        ("GpuwatchStepSlow",),
    ),
}
LIMITS = replace(Thresholds(), slow_step_s=30.0)


def test_every_rule_has_a_scenario_that_it_fires_in() -> None:
    fired = {name for _, names in SCENARIOS.values() for name in names}
    assert fired | {"GpuwatchExporterDown"} == {rule.name for rule in alert_rules(LIMITS)}


@pytest.mark.long
def test_what_fires_in_each_scenario(tmp_path: Path) -> None:
    promtool = need("promtool")
    (tmp_path / "rules.yml").write_text(rule_file(LIMITS))
    tests: list[object] = [scenario(series, names) for series, names in SCENARIOS.values()]
    down = {**scenario({}, ("GpuwatchExporterDown",)), "input_series": []}
    file = {"rule_files": ["rules.yml"], "evaluation_interval": "60s", "tests": [*tests, down]}
    (tmp_path / "tests.yml").write_text(json.dumps(file))
    argv = [promtool, "test", "rules", "tests.yml"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def scenario(series: dict[str, str], names: tuple[str, ...]) -> dict[str, object]:
    given = {"gpuwatch_build_info": "1x120", **series}
    return {
        "interval": "15s",
        "input_series": [{"series": name, "values": values} for name, values in given.items()],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": f"{END_S}s",
                "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in sorted(names)],
            }
        ],
    }


def test_the_rule_file_in_docs_is_that_of_the_default_thresholds() -> None:
    assert (ROOT / "docs" / "gpuwatch.rules.yml").read_text() == rule_file(Thresholds())
