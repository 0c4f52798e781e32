"""A fleet with more GPUs than cells: it is folded into groups, and the problems stand first."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.stream.inbox import Arrival, LinkStatus
from gpuwatch.tui.fleet.folding.groups import MAX_LISTED, NodeGroup
from gpuwatch.tui.fleet.folding.ways import NO_GROUP, RUN_NODES, foldings
from gpuwatch.tui.node.screen import NodeScreen
from gpuwatch.wire import Sample
from tests.tui.screen_text import fleet_of, text_on
from tests.tui.shots import plan_for
from tests.tui.still import NOW, StillSession, demo_session, still_app

NODES, RACK = 416, 16


def racks(nodes: int = NODES) -> Plan:
    plan = plan_for(nodes)
    named = [replace(spec, labels={"rack": f"r{at // RACK:02}"}) for at, spec in enumerate(plan.nodes)]
    return replace(plan, nodes=tuple(named))


def plan_of(*names: str, **options: object) -> Plan:
    return Plan(tuple(NodeSpec(name) for name in names), source="test", **options)  # type: ignore[arg-type]


def lose(session: StillSession, *names: str) -> None:
    for name in names:
        session.fleet.apply(Arrival(name, NOW, LinkStatus("lost", reason="no route to host")))


def large() -> StillSession:
    """The demo at its start: one node is live, all others are connecting."""
    return demo_session(0, racks())


def test_a_rack_comes_before_a_group_and_a_group_before_other_labels() -> None:
    nodes = tuple(NodeSpec(f"n{at}", labels={"tier": "ab"[at % 2], "rack": f"r{at // 4}"}) for at in range(8))
    plan = Plan(nodes, source="test", groups={"all": tuple(n.name for n in nodes), "two": ("n0", "n1")})
    ways = foldings(plan)
    assert [way.name for way in ways] == ["rack", "group", "tier"]
    assert (ways[1].group_of["n1"], ways[1].group_of["n2"]) == ("two", "all")


def test_nodes_without_the_label_are_one_group() -> None:
    nodes = (*(NodeSpec(f"a{at}", labels={"rack": "r1"}) for at in range(3)), NodeSpec("b1"), NodeSpec("b2"))
    way = foldings(Plan(nodes, source="test"))[0]
    assert set(way.group_of.values()) == {"r1", NO_GROUP}


def test_names_fold_by_what_stands_before_their_last_number() -> None:
    way = foldings(plan_of("r1-n1", "r1-n2", "r2-n1", "r2-n2"))[0]
    assert (way.name, set(way.group_of.values())) == ("name", {"r1-n[1-2]", "r2-n[1-2]"})
    many = foldings(plan_of(*(f"gpu-{at:03}" for at in range(100))))[0]
    sizes = [list(many.group_of.values()).count(name) for name in dict.fromkeys(many.group_of.values())]
    assert sizes == [RUN_NODES] * 3 + [100 - 3 * RUN_NODES]


def test_what_cannot_be_grouped_is_not_folded() -> None:
    assert foldings(plan_of("alpha", "beta", "gamma")) == ()
    assert foldings(plan_of("alone")) == ()


async def test_a_small_fleet_is_not_folded_and_a_large_one_is() -> None:
    app = still_app(demo_session(0))
    async with app.run_test(size=(120, 40)):
        assert fleet_of(app).shown.folding is None
    app = still_app(large())
    async with app.run_test(size=(120, 40)) as pilot:
        fleet = fleet_of(app)
        assert fleet.shown.folding is not None
        assert fleet.heat.count() <= fleet.heat.room
        assert (fleet.heat.items(), len(fleet.table.lines)) == (NODES, NODES // RACK)
        await pilot.press("O", "O")  # by name, then every GPU
        assert (fleet.heat.items(), len(fleet.table.lines)) == (8 * NODES, NODES)


async def test_the_problems_get_the_lines_that_a_folded_table_does_not_need() -> None:
    app = still_app(demo_session(0, plan_for(256)))
    async with app.run_test(size=(120, 40)) as pilot:
        app.pump()
        await pilot.pause()
        fleet = fleet_of(app)
        assert fleet.table.region.height == 1 + len(fleet.table.lines) == 1 + 8
        assert fleet.situation.region.y == fleet.table.region.bottom


async def test_groups_with_problems_come_first_with_these_nodes_under_them() -> None:
    session = large()
    lose(session, "gpu-100", "gpu-101")
    lose(session, *(f"gpu-{number}" for number in range(401, 417)))  # a whole rack
    app = still_app(session)
    async with app.run_test(size=(120, 40)) as pilot:
        fleet = fleet_of(app)
        names = [line.name for line in fleet.table.lines]
        assert names[:3] == ["r06", "gpu-100", "gpu-101"]
        assert names[3] == "r25"
        assert names[4 : 4 + MAX_LISTED] == [f"gpu-{number}" for number in range(401, 401 + MAX_LISTED)]
        assert names[4 + MAX_LISTED] == "r00"
        assert "16 unreachable" in text_on(app)
        await pilot.press("tab", "home", "down", "down", "down", "enter")
        assert [line.name for line in fleet.table.lines][4:20] == [f"gpu-{n}" for n in range(401, 417)]
        await pilot.press("o")
        assert len(fleet.table.lines) == NODES // RACK + 2 + MAX_LISTED


async def test_a_cell_of_the_map_is_a_node_that_can_be_opened() -> None:
    session = large()
    lose(session, "gpu-034")
    app = still_app(session)
    async with app.run_test(size=(120, 40)) as pilot:
        heat, table = fleet_of(app).heat, fleet_of(app).table
        await pilot.press("down", "right")  # two groups stand on a line
        assert heat.place == (2, 1)
        chosen = heat.chosen()
        assert chosen is not None
        assert (chosen[0].name, chosen[1]) == ("gpu-034", None)
        assert table.chosen() is chosen[0]  # it has a problem, so the table lists it
        await pilot.press("right")
        line = table.lines[table.at]
        assert isinstance(line, NodeGroup)  # its group stands for a healthy one
        assert line.name == "r02"
        await pilot.press("left", "enter")
        assert isinstance(app.screen, NodeScreen)
        assert app.screen.node_name() == "gpu-034"


async def test_the_line_under_the_map_has_the_values_of_the_node() -> None:
    app = still_app(large())
    async with app.run_test(size=(120, 40)):
        line = next(line for line in text_on(app).splitlines() if line.startswith(" gpu-001 "))
        assert "GPUs 8/8" in line


async def test_a_column_sorts_all_nodes_and_a_filter_unfolds_what_fits() -> None:
    app = still_app(large())
    async with app.run_test(size=(120, 40)) as pilot:
        fleet = fleet_of(app)
        fleet.table.sort_by("temp")
        assert len(fleet.table.lines) == NODES
        fleet.table.sort_by("")
        fleet.shown.set_filter("host~=gpu-01")
        app.pump()
        await pilot.pause()
        assert (len(fleet.shown.views), fleet.shown.folding) == (10, None)


async def test_new_values_repaint_the_line_of_cells_at_once_and_groups_once_a_second() -> None:
    session = large()
    app = still_app(session)
    async with app.run_test(size=(120, 40)) as pilot:
        app.pump()
        await pilot.pause()
        heat, table = fleet_of(app).heat, fleet_of(app).table
        before = heat.rows_painted, table.rows_painted
        session.waiting.append(Arrival("gpu-040", NOW, Sample(t=0.0, seq=1)))
        app.pump()
        await pilot.pause()
        assert (heat.rows_painted - before[0], table.rows_painted - before[1]) == (1, 0)


@pytest.mark.parametrize("size", [(40, 12), (80, 24), (200, 60)])
async def test_it_paints_at_every_size(size: tuple[int, int]) -> None:
    app = still_app(large())
    async with app.run_test(size=size) as pilot:
        await pilot.press("O", "down", "right", "tab", "down", "o", "O")
        assert "gpuwatch" in text_on(app)
