"""Local ranks in lines of launchers: the job's rank where a line maps them, else named as local ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runs.placement.culprits import first_incident

ENDED = "['/opt/py', '-u', 'fit.py', '--local_rank=2'] exits with return code = -11"


@pytest.mark.parametrize(
    "mapping",
    [
        "WORLD INFO DICT: {'kx-1': [0, 1, 2, 3], 'kx-2': [0, 1, 2, 3]}",
        "nnodes=2, num_local_procs=4, node_rank=1",
        "cmd = -m deepspeed.launcher.launch "
        "--world_info=eyJreC0xIjpbMCwxLDIsM10sImt4LTIiOlswLDEsMiwzXX0= fit.py",
    ],
)
def test_a_local_rank_is_mapped_by_the_launchers_lines(tmp_path: Path, mapping: str) -> None:
    lines = [f"kx-2: [INFO] [launch.py:164:main] {mapping}", f"kx-2: [ERROR] [launch.py:322:kill] {ENDED}"]
    found = first_incident(tmp_path, {"ds.log": "\n".join(lines) + "\n"})
    assert (found.rank, found.node) == (6, "kx-2")


@pytest.mark.parametrize("damaged", ["eyJhIjox", "AAAAAAAAAAAA", "W1swXV0="])
def test_a_damaged_mapping_names_no_rank(tmp_path: Path, damaged: str) -> None:
    lines = [f"kx-2: cmd = --world_info={damaged} fit.py", f"kx-2: [ERROR] [launch.py:322:kill] {ENDED}"]
    found = first_incident(tmp_path, {"ds.log": "\n".join(lines) + "\n"})
    assert (found.rank, found.node) == (None, "kx-2")
    assert "local rank 2 of kx-2" in found.headline
