"""What is wrong is said where it is looked for: since when, why, what to do, and the way to it."""

from __future__ import annotations

import re

import pytest
from msgspec import structs

from gpuwatch import wire
from gpuwatch.diagnose.health.remedies import REMEDIES
from gpuwatch.diagnose.job_end.job_end import JobEnd
from gpuwatch.diagnose.model.incident import HangCheck
from gpuwatch.diagnose.model.verdict import Verdict
from gpuwatch.diagnose.past_jobs.jobs import EndedJob
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.demo.links import EPOCH
from gpuwatch.link.stream.inbox import Arrival, Content, LinkStatus
from gpuwatch.tui.node.gpu_screen import GpuScreen
from gpuwatch.tui.node.screen import NodeScreen
from gpuwatch.tui.toolkit.text import event_detail
from tests.sentences import Sentences, line_of
from tests.tui.screen_text import fleet_of, text_on
from tests.tui.scripted_alerts import StillBook, demo_incident
from tests.tui.shots import plan_for
from tests.tui.still import NOW, StillSession, demo_session, judged_session, still_app

REASON = (
    "the host key of gpu-1 changed: it is SHA256:0rLbYkZ1Hn6Jq0Jv2mWm1i0v8Kp1V1Y7aXc5bq3dE8s, known is "
    "SHA256:Zt9o2mQe4uU1sR7pX3yVbN6kL8jH5gF2dS0aW4qE1cI (/home/ada/.ssh/known_hosts:12); if that is right, "
    "run ssh-keygen -R gpu-1"
)


def words(text: str) -> str:
    """Without what wrapping put in between."""
    return re.sub(r"\s+", " ", text)


def hello(**more: object) -> wire.Hello:
    return wire.Hello(
        t=1.0,
        seq=0,
        host="n",
        agent="1",
        python="3",
        pid=1,
        interval_s=1.0,
        **more,  # type: ignore[arg-type]
    )


def session_of(*frames: Content) -> StillSession:
    return StillSession(
        Plan(nodes=(NodeSpec("gpu-1"), NodeSpec("gpu-2"))), [Arrival("gpu-1", NOW, f) for f in frames]
    )


async def test_conditions_stand_on_the_fleet_screen_with_evidence_and_remedy_and_lead_to_the_gpu(
    sentences: Sentences,
) -> None:
    app = still_app(demo_session(52))
    async with app.run_test(size=(120, 40)) as pilot:
        shown = text_on(app)
        assert re.search(r"✖ gpu-011 GPU 5 +Xid 79", shown)
        assert re.search(r"Xid \(PCI:0000:c3:00\): 79, .*, 7s ago", shown)
        sentences(line_of(shown, "→"))
        assert re.search(r"Recent events", shown)
        fleet_of(app).situation.focus()
        await pilot.press("j", "enter")
        assert isinstance(app.screen, GpuScreen)
        assert app.screen.place[0] == "gpu-011"
        await pilot.press("minus")
        assert isinstance(app.screen, NodeScreen)


async def test_the_cursor_stays_on_its_condition_when_a_worse_one_comes() -> None:
    session = demo_session(52)
    app = still_app(session)
    async with app.run_test(size=(120, 40)) as pilot:
        situation = fleet_of(app).situation
        situation.focus()
        await pilot.press("j")
        before = situation.chosen()
        session.fleet.apply(Arrival("gpu-001", NOW, LinkStatus("lost", "the cable is out")))
        app.pump()
        await pilot.pause()
        after = situation.chosen()
        assert before is not None
        assert after is not None
        assert (before.node, before.text) == (after.node, after.text)


async def test_a_job_that_ended_well_leads_to_its_node() -> None:
    session = session_of()
    job = EndedJob("run7", ("gpu-2",), (0,), (), EPOCH, JobEnd("finished", 100, 100), searched=True)
    session.book.ended_jobs = (job,)
    app = still_app(session)
    async with app.run_test(size=(120, 40)) as pilot:
        situation = fleet_of(app).situation
        situation.focus()
        while (entry := situation.chosen()) is not None and entry.key != ("ended", "run7"):
            await pilot.press("j")
        await pilot.press("enter")
        assert isinstance(app.screen, NodeScreen)
        assert app.screen.node_name() == "gpu-2"
        await pilot.press("right_square_bracket")
        assert app.screen.node_name() == "gpu-1"


async def test_a_remedy_stands_once_wherever_the_cursor_is() -> None:
    app = still_app(demo_session(52))
    async with app.run_test(size=(200, 60)) as pilot:
        situation = fleet_of(app).situation
        situation.focus()
        remedies = 0
        for entry in situation.entries[:20]:
            shown = words(text_on(app))
            assert entry == situation.chosen()
            if entry.remedy:
                remedies += 1
                assert shown.count(words(entry.remedy)[:40]) == 1
            await pilot.press("j")
        assert remedies > 2


@pytest.mark.parametrize(("size", "least"), [((80, 24), 4), ((120, 40), 10), ((200, 60), 10)])
async def test_the_room_is_used(size: tuple[int, int], least: int) -> None:
    app = still_app(demo_session(52))
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        fleet = fleet_of(app)
        assert fleet.situation.display
        assert fleet.situation.size.height >= least
        if size[1] >= 40:
            assert fleet.table.size.height >= 17
    assert fleet.heat.layout_now.tall == (3 if size == (200, 60) else 1)


async def test_beside_the_table_where_it_is_wide_and_the_table_long() -> None:
    app = still_app(demo_session(3, plan_for(64)))
    async with app.run_test(size=(160, 50)):
        fleet = fleet_of(app)
        assert fleet.situation.region.y == fleet.table.region.y
        assert fleet.situation.region.x >= fleet.table.region.right


@pytest.mark.sampled(1)
@pytest.mark.parametrize("state", ["lost", "stuck"])
async def test_a_gpu_that_does_not_answer_says_since_when_on_every_screen(state: str) -> None:
    session = demo_session(30)
    gpu = session.fleet.nodes["gpu-002"].gpu_list()[1]
    assert gpu.fast_at is not None
    moving = [gpu.fast_at + 42]
    bad = wire.GpuSample(
        gpu.info.uuid,
        state=state,  # type: ignore[arg-type]
        reason="GPU is lost" if state == "lost" else None,
        stuck_in="nvmlDeviceGetPowerUsage" if state == "stuck" else None,
        stuck_s=42.0 if state == "stuck" else None,
    )
    for name in session.fleet.nodes:
        more = [bad] if name == "gpu-002" else []
        session.fleet.apply(Arrival(name, moving[0], wire.Sample(t=72.0, seq=9, gpus=more)))
    app = still_app(session, clock=lambda: moving[0])
    async with app.run_test(size=(120, 40)) as pilot:
        shown = text_on(app)
        sign = "✖" if state == "lost" else "‼"
        assert f"{sign}42s" in shown
        assert re.search(rf"gpu-002 +[78]/8 .*42s ago: GPU 1: {state}", shown)
        moving[0] += 2
        app.pump()
        await pilot.pause()
        assert f"{sign}44s" in text_on(app)
        app.show_node("gpu-002")
        await pilot.pause()
        assert f"{state.upper()} " in text_on(app)
        assert "for 44s" in text_on(app)


async def test_a_failing_link_says_why_and_when_it_tries_again() -> None:
    session = session_of(LinkStatus("lost", REASON, retry_at=NOW + 12, attempt=3))
    app = still_app(session)
    async with app.run_test(size=(80, 24)) as pilot:
        assert REASON[:30] in text_on(app)
        await pilot.press("enter")
        await pilot.pause()
        assert REASON in words(text_on(app))
        assert re.search(r"attempt \w+ 12s", words(text_on(app)))
        session.fleet.apply(Arrival("gpu-1", NOW, LinkStatus("connecting", REASON, attempt=4)))
        app.pump()
        await pilot.pause()
        assert REASON in words(text_on(app))
        assert "attempt 4" in words(text_on(app))
        await pilot.press("1")
        await pilot.pause()
        assert REASON[:30] in text_on(app)


async def test_a_lost_node_is_dialled_again_on_a_key() -> None:
    session = session_of(LinkStatus("lost", REASON, retry_at=NOW + 12, attempt=3))
    app = still_app(session)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("ctrl+r")
        assert session.retried == ["gpu-1"]
        session.fleet.apply(Arrival("gpu-1", NOW, LinkStatus("live")))
        await pilot.press("ctrl+r")
        assert session.retried == ["gpu-1"], "a live node is left alone"


async def test_why_a_node_has_no_cells_does_not_push_its_neighbour_aside() -> None:
    live = ("gpu-001", "gpu-002", "gpu-003")
    reported = [Arrival("gone", NOW, LinkStatus("lost", "a reason longer than a cell", attempt=1))]
    for name in live:
        gpus = [wire.GpuInfo(uuid=f"{name}-{number}", index=number, name="X") for number in range(8)]
        reported += [Arrival(name, NOW, LinkStatus("live")), Arrival(name, NOW, hello(gpus=gpus))]
    app = still_app(StillSession(Plan(tuple(NodeSpec(name) for name in ("gone", *live))), reported))
    async with app.run_test(size=(110, 30)):
        rows = text_on(app).splitlines()
        beside = next(row for row in rows if "gone" in row and "gpu-001" in row)
        below = next(row for row in rows if "gpu-002" in row and "gpu-003" in row)
        assert beside.index("gpu-001") == below.index("gpu-003")


async def test_a_port_whose_state_cannot_be_read_is_unknown_and_not_down() -> None:
    ports = [wire.IbPort("mlx5_0", 1, state="DOWN"), wire.IbPort("mlx5_1", 1)]
    sample = wire.Sample(t=1.0, seq=2, host=wire.HostSample(t=1.0, ib=ports))
    app = still_app(session_of(LinkStatus("live"), hello(), sample))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("2")
        await pilot.pause()
        rows = [row.strip() for row in text_on(app).splitlines() if re.search("mlx5_./1 +in ", row)]
        assert [row[0] for row in rows] == ["✖", "?"]


async def test_memory_that_is_the_hosts_is_called_unified() -> None:
    gpu = wire.GpuInfo(uuid="GPU-0", index=0, name="NVIDIA GB10", unified_memory=True)
    reading = wire.GpuSample(uuid="GPU-0", fast=wire.GpuFast(t=1.0, memory_used_bytes=30 << 30))
    session = session_of(LinkStatus("live"), hello(gpus=[gpu]), wire.Sample(t=1.0, seq=2, gpus=[reading]))
    app = still_app(session)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("enter", "enter")
        await pilot.pause()
        assert "unified memory" in text_on(app)


async def test_a_node_without_a_gpu_can_be_opened_and_says_so(sentences: Sentences) -> None:
    app = still_app(session_of(LinkStatus("live"), hello()))
    async with app.run_test(size=(80, 24)) as pilot:
        sentences(line_of(text_on(app), "GPU on"))
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.screen, NodeScreen)
        sentences(line_of(text_on(app), "host metrics"))
        await pilot.press("1", "l")
        await pilot.pause()
        assert "gpu-2  connecting" in text_on(app)


async def test_a_node_says_which_gpus_it_has() -> None:
    names = ["NVIDIA H100 80GB HBM3"] * 6 + ["NVIDIA L4"] * 2
    gpus = [wire.GpuInfo(uuid=f"GPU-{n}", index=n, name=name) for n, name in enumerate(names)]
    app = still_app(session_of(LinkStatus("live"), hello(gpus=gpus)))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("enter")
        await pilot.pause()
        assert "6x NVIDIA H100 80GB HBM3, 2x NVIDIA L4" in text_on(app)


async def test_a_theme_chosen_before_the_start_has_its_own_palette() -> None:
    light, dark = still_app(demo_session(30), theme="gpuwatch-light"), still_app(demo_session(30))
    async with light.run_test(), dark.run_test():
        assert light.look.ramp != dark.look.ramp


async def test_a_wrong_filter_hides_nothing_and_an_empty_choice_says_the_way_back(
    sentences: Sentences,
) -> None:
    app = still_app(demo_session(14))
    async with app.run_test(size=(120, 40)) as pilot:
        fleet = fleet_of(app)
        fleet.shown.set_filter("nothing-is-called-so")
        fleet.pull()
        sentences(line_of(text_on(app), "esc"))
        fleet.shown.set_filter("temp>")
        fleet.pull()
        assert fleet.shown.error
        assert len(fleet.shown.views) == 16
        fleet.shown.set_filter("")
        await pilot.press("exclamation_mark")
        sentences(line_of(text_on(app), "esc"))


def test_remedies_are_sentences() -> None:
    assert all(text.endswith(".") for text in REMEDIES.values())


async def test_nodes_never_reached_for_one_reason_are_one_row_with_the_whole_reason() -> None:
    names = [f"gpu-{number}" for number in range(1, 6)]
    reason = "port 22: connection refused; nothing listens there; check the port, and that sshd is running"
    plan = Plan(nodes=tuple(NodeSpec(name, address=f"10.0.0.{n}") for n, name in enumerate(names, 1)))
    session = StillSession(
        plan,
        [
            Arrival(name, NOW, LinkStatus("lost", reason=f"10.0.0.{n} {reason}"))
            for n, name in enumerate(names, 1)
        ],
    )
    app = still_app(session)
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        situation = fleet_of(app).situation
        assert [item.place for item in situation.entries] == ["gpu-[1-5]"]
        shown = words(text_on(app))
        assert shown.count(reason[-20:]) == 1
        assert f"unreachable: {reason}" in shown
        assert app.view_state.snapshot.criticals == 1
        assert "gpu-[1-5]" in text_on(app).splitlines()[1]
        await pilot.press("4", "enter")
        for unfolded in (False, True):
            listed = words(text_on(app)).partition("Alerts")[2]
            assert listed.count(f"gpu-[1-5]: unreachable: {reason}") == listed.count(reason[-20:]) == 1
            assert ("gpu-3 node_lost" in listed) is unfolded
            await pilot.press("tab", "home", "enter")


async def test_what_to_do_about_an_incident_fits_on_80_columns_with_its_age_above() -> None:
    app = still_app(judged_session(95), 95)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        heading, *below = text_on(app).partition("─ Incident ─")[2].splitlines()
        assert re.search(r"\d+s ago; 4: details ─", heading)
        assert any(line.strip().startswith("→") for line in below), below


async def test_the_entry_under_the_cursor_says_its_sentence_once() -> None:
    app = still_app(judged_session(40), 40)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        listed = words(text_on(app).partition("─ Active problems ─")[2].partition("─ Recent events ─")[0])
        assert listed.count("128 ranks") == 1
        assert "usual 3.2" in listed


@pytest.mark.parametrize(
    ("title", "detail", "added"),
    [
        ("rank 3 ended by signal 15", "pid 10 ended by signal 15", "pid 10"),
        ("GPU is lost", "GPU is lost", ""),
        ("link is up", "after a reset it is up", "after a reset it"),
        ("Xid 79", "NVRM: Xid 79", "NVRM:"),
        ("disk full", "/scratch", "/scratch"),
    ],
)
def test_the_detail_of_an_event_repeats_no_end_of_its_title(title: str, detail: str, added: str) -> None:
    event = wire.Event(t=1.0, seq=1, event="rank_ended", title=title, detail=detail, severity="info")
    assert event_detail(event) == added


async def test_what_the_ranks_answered_is_done_before_what_the_class_suggests() -> None:
    verdict = Verdict("stacks", wrong=True, sentence="rank 3 is stopped", culprits=(3,))
    check = HangCheck(EPOCH, verdict, (("resume", command := "kill -CONT 9"),))
    incident = structs.replace(demo_incident(), hang_check=check)
    app = still_app(demo_session(52, book=StillBook([incident])))
    async with app.run_test(size=(120, 40)):
        assert command in text_on(app)


async def test_events_of_another_day_are_dated_and_all_places_stay_in_one_column() -> None:
    session = demo_session(30)
    app = still_app(session, second=30)
    async with app.run_test(size=(120, 40)):
        for number, at in enumerate((EPOCH - 86_400, EPOCH + 20)):
            event = wire.Event(t=at, seq=number, event="note", title=f"noted {number}", severity="info")
            session.fleet.apply(Arrival("gpu-001", NOW, event))
        app.pump()
        lines = [line for line in text_on(app).splitlines() if "noted" in line]
        assert re.search(r"\d:\d\d:\d\d gpu-001 +noted 1", lines[0])
        assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d gpu-001 +noted 0", lines[1])
        assert len({line.index("gpu-001") for line in lines}) == 1


async def test_lines_that_bring_a_scrollbar_are_painted_beside_it_at_once() -> None:
    session = demo_session(30)
    app = still_app(session)
    async with app.run_test(size=(120, 40)) as pilot:
        problems = fleet_of(app).situation
        assert not problems.show_vertical_scrollbar
        wide = problems.columns
        for number in range(60):
            event = wire.Event(
                t=1.0, seq=number, event="note", title="long title " * 9 + "end", severity="warning"
            )
            session.fleet.apply(Arrival("gpu-001", NOW, event))
        app.pump()
        assert problems.columns < wide
        rows = [problems.render_line(line).text for line in range(problems.size.height)]
        await pilot.pause()
        assert problems.show_vertical_scrollbar
        assert rows == [problems.render_line(line).text for line in range(problems.size.height)]


async def test_the_names_of_unreachable_nodes_are_whole_under_the_cursor() -> None:
    names = [f"{letter * 14}.cluster.example" for letter in "ab"]
    plan = Plan(nodes=tuple(map(NodeSpec, names)), source="hosts.yaml")
    session = StillSession(plan, [Arrival(name, NOW, LinkStatus("lost", "no answer")) for name in names])
    app = still_app(session)
    async with app.run_test(size=(80, 24)):
        shown = [line.text for line in map(fleet_of(app).situation.render_line, range(8))]
        assert all(any(name in line for line in shown) for name in names)


async def test_every_reason_is_whole_before_it_is_said_that_nothing_happened() -> None:
    addresses = {f"gpu-00{n}.invalid": "" for n in range(1, 5)} | {"nope": "127.0.0.1"}
    plan = Plan(nodes=tuple(NodeSpec(name, address=at or None) for name, at in addresses.items()), source="h")
    refused = "127.0.0.1 port 2: connection refused; nothing listens there"
    reasons = {name: f"{name}: the name is not known; check the spelling" for name in addresses}
    reasons["nope"] = refused
    session = StillSession(plan, [Arrival(n, NOW, LinkStatus("lost", why)) for n, why in reasons.items()])
    app = still_app(session)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert f"unreachable: {refused}" in words(text_on(app))
        await pilot.press("4", "enter")
        await pilot.pause()
        assert f"nope: unreachable: {refused}" in words(text_on(app))
