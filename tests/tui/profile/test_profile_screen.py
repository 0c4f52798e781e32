"""`ctrl+t`: the cost first, then the profile of the rank under the cursor beside the median rank."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from textual.pilot import Pilot

from gpuwatch import wire
from gpuwatch.diagnose.profiles.cost import ProfileOptions
from gpuwatch.diagnose.training.job_view.rank_placement import PlacedRank, RankPlacement
from gpuwatch.fleet.pending_request import Asked
from gpuwatch.link.demo import hang, profile
from gpuwatch.link.demo.scenario import GPUS_PER_NODE
from gpuwatch.session.profile_query import ProfileQuery
from gpuwatch.tui.app import GpuwatchApp
from gpuwatch.tui.profile.screen import ProfileScreen
from tests.tui.screen_text import text_on
from tests.tui.still import NOW, StillSession, judged_session, still_app

SECOND = 52.0


class Answering:
    """Asks the demo's ranks, and has their answers at once; sampling is counted."""

    py_spy = None

    def __init__(self, session: StillSession) -> None:
        self.fleet = session.fleet
        self.sampled: list[str] = []

    def ask_stacks(self, node: str, pids: Sequence[int], *_: object, **__: object) -> Asked:
        request = wire.AskStacks(id=1, pids=list(pids))
        reply = hang.reply(request, self.fleet.nodes[node].processes, SECOND, 0.0)
        return Asked(node, 1, data=reply.data)

    def ask_profile(self, node: str, pids: Sequence[int], **options: Any) -> Asked:
        self.sampled.append(node)
        request = wire.AskProfile(id=2, pids=list(pids), **options)
        return Asked(node, 2, data=profile.reply(request, self.fleet.nodes[node].processes, 0.0).data)

    def ask_kernels(self, *_: object) -> Asked:
        raise AssertionError

    def upload_py_spy(self, *_: object) -> Asked:
        raise AssertionError


def profiling_app() -> tuple[GpuwatchApp, Answering]:
    session = judged_session(SECOND)
    asked = Answering(session)

    def start(places: Sequence[PlacedRank], placement: RankPlacement) -> ProfileQuery:
        return ProfileQuery(asked, places, ProfileOptions(), placement, lambda: NOW)

    session.profile = start  # type: ignore[method-assign]
    return still_app(session, SECOND), asked


async def frames(pilot: Pilot[None], app: GpuwatchApp) -> None:
    for _ in range(3):
        app.pump()
        await pilot.pause()


@pytest.mark.parametrize("size", [(80, 24), (160, 45)])
async def test_the_cost_is_shown_before_anything_is_sampled(size: tuple[int, int]) -> None:
    app, asked = profiling_app()
    async with app.run_test(size=size) as pilot:
        guilty = app.view_state.session.fleet.nodes[f"gpu-{hang.GUILTY // GPUS_PER_NODE + 1:03}"]
        uuid = next(
            gpu for gpu in guilty.gpu_list() if gpu.info.index == hang.GUILTY % GPUS_PER_NODE
        ).info.uuid
        app.pump()
        app.show_gpu(guilty.name, uuid)
        await frames(pilot, app)
        await pilot.press("ctrl+t")
        await frames(pilot, app)
        assert isinstance(app.screen, ProfileScreen)
        assert "% of one CPU" in " ".join(text_on(app).split())
        assert asked.sampled == []
        await pilot.press("enter")
        await frames(pilot, app)
        assert asked.sampled[0] == guilty.name
        text = text_on(app)
        assert f"rank {hang.GUILTY} " in text
        assert "__next__ (dataloader.py:733)" in text
        await pilot.press("escape")
        assert not isinstance(app.screen, ProfileScreen)


async def test_without_a_rank_nothing_opens() -> None:
    app, asked = profiling_app()
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("ctrl+t")
        await frames(pilot, app)
        assert not isinstance(app.screen, ProfileScreen)
        app.view_state.replay = SimpleNamespace(playing=False, at_end=True)
        app.action_profile()
        assert asked.sampled == []
