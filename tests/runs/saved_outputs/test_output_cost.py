"""Outputs of tools cost no square of their lines, whatever they repeat."""

from __future__ import annotations

import pytest

from gpuwatch.runs.saved_outputs.sections import ToolSections
from tests.rules.compiling.costs import at_most

LONGEST_S = 30.0
"""CPU seconds; below 1 s here."""
LINES = 20_000
OUTPUTS = {
    "nvlink": ("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-a)\n", "\t Link {n}: <inactive>\n"),
    "nvlink of many": ("GPU 0: H100 (UUID: GPU-a)\n", "GPU {n}: H100 (UUID: GPU-{n})\n\t Link 1: 26 GB/s\n"),
    "sinfo": ("REASON USER TIMESTAMP NODELIST\n", "Not responding slurm 2024-05-03T08:00:00 n{n}\n"),
    "ibstatus": ("Infiniband device 'mlx5_0' port 1 status:\n", "\tstate:\t\t 1: DOWN\n"),
    "rdma": (
        "link a/1 state DOWN physical_state DISABLED\n",
        "link m{n}/1 state DOWN physical_state DISABLED\n",
    ),
    "df": ("Filesystem 1K-blocks Used Available Use% Mounted on\n", "/dev/sd{n}  100 100 0 100% /m{n}\n"),
    "scontrol": ("JobId=41 JobName=x\n", "   JobState=FAILED Reason=NonZeroExitCode Dependency=(null)\n"),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_repeated_rows_take_time_in_proportion(name: str) -> None:
    heading, row = OUTPUTS[name]
    data = (heading + "".join(row.format(n=number % 900) for number in range(LINES))).encode()
    sections = ToolSections()
    with at_most(LONGEST_S):
        sections.feed(data, 0)
        sections.end()
    assert len(sections.found) <= LINES
