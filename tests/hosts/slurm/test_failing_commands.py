"""Slurm's commands that are down, slow, fail or print garbage, as real programs on PATH."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gpuwatch.hosts import external_command
from gpuwatch.hosts.slurm.commands import known_job, node_reports, queued_jobs, scheduler_facts
from gpuwatch.hosts.validation.errors import HostsError
from tests.hostile_text import steering

MOODS = {
    "down": "echo 'slurm_load_jobs error: Unable to contact slurm controller (connect failure)' >&2; exit 1",
    "slow": "sleep 600",
    "status": "exit 200",
    "killed": "kill -9 $$",
    "garbage": "head -c 100000 /dev/urandom",
    "endless": "exec yes JobId=7",
    "page": "echo '<html><body>502 Bad Gateway</body></html>'",
    "steering": "printf '\\033]52;c;eA==\\007\\233 failed' >&2; exit 1",
    "empty": "true",
    "half": "printf 'JobId=7 JobName=a\\n   UserId='",
    "twins": "printf 'NodeName=gpu-001 State=IDLE Reason=\\377\\376 [root@\\n%.0s' $(seq 50)",
}
COMMANDS = ("scontrol", "squeue", "sacct")


@pytest.fixture(params=MOODS)
def mood(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """All commands of one mood; an answer may take a second and a megabyte."""
    name: str = request.param
    for command in COMMANDS:
        program = tmp_path / command
        program.write_text(f"#!/bin/sh\n{MOODS[name]}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(external_command, "ANSWER_S", 1.0)
    monkeypatch.setattr(external_command, "MAX_BYTES", 1 << 20)
    return name


def test_a_job_is_refused_with_the_reason_and_a_queue_is_empty(mood: str) -> None:
    with pytest.raises(HostsError) as refused:
        known_job("41")
    text = str(refused.value)
    assert steering(text) == [] or mood == "steering", "a refusal is cleaned where it is printed"
    named = {"down": "slurm controller", "slow": "1 s", "status": "200", "endless": "MiB"}
    assert named.get(mood, "41" if mood in {"empty", "half", "page", "garbage", "twins"} else "") in text
    try:
        jobs = queued_jobs()
    except HostsError:
        assert mood in {"down", "slow", "status", "killed", "endless", "steering"}
    else:
        assert jobs == []


def test_the_session_goes_on_without_the_states_of_its_nodes(mood: str) -> None:
    reports = node_reports(["gpu-001"])
    assert reports.keys() <= ({"gpu-001"} if mood == "twins" else set())
    assert all(not steering(f"{each.state}{each.reason}") for each in reports.values())
    facts = scheduler_facts(["gpu-001", "gpu-002"], ["41"])
    assert (set(facts.nodes) <= {"gpu-001"}, dict(facts.jobs)) == (True, {})
