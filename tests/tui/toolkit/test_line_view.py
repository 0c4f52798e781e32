"""A frame paints the lines that have changed, and no others."""

from __future__ import annotations

from gpuwatch.tui.fleet.node_table import NodeTable
from gpuwatch.tui.toolkit.lines.line_view import joined_lines
from tests.tui.still import demo_session, still_app


def test_neighbouring_lines_are_one_region() -> None:
    found = joined_lines([1, 2, 3, 7, 9, 10], 80)
    assert [(region.x, region.y, region.width, region.height) for region in found] == [
        (0, 1, 80, 3), (0, 7, 80, 1), (0, 9, 80, 2),
    ]  # fmt: skip
    assert joined_lines([], 80) == []


async def test_half_of_the_nodes_new_paints_half_of_the_lines() -> None:
    session = demo_session(11)
    app = still_app(session)
    async with app.run_test(size=(120, 60)) as pilot:
        for _ in range(3):
            app.pump()
            await pilot.pause()
        table = app.screen.query_one(NodeTable)
        before = table.rows_painted
        for node in list(session.fleet.nodes.values())[::2]:
            node.version += 1
        app.pump()
        await pilot.pause()
        assert table.rows_painted - before == len(session.fleet.nodes) // 2
