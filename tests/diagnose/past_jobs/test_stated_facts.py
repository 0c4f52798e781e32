"""Facts that logs state in passing: the end of a job, hosts in banners, the node of a killed task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpuwatch.report.scan.report import judged, scan_facts
from gpuwatch.report.scan.text import scan_lines
from gpuwatch.rules.load import load_packs
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.scan.scan import scan

STEPS = [f"2026-03-02 10:0{number // 6}:{number % 6}0 step {number} loss 2.{number}1" for number in range(20)]
TRACEBACK = ["Traceback (most recent call last):", '  File "train.py", line 9, in <module>', "    main()"]


def report_of(folder: Path, files: dict[str, list[str]]) -> Any:
    for name, lines in files.items():
        (folder / name).write_text("\n".join([*lines, ""]))
    packs = load_packs()
    return judged(scan(gather([folder]), packs.all, "agent"), packs, 1_800_000_000.0, 0.1)


def facts(folder: Path, files: dict[str, list[str]]) -> dict[str, Any]:
    return scan_facts(report_of(folder, files))


def test_a_traceback_as_the_last_thing_of_a_job_without_an_announced_end_stops_it(tmp_path: Path) -> None:
    found = facts(tmp_path, {"train.log": [*STEPS, *TRACEBACK, "KeyError: 'labels'"]})
    assert (found["outcome"]["state"], found["outcome"]["step"]) == ("stopped", 19)


def test_a_log_that_just_ends_is_not_called_stopped(tmp_path: Path) -> None:
    assert facts(tmp_path, {"train.log": STEPS})["outcome"]["state"] == "unknown"


def test_hosts_in_the_banners_of_processes_place_the_failed_rank(tmp_path: Path) -> None:
    failure = [*TRACEBACK, "ValueError: buffer is smaller than requested size"]
    for number, banner in enumerate(
        [
            "hostname hgx{node} global rank {rank} local rank {local}",
            "[rank{rank}]: host=hgx{node} local_rank={local}",
        ]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        lines = [banner.format(node=rank // 2, rank=rank, local=rank % 2) for rank in range(4)]
        incident = facts(folder, {"job.log": [*lines, *(f"[rank3]: {line}" for line in failure)]})[
            "incidents"
        ][0]
        assert (incident["class"], incident["rank"], incident["node"]) == ("data.dataset", 3, "hgx1")


def test_a_task_that_ray_killed_is_on_the_node_that_its_exception_names(tmp_path: Path) -> None:
    lines = [
        "ray.exceptions.RayTaskError(OutOfMemoryError): ray::_Inner.train() (pid=902, ip=10.0.4.11)",
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
        "Memory on the node (IP: 10.0.4.19, ID: 5c) where the task was running was 478GB / 500GB (0.96)",
    ]
    found = facts(tmp_path, {"driver.log": [*TRACEBACK, *lines]})["incidents"]
    assert {(each["class"], each["node"]) for each in found} == {("oom.ray", "10.0.4.19")}


def test_an_evicted_pod_has_the_rank_that_runs_on_its_node(tmp_path: Path) -> None:
    events = [
        "61m  Normal   Scheduled  pod/lm-worker-3  Successfully assigned nlp/lm-worker-3 to pool-7f3c",
        "75s  Warning  Evicted    pod/lm-worker-3  The node was low on resource: ephemeral-storage.",
    ]
    log = [
        "WORLD_SIZE=6 RANK=4 NODE_NAME=pool-7f3c",
        *(line.replace(" step", " [rank 4] step") for line in STEPS),
    ]
    (incident,) = facts(tmp_path, {"events.txt": events, "lm-worker-3.log": log})["incidents"]
    assert (incident["rank"], incident["node"]) == (4, "pool-7f3c")


def test_a_warning_outside_of_incidents_shows_its_line_without_the_head(tmp_path: Path) -> None:
    line = "[2026-03-02 10:00:31,201][trainer][WARNING] - GPU 6 on dgx-04 is no longer reachable"
    report = report_of(tmp_path, {"train.log": [*STEPS[:4], line, *STEPS[4:]]})
    (alert,) = scan_facts(report)["alerts"]
    assert (alert["class"], alert["node"], alert["gpu"]) == ("gpu.lost", "dgx-04", 6)
    assert not alert["recovered"]
    texts = [each.text.strip() for each in scan_lines(report, verbose=False)]
    assert line.partition(" - ")[2] in texts
