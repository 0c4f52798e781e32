from __future__ import annotations

import msgspec
import pytest

from gpuwatch.agent.ranks.rank_environment import identity, variables
from gpuwatch.wire import Process


@pytest.mark.parametrize(
    ("environ", "place"),
    [
        ({"RANK": "11", "LOCAL_RANK": "3", "WORLD_SIZE": "16"}, (11, 3, 16)),
        # torchrun under srun: Slurm counts nodes, torch counts ranks
        ({"RANK": "11", "LOCAL_RANK": "3", "WORLD_SIZE": "16", "SLURM_PROCID": "1"}, (11, 3, 16)),
        ({"SLURM_PROCID": "5", "SLURM_LOCALID": "1", "SLURM_NTASKS": "8"}, (5, 1, 8)),
        # a batch script or a job of one task is no rank among others
        ({"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NTASKS": "1"}, (None, None, None)),
        # a launcher of its own under one Slurm task
        (
            {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NTASKS": "2", "LOCAL_RANK": "3"},
            (None, 3, None),
        ),
        # a script that exports LOCAL_RANK=$SLURM_LOCALID
        ({"SLURM_PROCID": "6", "SLURM_LOCALID": "2", "SLURM_NTASKS": "8", "LOCAL_RANK": "2"}, (6, 2, 8)),
        (
            {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "0", "OMPI_COMM_WORLD_SIZE": "4"},
            (2, 0, 4),
        ),
        ({"PMI_RANK": "2", "PMI_SIZE": "4"}, (2, None, 4)),
        (
            {"MV2_COMM_WORLD_RANK": "1", "MV2_COMM_WORLD_LOCAL_RANK": "1", "MV2_COMM_WORLD_SIZE": "2"},
            (1, 1, 2),
        ),
        ({"RANK": "first"}, (None, None, None)),
    ],
)
def test_the_rank_of_each_launcher(environ: dict[str, str], place: tuple[int | None, ...]) -> None:
    facts = identity(environ)
    assert (facts.get("rank"), facts.get("local_rank"), facts.get("world_size")) == place


def test_the_rendezvous_and_the_job() -> None:
    assert identity({"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "29500"})["master"] == "10.0.0.1:29500"
    assert identity({"MASTER_ADDR": "fd00::1", "MASTER_PORT": "29500"})["master"] == "[fd00::1]:29500"
    assert identity({"SLURM_JOB_ID": "77", "TORCHELASTIC_RUN_ID": "x"})["job"] == "77"
    assert identity({"TORCHELASTIC_RUN_ID": "llm-7b"})["job"] == "llm-7b"
    assert "job" not in identity({"TORCHELASTIC_RUN_ID": "none"})
    assert identity({"PMIX_RANK": "1", "PMIX_NAMESPACE": "prterun-n1-77@1"})["job"] == "prterun-n1-77@1"


def test_nothing_but_the_named_variables_is_taken() -> None:
    environ = b"RANK=3\0AWS_SECRET_ACCESS_KEY=hush\0MASTER_ADDR=a\x1b]0;x\x07b\0XRANK=5\0RANKS=6\0LOCAL_RANK"
    assert variables(environ) == {"RANK": "3", "MASTER_ADDR": "a ]0;x b"}


def test_a_world_size_beyond_every_cluster_is_unknown() -> None:
    facts = identity({"RANK": "3", "WORLD_SIZE": "90000000"})
    assert facts.get("rank") == 3
    assert "world_size" not in facts


@pytest.mark.parametrize(
    "number", ["-1", "999999", "1000000", "1000001", "4294967296", "9" * 5000, "\u0663", "1e3"]
)
def test_no_number_of_an_environment_makes_its_process_invalid(number: str) -> None:
    """The cockpit refuses a process with values out of bounds: its user would be hidden."""
    for names in (("RANK", "LOCAL_RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS")):
        facts = identity(variables("\0".join(f"{name}={number}" for name in names).encode()))
        msgspec.convert({"pid": 1, "name": "a", **facts}, Process)
