"""Slurm's word on a job stands over its ranks, in the list of jobs and in the node table."""

from __future__ import annotations

from msgspec.structs import replace

from gpuwatch.hosts.plan import Allocation
from gpuwatch.hosts.slurm.scheduler_facts import NodeStanding, SchedulerFacts
from gpuwatch.link.demo.links import EPOCH
from gpuwatch.tui.app import GpuwatchApp
from gpuwatch.tui.chrome.dialogs.jobs_screen import JobsScreen
from tests.tui.screen_text import text_on
from tests.tui.shots import plan_for
from tests.tui.still import demo_session, still_app


def slurm_app() -> GpuwatchApp:
    session = demo_session(5.0, plan_for(2))
    allocation = Allocation("418207", "train", "ada", "RUNNING", EPOCH + 5.0 + 29 * 60 + 1, 2)
    standing = NodeStanding("Slurm", "DOWN*", "bad \x1b[2Jnic")
    session.fleet.take_scheduler(SchedulerFacts({"gpu-002": standing}, {"418207": allocation}))
    return still_app(session, 5.0)


async def test_time_left_and_requeues_stand_with_the_job() -> None:
    app = slurm_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("6")
        await pilot.pause()
        line = next(line for line in text_on(app).splitlines() if line.startswith(" Slurm"))
        assert "RUNNING" in line
        assert "29 min" in line
        assert "2 times" in line
        await pilot.press("J")
        await pilot.pause()
        assert isinstance(app.screen, JobsScreen)
        assert "29 min" in str(app.screen.choice.get_option_at_index(1).prompt)


async def test_a_node_that_slurm_calls_down_is_a_problem_of_the_fleet() -> None:
    app = slurm_app()
    app.preferences = replace(app.preferences, columns={"nodes": ("node", "scheduler", "trouble")})
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        shown = text_on(app)
        assert any("gpu-002" in line and "DOWN*" in line for line in shown.splitlines())
        assert "nic" in shown
        assert "\x1b" not in shown
