"""The command palette leads to incidents, jobs, metrics and places; it is fuzzy, and offers the best hits."""

from __future__ import annotations

import pytest
from textual.command import CommandList
from textual.fuzzy import Matcher
from textual.pilot import Pilot

from gpuwatch.tui.app import GpuwatchApp
from gpuwatch.tui.command_provider import MAX_HITS, matched
from gpuwatch.tui.incidents.screen import IncidentsScreen
from tests.tui.screen_text import fleet_of
from tests.tui.still import judged_session, still_app


async def offered(app: GpuwatchApp, pilot: Pilot[None], typed: str) -> list[str]:
    """The prompts that the palette shows for what is typed, the best first."""
    await pilot.press("colon", *typed)
    await app.workers.wait_for_complete()
    await pilot.pause()
    hits = app.screen.query_one(CommandList)
    return [str(hits.get_option_at_index(at).prompt) for at in range(hits.option_count)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("typed", "first"),
    [
        ("g11g5", "gpu-011 gpu 5"),
        ("rank 85", "rank 85"),
        ("rk127", "rank 127"),
        ("gpu-016 gpu 7", "gpu-016 gpu 7"),
        ("7 gpu-016 gpu", "gpu-016 gpu 7"),
        ("metric util", "metric util"),
        ("mtrctemp", "metric temp"),
        ("dracula", "theme dracula"),
        ("job 4182", "job 418207"),
        ("fell off the bus", "incident 1:"),
        ("inc 1 off", "incident 1:"),
    ],
)
async def test_the_best_hit_comes_first(typed: str, first: str) -> None:
    app = still_app(judged_session(52), 52)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        found = await offered(app, pilot, typed)
        assert found
        assert found[0].startswith(first)
        assert len(found) <= MAX_HITS + len(list(app.get_system_commands(app.screen_stack[0])))


async def test_a_hit_leads_to_its_incident_job_or_metric() -> None:
    app = still_app(judged_session(52), 52)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await offered(app, pilot, "metric temp")
        await pilot.press("enter")
        await pilot.pause()
        assert fleet_of(app).heat.metric.name == "temp"
        await offered(app, pilot, "job 418207")
        await pilot.press("enter")
        await pilot.pause()
        assert app.view_state.scope.job == "418207"
        await offered(app, pilot, "all jobs")
        await pilot.press("enter")
        await pilot.pause()
        assert app.view_state.scope.job is None
        await offered(app, pilot, "fell off")
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.screen, IncidentsScreen)
        incident = app.screen.incident()
        assert incident is not None
        assert incident.number == 1


def test_a_long_headline_is_matched_in_few_ways_and_its_brackets_are_kept() -> None:
    name = "incident 1: [red]" + "e a " * 400
    matcher = Matcher("eaeaeaeaeaeaeaeaea")
    score, offsets = matched(matcher, ["eaeaeaeaeaeaeaeaea"], name)
    assert score > 0
    assert [name[at] for at in offsets] == list("eaeaeaeaeaeaeaeaea")
    assert matched(matcher, ["zzz"], name) == (0.0, ())
