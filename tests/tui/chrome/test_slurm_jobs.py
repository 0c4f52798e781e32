"""The screen of `gpuwatch --slurm`: running jobs can be chosen, other users' jobs are one key away."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

import pytest
from textual.widgets import OptionList

from gpuwatch.cli.shared.slurm_jobs import job_table
from gpuwatch.hosts.slurm.reports import QueuedJob, read_queue
from gpuwatch.hosts.validation.errors import HostsError
from gpuwatch.tui.chrome.slurm_jobs_screen import SlurmJobsApp

OWN = (
    "61|RUNNING|ann|2|5:00|0:10|gres:gpu:8|node[001-002]|run seven\n"
    "62|RUNNING|ann|1|1:00|9:10|gres:gpu:8|node003|[red]x\x1b[2J\n"
    "63|PENDING|ann|2|0:00|1:00|gres:gpu:8|(Resources)|waits\n"
)
OTHERS = "70|RUNNING|bob|1|5:00|0:10|N/A|node004|his\n"
WAIT_S = 240.0


def read(everyone: bool) -> Sequence[QueuedJob]:
    return read_queue(OWN.replace("63|", OTHERS + "63|") if everyone else OWN, "|")


async def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end
        await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    ("keys", "job"), [(("enter",), "61"), (("down", "enter"), "62"), (("escape",), None)]
)
async def test_the_job_under_the_cursor_is_the_result(keys: tuple[str, ...], job: str | None) -> None:
    app = SlurmJobsApp(read, job_table)
    async with app.run_test(size=(100, 24)) as pilot:
        await until(lambda: app.choice.option_count == 3)
        assert [app.choice.get_option_at_index(at).disabled for at in range(3)] == [False, False, True]
        await pilot.press(*keys)
        await pilot.pause()
    assert app.return_value == job


async def test_jobs_of_all_users_and_a_queue_that_cannot_be_read() -> None:
    broken = False

    def sometimes(everyone: bool) -> Sequence[QueuedJob]:
        if broken:
            raise HostsError(["squeue: E42"])
        return read(everyone)

    app = SlurmJobsApp(sometimes, job_table)
    async with app.run_test(size=(100, 24)) as pilot:
        await until(lambda: app.choice.option_count == 3)
        await pilot.press("a")
        await until(lambda: app.choice.option_count == 4)
        broken = True
        await pilot.press("r")
        await until(lambda: "E42" in str(app.title_line.render()))
        assert app.query_one(OptionList).option_count == 4
