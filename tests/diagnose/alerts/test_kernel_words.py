"""A kernel's line about the CPU states no loss of a job."""

from __future__ import annotations

import pytest

from gpuwatch import wire
from gpuwatch.rules.load import load_packs
from tests.diagnose.incidents.alert_cluster import Watched

BUILT_IN = load_packs()


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("RDSEED32 is broken. Disabling the corresponding CPUID bit.", None),
        ("raid array md0 is degraded: 7 of 8 drives", "storage.lost"),
    ],
)
def test_only_a_part_of_the_machine_is_lost_in_the_kernel_log(line: str, code: str | None) -> None:
    cluster = Watched(packs=BUILT_IN)
    cluster.find("job.loss_sign", None, file=wire.KERNEL_LOG, lines=[line], severity="warning")
    cluster.step(2)
    assert [alert.code for alert in cluster.book.alerts.values()] == ([] if code is None else [code])
