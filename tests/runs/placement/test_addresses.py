"""Addresses of hosts in NCCL's lines and in tables of hosts."""

from pathlib import Path

import pytest

from gpuwatch.runs.files.files import gather
from gpuwatch.runs.scan.scan import scan


@pytest.mark.parametrize(
    "lines",
    [
        "ib-{n}:90{n}:95 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.7.0.1{n}<0>\n",
        "10.7.0.1{n} ib-{n}\n",
        "10.7.0.1{n}\tib-{n} ib-{n}.local\n",
    ],
)
def test_the_host_of_an_address_is_known(tmp_path: Path, lines: str) -> None:
    (tmp_path / "all.log").write_text("".join(lines.format(n=n) for n in range(3)))
    assert scan(gather([tmp_path]), [], "agent", cores=1).places.addresses["10.7.0.12"] == "ib-2"
