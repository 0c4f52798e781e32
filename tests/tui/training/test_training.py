"""Screen 6: a job's numbers with their ages, its ranks, and the ways from them, over the demo."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace

from gpuwatch import wire
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.straggler.alerts import sentence, stopped_at
from gpuwatch.hosts.builtin import demo_plan
from gpuwatch.link.demo.links import EPOCH
from gpuwatch.link.stream.inbox import Arrival
from gpuwatch.tui.app import GpuwatchApp
from gpuwatch.tui.logs.screen import LogsScreen
from gpuwatch.tui.model.alert_snapshot import take_snapshot
from gpuwatch.tui.node.gpu_screen import GpuScreen
from gpuwatch.tui.training.rank_columns import COLUMNS
from gpuwatch.tui.training.screen import TrainingScreen
from tests.sentences import Sentences, line_of
from tests.tui.screen_text import text_on
from tests.tui.scripted_alerts import StillBook, demo_incident
from tests.tui.still import NOW, StillSession, demo_session, still_app

SIZES = [(80, 24), (120, 40), (200, 60)]


def training_of(app: GpuwatchApp) -> TrainingScreen:
    assert isinstance(app.screen, TrainingScreen)
    return app.screen


def flat(app: GpuwatchApp) -> str:
    return " ".join(text_on(app).split())


def ranks_shown(app: GpuwatchApp) -> list[int | None]:
    return [row.rank for row in training_of(app).ranks.rows]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("size", SIZES)
async def test_the_job_says_how_far_and_how_fast_it_is(size: tuple[int, int]) -> None:
    """Document 004, line 829."""
    app = still_app(demo_session(14), 14)
    async with app.run_test(size=size) as pilot:
        await pilot.press("6")
        await pilot.pause()
        shown = flat(app)
    for reported in (
        "job 418207",
        "128 of 128 ranks on 16 nodes",
        "step 2,372 / 50,000 1s ago",
        "4.7 %",
    ):
        assert reported in shown
    for reported in (
        "loss 2.14",
        "grad norm 0.906",
        "lr 3.00e-04",
        "tokens/s 655k per job (5.1k per GPU)",
        "p50 3.20s",
    ):
        assert reported in shown
    assert "MFU 50.8 % computed" in shown
    assert "ETA 1d 18h computed" in shown
    assert "loss scale" not in shown, "what few logs tell has no place where this one does not"
    assert "tokens/s/GPU 5.1k" in shown, "the curve's title says between which values it runs"


async def test_a_value_that_ends_in_zero_does_not_move_the_next_one() -> None:
    columns = set()
    for second in (27.0, 40.0):  # gradient norms 0.764 and 0.72
        app = still_app(demo_session(second), second)
        async with app.run_test(size=(120, 40)) as pilot:
            await pilot.press("6")
            await pilot.pause()
            line = next(line for line in text_on(app).splitlines() if "grad norm" in line)
            columns.add(line.index("lr"))
    assert len(columns) == 1


async def test_the_cause_of_a_straggler_is_read_whole_on_a_narrow_screen() -> None:
    text = "slows all 128 ranks by 41 %: thermal throttling, a step takes 4.5 s, usual 3.2 s"
    proof = (Proof("value", "SM clock 1,095 MHz", NOW, node="gpu-006"),)
    slow = Alert(
        "s", "slower_than_peers", "warning", "Straggler", text, proof, "hint", "gpu-006", 2, 42, job="418207"
    )
    app = still_app(demo_session(14, book=StillBook((), [slow])), 14)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert text.partition(",")[0] in text_on(app).splitlines()[1]
        await pilot.press("6")
        await pilot.pause()
        assert f"rank 42 (gpu-006 GPU 2) {text}" in " ".join(flat(app).split())


def test_a_rank_slowed_its_job_once_an_incident_has_stopped_the_job() -> None:
    text = "slows all 128 ranks by 41 %: thermal throttling, a step takes 4.5 s, usual 3.2 s"
    stop = replace(demo_incident(), job="418207")
    slow = Alert(
        "s", "slower_than_peers", "warning", "Straggler", text, (), first=stop.first - 26.0, job="418207"
    )
    for job, over, at in (("418207", False, stop.first), ("418207", True, None), ("other", False, None)):
        incident = replace(stop, job=job, over=over)
        shown = take_snapshot(StillBook((incident,), [slow])).stragglers[0]
        assert stopped_at(slow, [incident]) == at
        past = text.replace("slows", "slowed").replace("takes", "took")
        assert sentence(shown).endswith(past if at else text)


async def test_the_job_states_its_alerts_as_the_status_line_does_before_its_figures_are_due() -> None:
    proof = (Proof("value", "SM clock 1,095 MHz", NOW, node="gpu-006"),)
    texts = [f"slows all 128 ranks by {percent} %" for percent in (27, 41)]
    slow, slower = (
        Alert("s", "slower_than_peers", "warning", "Straggler", text, proof, node="gpu-006", job="418207")
        for text in texts
    )
    book = StillBook((), [slow])
    app = still_app(demo_session(14, book=book), 14)
    async with app.run_test(size=(200, 60)) as pilot:
        await pilot.pause()
        for shown, other in ((0, 1), (1, 0)):
            page = text_on(app)
            assert page.count(texts[shown]) == 3  # in the status line, of the job, among the problems
            assert texts[other] not in page
            book.alerts["s"], book.version = slower, 2
            app.pump()
            app.pump()


async def test_the_straggler_is_on_top_and_marked() -> None:
    app = still_app(demo_session(40), 40)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("6")
        await pilot.pause()
        assert ranks_shown(app)[0] == 42
        line = next(line for line in text_on(app).splitlines() if " 42 gpu-006:2" in line)
        assert line.startswith(" ▲")
        assert "1125▲" in line
        assert "85%▲" in line
        imbalance = next(line for line in text_on(app).splitlines() if "(max - min) / mean" in line)
        assert "39%▲" in imbalance


async def test_steps_that_stop_are_shown_and_the_lost_gpu_s_rank_comes_first() -> None:
    app = still_app(demo_session(66), 66)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("6")
        await pilot.pause()
        assert re.search(r"no step \w+ 21s", flat(app))
        assert "ETA -" in flat(app)
        assert ranks_shown(app)[0] == 85
        line = next(line for line in text_on(app).splitlines() if " 85 gpu-011:5 lost" in line)
        assert line.startswith(" ✖")
        assert "21s" in line


async def test_ranks_keep_their_places_when_they_have_ended() -> None:
    now = NOW
    session = demo_session(66)
    app = still_app(session, 66, clock=lambda: now)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        ended = [
            Arrival(name, now + 5, wire.Ranks(t=EPOCH + 65, seq=9, processes=[]))
            for name in session.fleet.nodes
        ]
        session.waiting = ended
        now += 5
        await pilot.press("6")
        app.pump()
        await pilot.pause()
        ended_ranks = {row.rank: row for row in training_of(app).ranks.rows}
        assert (ended_ranks[85].node, ended_ranks[85].gpu, ended_ranks[85].alive) == ("gpu-011", 5, False)
        assert len(ranks_shown(app)) == 128
        assert ranks_shown(app)[0] == 85, "its GPU is lost all the same"
        assert re.search(r"128 ranks \D+ 16 nodes", flat(app))
        assert "gpu-001:0 ended" in text_on(app)


async def test_enter_opens_the_gpu_m_the_log_and_minus_comes_back() -> None:
    app = still_app(demo_session(40), 40)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("6", "enter")
        await pilot.pause()
        assert isinstance(app.screen, GpuScreen)
        assert app.screen.node_name() == "gpu-006"
        await pilot.press("minus")
        assert app.where == "training"
        await pilot.press("m")
        await pilot.pause()
        assert isinstance(app.screen, LogsScreen)
        assert "rank_042.log" in text_on(app) or "rank 42" in text_on(app)
        await pilot.press("minus")
        assert app.where == "training"
        await pilot.press("minus")
        assert app.where == "fleet"


async def test_sorting_and_only_who_stands_out() -> None:
    app = still_app(demo_session(40), 40)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("6", "s")
        assert ranks_shown(app)[:3] == [0, 1, 2]
        await pilot.press("S")
        assert ranks_shown(app)[0] == 127
        training_of(app).ranks.sort_by("clock")
        assert ranks_shown(app)[0] == 42
        await pilot.press("exclamation_mark")
        assert ranks_shown(app) == [42]


async def test_the_cursor_stays_on_its_rank() -> None:
    app = still_app(demo_session(14), 14)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("6", "j", "j", "j")
        table = training_of(app).ranks
        chosen = table.chosen()
        assert chosen is not None
        assert chosen.rank == 3
        await pilot.press("s", "S")
        again = table.chosen()
        assert again is not None
        assert again.rank == 3
        assert table.at == 124


async def test_several_jobs_turn_with_the_neighbour_keys() -> None:
    session = demo_session(14)
    other = wire.Process(
        pid=7, name="python3", rank=0, world_size=1, job="99",
        gpus=[wire.ProcessGpu(next(iter(session.fleet.nodes["gpu-001"].gpus)))],
    )  # fmt: skip
    session.fleet.apply(Arrival("gpu-001", NOW, wire.Ranks(t=EPOCH + 14, seq=9, processes=[other])))
    app = still_app(session, 14)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("6")
        await pilot.pause()
        assert "job 1 of 2" in flat(app)
        await pilot.press("right_square_bracket")
        await pilot.pause()
        assert "job 99" in flat(app)
        assert ranks_shown(app) == [0]
        await pilot.press("right_square_bracket")
        await pilot.pause()
        assert "job 418207" in flat(app)


async def test_alerts_of_the_job_are_reported_in_its_head() -> None:
    def alert(ident: str, code: str, job: str) -> Alert:
        proof = (Proof("line", "loss nan", EPOCH, node="gpu-001"),)
        title = f"title-{ident}"
        return Alert(ident, code, "critical", title, "since step 7", proof, node="gpu-001", job=job)

    own, others = alert("own", "num.nan_loss", "418207"), alert("others", "num.nan_loss", "9")
    disk = alert("disk", "disk", "418207")
    session = demo_session(14, book=StillBook((), (own, others, disk)))
    app = still_app(session, 14)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("6")
        await pilot.pause()
        shown = flat(app)
    assert "title-own: since" in shown
    assert "title-others" not in shown
    assert "title-disk" not in shown


async def test_no_training_is_stated(sentences: Sentences) -> None:
    plan = demo_plan()
    app = still_app(StillSession(plan))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("6")
        await pilot.pause()
        sentences(line_of(text_on(app), "job"))
        await pilot.press("enter", "m", "s", "right_square_bracket", "exclamation_mark")
        assert app.where == "training"


async def test_a_hostile_job_and_log_cannot_steer_the_terminal() -> None:
    session = StillSession(replace(demo_plan(), model=None))
    reported = wire.Progress(
        t=EPOCH, seq=1, file="/x/\x1b[31mlog", offset=0, at=EPOCH, job="\x1b]0;evil\x07",
        dialect="progress.bar", fields={"step": 5, "loss": "nan"},
    )  # fmt: skip
    session.fleet.apply(Arrival("gpu-001", NOW, reported))
    app = still_app(session)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("6")
        await pilot.pause()
        assert "\x1b" not in text_on(app)
        assert "\x07" not in text_on(app)
        assert "loss nan" in flat(app)
        assert "grad norm -" in flat(app), "what the log does not tell is a dash"
        assert "loss: 1 NaN or Inf" in flat(app)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("ascii_only", [False, True])
async def test_ascii_means_ascii(ascii_only: bool) -> None:
    app = still_app(demo_session(40), 40, ascii_only=ascii_only)
    async with app.run_test(size=(200, 60)) as pilot:
        await pilot.press("6")
        await pilot.pause()
        assert text_on(app).isascii() == ascii_only


async def test_a_frame_without_news_paints_nothing() -> None:
    now = NOW
    session = demo_session(14)
    app = still_app(session, 14, clock=lambda: now)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("6")
        app.pump()
        await pilot.pause()
        ranks = training_of(app).ranks
        before, version = ranks.rows_painted, app.training.version
        now += 0.125
        app.pump()
        await pilot.pause()
        assert (ranks.rows_painted, app.training.version) == (before, version)
        now += 1.0
        for _ in range(3):  # the job is worked out in parts, one a frame
            app.pump()
        assert app.training.version == version + 1


async def test_a_frozen_view_stands_still() -> None:
    now = NOW
    session = demo_session(14)
    app = still_app(session, 14, clock=lambda: now)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("6", "p")
        version = app.training.version
        now += 5.0
        app.pump()
        app.pump()
        assert app.training.version <= version + 1
        await pilot.pause()
        assert "50,000 1s ago" in flat(app)


@pytest.mark.parametrize(
    ("name", "longest"), [("memory", "71.5G"), ("util", "100%"), ("temp", "104C"), ("step_s", "41.5")]
)
def test_a_value_does_not_touch_the_flag_before_it(name: str, longest: str) -> None:
    width = {column.name: column.width for column in COLUMNS}[name]
    assert len(longest) < width
