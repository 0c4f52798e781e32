"""A rank whose process has ended is found where it ran: by the filter, in the heat map, in the palette."""

from __future__ import annotations

from gpuwatch import wire
from gpuwatch.fleet.nodes.last_ranks import ended_on_node
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.stream.inbox import Arrival, LinkStatus
from gpuwatch.tui.node.gpu_screen import GpuScreen
from tests.tui.screen_text import fleet_of, text_on
from tests.tui.still import NOW, StillSession, demo_session, still_app

RANK, NODE, INDEX = 85, "gpu-011", 5


ENDED = Arrival(NODE, NOW, wire.Ranks(t=1.0, seq=99))
"""No process is left on the node."""


async def test_an_ended_rank_is_found_where_it_ran_with_its_age() -> None:
    now = [NOW]
    session = demo_session(14)
    app = still_app(session, 14, clock=lambda: now[0])
    gpu = next(gpu for gpu in session.fleet.nodes[NODE].gpu_list() if gpu.info.index == INDEX)
    async with app.run_test(size=(120, 40)) as pilot:
        session.waiting.append(ENDED)
        app.pump()
        now[0] += 40
        await pilot.press("slash", *f"rank={RANK}", "enter")
        app.pump()
        await pilot.pause()
        assert fleet_of(app).shown.gpus == {gpu.info.uuid}
        assert f"rank {RANK}, seen 4" in text_on(app)
        await pilot.press("escape")
        await pilot.pause()
        here = fleet_of(app).heat.chosen()
        assert here is not None
        assert (here[0].name, here[1]) == (NODE, gpu)  # the found rank keeps the cursor
        await pilot.press("colon", *f"rank {RANK}")
        await app.workers.wait_for_complete()
        await pilot.pause()
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.screen, GpuScreen)
        assert f"{NODE} GPU {INDEX}" in text_on(app)
        assert f"rank {RANK}, seen 4" in text_on(app)


async def test_an_ended_rank_of_a_node_without_gpus_is_found_with_its_age() -> None:
    def ranks(seq: int, *numbers: int) -> Arrival:
        own = [wire.Process(pid=100 + n, name="python", rank=n, job="a") for n in numbers]
        return Arrival("login-1", NOW, wire.Ranks(t=1.0, seq=seq, processes=own))

    hello = wire.Hello(t=1.0, seq=0, host="login-1", agent="1", python="3", pid=1, interval_s=1.0)
    started = [Arrival("login-1", NOW, each) for each in (LinkStatus("live"), hello)]
    plan = Plan(nodes=(NodeSpec("login-1"), NodeSpec("login-2")))
    session = StillSession(plan, [*started, ranks(1, 0, 1, 2), ranks(2, 0, 2), ranks(3)])
    now = [NOW]
    app = still_app(session, clock=lambda: now[0])
    async with app.run_test(size=(120, 40)) as pilot:
        now[0] += 40
        for rank, found in ((1, ["login-1"]), (2, ["login-1"]), (3, [])):
            await pilot.press("slash", *f"rank={rank}", "enter")
            app.pump()
            await pilot.pause()
            assert [view.name for view in fleet_of(app).shown.views] == found
            assert ("ranks 0-2, seen 4" in text_on(app)) is bool(found)
            await pilot.press("escape")
        fleet = session.fleet
        fleet.apply(Arrival("login-2", NOW, ranks(4, 1).what))
        assert list(ended_on_node(fleet.nodes["login-1"])) == [0, 2]  # rank 1 runs elsewhere
        other_job = wire.Process(pid=7, name="python", rank=0, job="b")
        fleet.apply(Arrival("login-1", NOW, wire.Ranks(t=1.0, seq=5, processes=[other_job])))
        assert not ended_on_node(fleet.nodes["login-1"])


def test_a_rank_that_runs_elsewhere_leaves_its_old_place() -> None:
    fleet = demo_session(14).fleet
    fleet.apply(ENDED)
    old = next(gpu for gpu in fleet.nodes[NODE].gpu_list() if gpu.info.index == INDEX)
    assert list(old.last_ranks) == [RANK]
    other = fleet.nodes["gpu-012"]
    process = next(each for each in other.processes if each.rank == 88)
    moved = [wire.Process(pid=7, name="python", rank=RANK, job=process.job, gpus=process.gpus)]
    fleet.apply(Arrival("gpu-012", NOW, wire.Ranks(t=2.0, seq=99, processes=moved)))
    assert list(old.last_ranks) == []
    assert other.gpus[process.gpus[0].uuid].last_ranks == (RANK,)
