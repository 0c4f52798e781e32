"""Screen 5, over probes that stand still and over a real one of the demo's simulated nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from gpuwatch.hosts.builtin import demo_plan
from gpuwatch.number_text import lasting
from gpuwatch.probe.judging.text import grade_symbols
from gpuwatch.probe.results import PairResult, Results
from gpuwatch.session import Session
from gpuwatch.tui.app import GpuwatchApp
from gpuwatch.tui.fleet.screen import FleetScreen
from gpuwatch.tui.links.matrix_cells import short_value
from gpuwatch.tui.links.screen import LinksScreen
from gpuwatch.tui.toolkit.lines.selectable_lines import SelectableLines
from tests.sentences import Sentences, line_of
from tests.tui import still_probes
from tests.tui.screen_text import text_on
from tests.tui.shots import plan_for
from tests.tui.still import StillSession, still_app

SIZES = [(80, 24), (120, 40), (200, 60)]
BAD = "gpu-013"


def links_app(*results: Results, ascii_only: bool = False) -> GpuwatchApp:
    return still_app(still_probes.probe_session(*results), 52, ascii_only=ascii_only)


def links_of(app: GpuwatchApp) -> LinksScreen:
    assert isinstance(app.screen, LinksScreen)
    return app.screen


def session_of(app: GpuwatchApp) -> StillSession:
    assert isinstance(app.view_state.session, StillSession)
    return app.view_state.session


def probe_of(app: GpuwatchApp) -> still_probes.StillProbing:
    probing = session_of(app).probes[0]
    assert isinstance(probing, still_probes.StillProbing)
    return probing


def flat(app: GpuwatchApp) -> str:
    return " ".join(text_on(app).split())


async def settle(pilot: Pilot[None], *keys: str) -> None:
    await pilot.press(*keys)
    await pilot.pause()
    await pilot.pause()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("size", SIZES)
async def test_the_plan_is_shown_before_enter_starts_it(size: tuple[int, int]) -> None:
    app = links_app(still_probes.asking())
    probing = probe_of(app)
    assert probing.results.estimate is not None
    lasts = f"about {lasting(probing.results.estimate.seconds)}"
    async with app.run_test(size=size) as pilot:
        await settle(pilot, "5")
        shown = flat(app)
        for reported in (
            "enter: start the probe",
            "128 ranks on 16 nodes",
            "NCCL on the GPUs",
            "bond0",
            lasts,
        ):
            assert reported in shown
        await settle(pilot, "enter")
        assert probing.asked == ["confirm"]


async def test_enter_answers_a_question_that_comes_after_the_nodes_were_seen() -> None:
    """All nodes alike are one item before and after they have answered: the cursor must not stay on it."""
    results = still_probes.asking()
    estimate, results.estimate, results.phase = results.estimate, None, "connecting"
    app = links_app(results)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, "5")
        results.estimate, results.phase = estimate, "asking"
        results.version += 1
        links_of(app).pull()
        for _ in range(1200):
            if "enter: start" in flat(app):
                break
            await pilot.pause(0.05)
        await settle(pilot, "enter")
        assert probe_of(app).asked == ["confirm"]


async def test_escape_answers_no_and_stays_then_leaves() -> None:
    app = links_app(still_probes.asking())
    probing = probe_of(app)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, "5", "escape")
        assert probing.asked == ["cancel"]
        assert "CANCELLED" in flat(app)
        await settle(pilot, "escape")
        assert isinstance(app.screen, FleetScreen)


async def test_nothing_is_dialled_before_a_choice_and_the_choice_is_what_is_wished(
    sentences: Sentences,
) -> None:
    app = links_app()
    session = session_of(app)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, "5")
        sentences(line_of(text_on(app), "confirm"))
        assert session.requested == []
        await settle(pilot, "j", "enter")
        assert [request.pairs for request in session.requested] == ["quick"]
        assert re.search("no node|16 without", flat(app))


async def test_a_busy_gpu_refuses_lists_the_processes_and_enter_asks_again_in_spite_of_them(
    sentences: Sentences,
) -> None:
    app = links_app(still_probes.refused())
    session = session_of(app)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, "5")
        shown = flat(app)
        assert "REFUSED" in shown
        assert re.search(r"24 processes [a-zGPU ]+ 3 nodes", shown)
        assert "576GB (pid 40000, 40001, 40002, 40003 and 4 more)" in shown
        sentences(line_of(text_on(app), "torch"))
        await settle(pilot, "enter")
        assert [request.busy_too for request in session.requested] == [True]


async def test_the_plan_of_the_next_probe_is_seen_on_a_short_terminal() -> None:
    app = links_app(still_probes.done())
    session = session_of(app)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, "5")
        assert "26" in flat(app)
        await settle(pilot, "ctrl+n", "enter")
        assert len(session.requested) == 1
        session.probes[-1] = still_probes.StillProbing(still_probes.asking())
        links_of(app).view.show(0)
        links_of(app).view.show(len(session.probes) - 1)
        links_of(app).pull()
        await settle(pilot)
        assert "enter: start" in flat(app)
        await settle(pilot, "enter")
        assert session.probes[-1].asked == ["confirm"]


async def test_rates_in_cells_are_rounded_and_keep_their_sign() -> None:
    app = links_app(still_probes.done())
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, "5", "m")
        rows = [line for line in text_on(app).splitlines() if re.match(r"[ ▌]*gpu-0\d\d ", line)]
        assert all(re.search(r" 1[123]✖", row) for row in rows)  # to gpu-013, in GB/s
        assert re.search(r" 4[678]  4[678]", rows[0])  # and not 98, their share


@pytest.mark.sampled(1)
@pytest.mark.parametrize("size", SIZES)
async def test_the_verdict_leads_and_the_cursor_stands_on_the_worst_link(size: tuple[int, int]) -> None:
    results = still_probes.done()
    app = links_app(results)
    async with app.run_test(size=size) as pilot:
        await settle(pilot, "5")
        shown, screen = flat(app), links_of(app)
        assert results.verdict is not None
        assert results.verdict.sentence[:60] in shown
        worst = screen.view.board.worst()
        assert worst is not None
        assert BAD in screen.matrix.copy_text()
        assert f"{worst.pair.bandwidth_gb_per_s:.1f} GB/s" in shown


async def test_the_cell_tells_both_directions_the_rails_and_the_counters() -> None:
    app = links_app(still_probes.done())
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, "5")
        screen = links_of(app)
        screen.matrix.put(0, 12)
        await pilot.pause()
        shown = flat(app)
        assert "gpu-001 → gpu-013" in shown
        assert "reverse" in shown
        assert "rail 0 1 2 3 4 5 6 7" in shown
        assert "symbol_error +836" in shown
        screen.matrix.put(0, 1)
        await pilot.pause()
        assert "ok" in flat(app)


async def test_enter_on_a_link_measures_all_of_its_pairs_again() -> None:
    app = links_app(still_probes.done())
    probing = probe_of(app)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, "5")
        links_of(app).matrix.put(0, 4)
        await settle(pilot, "enter")
        (asked,) = probing.retested
        slots = {slot.rank: slot.node for slot in probing.results.slots}
        assert {(slots[src], slots[dst]) for src, dst in asked} == {("gpu-001", "gpu-005")}
        assert (0, 32) in asked
        probing.keeps_ranks = False
        await settle(pilot, "enter")
        assert len(probing.retested) == 1, "the ranks have ended"


async def test_ctrl_x_ends_what_runs_and_is_not_offered_otherwise() -> None:
    app = links_app(still_probes.running(0.4))
    probing = probe_of(app)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, "5")
        assert "End" in {
            each.binding.description for each in app.screen.active_bindings.values() if each.enabled
        }
        assert "% 11s left" in flat(app)
        await settle(pilot, "ctrl+x")
        assert probing.asked == ["cancel"]
        assert "CANCELLED" in flat(app)
        assert "ctrl+x" not in app.screen.active_bindings
        await settle(pilot, "ctrl+x")
        assert probing.asked == ["cancel"]


async def test_the_matrix_fills_in_while_it_is_looked_at() -> None:
    results = still_probes.running(0.4)
    app = links_app(results)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, "5")
        matrix = links_of(app).matrix
        before = "\n".join(matrix.render_line(y).text for y in range(matrix.size.height))
        assert "»" in before
        results.pairs = still_probes.done().pairs
        results.testing = ()
        results.version += 1
        app.pump()
        await pilot.pause()
        after = "\n".join(matrix.render_line(y).text for y in range(matrix.size.height))
    assert "»" not in after
    assert before.count("98") < after.count("98")


async def test_old_probes_can_be_looked_at() -> None:
    app = links_app(still_probes.done(4), still_probes.refused(), still_probes.done())
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, "5")
        assert "probe 3" in flat(app)
        await settle(pilot, "left_square_bracket")
        assert "probe 2" in flat(app)
        assert "REFUSED" in flat(app)
        await settle(pilot, "right_square_bracket", "V")
        screen = links_of(app)
        screen.probes.focus()
        await settle(pilot, "G", "enter")
        assert screen.view.at == 0
        assert "4 nodes, 32 ranks" in flat(app)
        await settle(pilot, "minus", "5")
        assert "probe 1" in flat(app), "leaving the screen keeps what was looked at"


async def test_a_new_probe_can_be_chosen_beside_the_old_ones_but_not_beside_a_running_one() -> None:
    app = links_app(still_probes.done())
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, "5", "ctrl+n")
        assert "Everything" in flat(app)
        assert "Probes" in flat(app)
    app = links_app(still_probes.running(0.2))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, "5", "ctrl+n")
        assert links_of(app).view.at == 0


async def test_every_screen_hints_at_a_bad_verdict_and_at_a_probe_that_runs() -> None:
    app = links_app(still_probes.done())
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        assert "links: " in flat(app)
        assert "slow (5)" in flat(app)
        await settle(pilot, "5")
        assert "slow (5)" not in flat(app)
    app = links_app(still_probes.running(0.4))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, "2")
        assert "links: probing" in flat(app)


async def test_a_dead_pair_is_a_sign_and_its_reason_is_reported(sentences: Sentences) -> None:
    results = still_probes.done()
    for src, dst in list(results.pairs):
        if (src // 8, dst // 8) == (1, 3):
            results.pairs[src, dst] = PairResult(src, dst, "same_rail", ok=False, error="refused by gpu-004")
    app = links_app(results)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, "5")
        screen = links_of(app)
        screen.matrix.put(1, 3)
        await pilot.pause()
        assert "∅" in screen.matrix.render_line(screen.matrix.pinned + 1).text
        assert "refused by gpu-004" in flat(app)
        sentences(line_of(text_on(app), "no data"))


async def test_ranks_and_other_measures_are_one_key_away() -> None:
    app = links_app(still_probes.done(4))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, "5", "z")
        screen = links_of(app)
        assert screen.matrix.shape.size == 32
        assert "same rail" in flat(app) or "across rails" in flat(app)
        await settle(pilot, "m")
        assert "GB/s from row" in flat(app)
        await settle(pilot, "m", "z")
        assert "latency us" in flat(app)
        assert screen.matrix.shape.size == 4


async def test_many_nodes_scroll_with_the_cursor() -> None:
    results = many(128)
    app = links_app(results)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot, "5", "G")
        screen = links_of(app)
        assert screen.matrix.place == (127, 127)
        assert "gpu-128" in flat(app)
        for _ in range(3):
            await settle(pilot, "left", "up")
        assert screen.matrix.place == (124, 124)
        await settle(pilot, "g")
        assert screen.matrix.place == (0, 0)


@pytest.mark.parametrize(
    ("ascii_only", "table"), [(False, grade_symbols.UNICODE), (True, grade_symbols.ASCII)]
)
async def test_the_legend_has_the_marks_of_the_text_report(
    ascii_only: bool, table: grade_symbols.Marks
) -> None:
    app = links_app(ascii_only=ascii_only)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, "5")
        shown = flat(app)
    for grade, mark in table.items():
        assert f"{mark} {grade}: " in shown


async def test_ascii_shows_nothing_else() -> None:
    app = links_app(still_probes.done(), ascii_only=True)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, "5")
        assert text_on(app).isascii()


async def test_a_frozen_view_stands_still_while_the_probe_goes_on() -> None:
    results = still_probes.running(0.4)
    app = links_app(results)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, "5", "p")
        before = text_on(app)
        results.pairs = still_probes.done().pairs
        results.version += 1
        app.pump()
        await pilot.pause()
        assert text_on(app) == before


def many(nodes: int) -> Results:
    """One rank a node, all pairs alike."""
    few = still_probes.done(4)
    slots = [replace(few.slots[0], rank=n, node=f"gpu-{n + 1:03}", local=0) for n in range(nodes)]
    pairs = {
        (a, b): PairResult(a, b, "same_rail", ok=True, bandwidth_gb_per_s=48.0 + (a * 7 + b) % 5 / 10)
        for a in range(nodes)
        for b in range(nodes)
        if a != b
    }
    return replace(few, slots=slots, pairs=pairs, verdict=None)


@pytest.fixture
def demo() -> Iterator[Session]:
    with Session(plan_for(4)) as session:
        yield session


async def test_the_demo_is_probed_from_the_choice_to_the_verdict(demo: Session) -> None:
    app = GpuwatchApp(demo, ascii_only=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, "5", "enter")
        while not demo.probes or demo.probes[0].results.phase != "asking":
            await pilot.pause(0.05)
        app.pump()
        await settle(pilot, "enter")
        while not demo.probes[0].results.pairs:
            await pilot.pause(0.05)
        app.pump()
        await pilot.pause()
        assert "RUNNING" in flat(app)
        while not demo.probes[0].results.over:
            await pilot.pause(0.05)
        app.pump()
        await pilot.pause()
        shown = flat(app)
    assert "gpu-004" in shown
    assert "BAD" in shown
    assert "DEMO" in shown
    assert demo_plan().source == "--demo"


async def test_a_cursor_message_after_the_probe_was_changed_is_no_fault() -> None:
    app = links_app(still_probes.done(), replace(still_probes.asking(), slots=[]))
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot, "5")
        screen = links_of(app)
        screen.view.show(0)
        screen.pull()
        for _ in range(1200):
            if screen.matrix.shape.size:
                break
            await pilot.pause(0.05)
        assert screen.matrix.shape.size == 16
        screen.matrix.put(3, 5)
        for at in (1, 0, None, 0):
            screen.view.show(at)
            screen.matrix.post_message(SelectableLines.Moved(screen.matrix))
            screen.cell.pull()
            screen.cell.build(80)
            screen.action_zoom()
            await pilot.pause()


def test_a_rate_that_fits_no_cell_is_never_written_as_zero_thousands() -> None:
    assert [short_value(360.0, room, 3) for room in (2, 3)] == ["360", "360"]
    assert short_value(360.0, 2, 2) == "++"
    assert short_value(2600.0, 2, 2) == "3k"
