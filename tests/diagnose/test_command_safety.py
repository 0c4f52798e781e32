"""No text of a log or an environment reaches a command to copy unless it has the form of its value."""

from __future__ import annotations

import re
import shlex

import pytest

from gpuwatch.diagnose.hang.remedy import commands
from gpuwatch.diagnose.incidents.placeholders import command
from gpuwatch.diagnose.playbook import playbook
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.rules.load import load_packs
from gpuwatch.wire import Process, Ranks
from tests.report.fleets import NODE_TIME, feed, plan

PACKS = load_packs()
HOSTILE = (
    "418207 ; true #",
    "$(touch${IFS}x);`id`",
    "-oProxyCommand=touch x",
    "a\nb",
    "x|sh",
    "a&b",
    "x'y",
    "../../x",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_host_is_in_no_step_of_any_pack(text: str) -> None:
    for code in PACKS.by_id:
        _, steps, _ = playbook(code, PACKS, text, 5, 3)
        for step in steps:
            for copied in re.findall(r"`([^`]+)`", step):
                assert text not in copied, (code, step)


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("name", ["node", "job", "pid"])
def test_a_hostile_value_is_in_no_command(name: str, text: str) -> None:
    values: dict[str, object] = {"node": "gpu-001", "job": "7", "pid": 4, "gpu": 1, "rank": 2, name: text}
    for step in ('ssh {node} "dmesg -T"', "ssh {node} py-spy dump --pid {pid}", "sacct -j {job}"):
        assert text not in command(step, values)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_job_id_of_an_environment_is_cancelled_by_nobody(text: str) -> None:
    fleet = Fleet(plan("gpu-001"))
    variables = {"SLURM_JOB_ID": text}
    process = Process(50, "python", rank=2, job="7", variables=variables)
    feed(fleet, "gpu-001", Ranks(t=NODE_TIME, seq=1, processes=[process]))
    made = [line for _, line in commands(fleet, (2,), None, {})]
    assert made, "the rank's own commands remain"
    for line in made:
        assert shlex.split(line)[0] in ("ssh", "scontrol", "sbatch")
        assert "scancel" not in line


def test_a_real_job_id_is_cancelled() -> None:
    fleet = Fleet(plan("gpu-001"))
    process = Process(50, "python", rank=2, job="7", variables={"SLURM_JOB_ID": "418207_3"})
    feed(fleet, "gpu-001", Ranks(t=NODE_TIME, seq=1, processes=[process]))
    assert ["scancel", "418207_3"] in [shlex.split(line) for _, line in commands(fleet, (2,), None, {})]
