"""Local ranks in lines of launchers: the job's rank where a line maps them, else named as local ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.runs.placement.culprits import first_incident

STARTED = "process 7312 spawned with command: ['/opt/py', '-u', 'fit.py', '--local_rank=2']"
KILLED = "kx-2: kernel: Out of memory: Killed process 7312 (python) total-vm:9000000kB, anon-rss:8000000kB"


def lines_of(*messages: str) -> dict[str, str]:
    return {"ds.log": "".join(f"kx-2: [INFO] [launch.py:164:main] {each}\n" for each in messages)}


@pytest.mark.parametrize(
    "mapping",
    [
        "WORLD INFO DICT: {'kx-1': [0, 1, 2, 3], 'kx-2': [0, 1, 2, 3]}",
        "nnodes=2, num_local_procs=4, node_rank=1",
        "cmd = -m launch --world_info=eyJreC0xIjpbMCwxLDIsM10sImt4LTIiOlswLDEsMiwzXX0= fit.py",
    ],
)
def test_a_process_of_a_local_rank_is_mapped_by_the_launchers_lines(tmp_path: Path, mapping: str) -> None:
    job = lines_of(mapping, STARTED) | {"kx-2.dmesg": f"Mar  2 10:00:00 {KILLED}\n"}
    found = first_incident(tmp_path, job)
    assert (found.rank, found.node) == (6, "kx-2")


@pytest.mark.parametrize("damaged", ["eyJhIjox", "AAAAAAAAAAAA", "W1swXV0="])
def test_a_damaged_mapping_names_no_rank(tmp_path: Path, damaged: str) -> None:
    job = lines_of(f"cmd = --world_info={damaged} fit.py", STARTED)
    found = first_incident(tmp_path, job | {"kx-2.dmesg": f"Mar  2 10:00:00 {KILLED}\n"})
    assert (found.rank, found.node) == (None, "kx-2")


def test_the_command_at_deepspeeds_end_names_no_rank(tmp_path: Path) -> None:
    """It is that of the last process of the node, whichever failed."""
    ended = "['/opt/py', '-u', 'fit.py', '--local_rank=3'] exits with return code = -11"
    found = first_incident(tmp_path, lines_of("nnodes=2, num_local_procs=4, node_rank=1", ended))
    assert (found.rank, found.node) == (None, "kx-2")


def test_a_local_rank_without_a_mapping_is_named_as_one(tmp_path: Path) -> None:
    ended = "failed (exitcode: -11) local_rank: 5 (pid: 1200) of binary: /opt/py"
    found = first_incident(
        tmp_path, {"launch.log": f"kx-2: world_size=64\nkx-2: E0302 10:00:00.0 77 {ended}\n"}
    )
    assert found.rank is None
    assert found.headline.partition(" of kx-2")[0].endswith("rank 5")
