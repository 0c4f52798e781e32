"""`J`: one job alone on every screen, and the header says so."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec import structs
from textual.widgets import OptionList

from gpuwatch import wire
from gpuwatch.fleet.logs.log_stream import LogStream
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.link.demo.links import EPOCH
from gpuwatch.link.stream.inbox import Arrival
from gpuwatch.tui.app import GpuwatchApp
from gpuwatch.tui.logs.data.sources import all_sources
from tests.tui.screen_text import text_on
from tests.tui.scripted_alerts import StillBook, demo_incident, disk_alert
from tests.tui.still import NOW, StillSession, judged_session, still_app

SECOND = 95.0
OTHER, OWN = "900111", ("gpu-003", "gpu-004")
JOB = "418207"


def two_jobs() -> StillSession:
    """The demo's session, where two nodes run a job of their own that is well."""
    session = judged_session(SECOND)
    for name, node in session.fleet.nodes.items():
        node.processes_at = (node.processes_at or 0.0) + 1
        if name in OWN:
            node.processes = [
                structs.replace(process, job=OTHER)
                for process in judged_session(40.0).fleet.nodes[name].processes
            ]
    return session


async def test_the_ends_of_other_jobs_ranks_are_no_events_of_the_chosen_one() -> None:
    session = two_jobs()
    node = session.fleet.nodes[OWN[0]]
    mine = node.processes[0]
    theirs = structs.replace(mine, pid=777_777, rank=0, job="77", gpus=[])
    node.processes = [*node.processes, theirs]
    app = still_app(session, SECOND)
    async with app.run_test(size=(120, 40)) as pilot:
        app.show_job(OTHER)
        await pilot.pause()
        for seq, pid in enumerate((theirs.pid, mine.pid)):
            event = wire.Event(
                t=EPOCH + SECOND, seq=900 + seq, event="rank_ended", title=f"pid {pid} ended", pid=pid
            )
            session.waiting.append(Arrival(node.name, NOW, event))
        app.pump()
        await pilot.pause()
        shown = text_on(app)
        assert f"pid {mine.pid} ended" in shown
        assert f"pid {theirs.pid} ended" not in shown


async def test_every_screen_shows_the_chosen_job_alone() -> None:
    """Document 001, line 79."""
    app = still_app(two_jobs(), SECOND)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        everything = app.view_state.snapshot
        assert everything.incidents
        await pilot.press("J")
        await pilot.pause()
        choice = app.screen.query_one(OptionList)
        texts = [str(choice.get_option_at_index(at).prompt) for at in range(choice.option_count)]
        at = next(at for at, text in enumerate(texts) if OTHER in text)
        assert "16 ranks on 2 nodes" in " ".join(texts[at].split())
        choice.highlighted = at
        await pilot.press("enter")
        await pilot.pause()
        app.pump()
        await pilot.pause()
        shown = text_on(app)
        assert tuple(app.view_state.fleet.nodes) == OWN
        assert f"only job {OTHER}" in shown
        assert "nodes ● 2 live" in shown
        assert "gpu-011" not in shown
        assert not app.view_state.snapshot.incidents
        assert all(alert.job in (None, OTHER) for alert in app.view_state.snapshot.alerts.values())
        await pilot.press("4")
        await pilot.pause()
        assert "gpu-011" not in text_on(app)
        await pilot.press("6")
        await pilot.pause()
        assert app.training.jobs == [OTHER]
        await pilot.press("3")
        await pilot.pause()
        assert {source.node for source in app.workspace.sources} <= set(OWN)
        await pilot.press("1", "p")  # frozen, it stays alone
        assert tuple(app.view_state.fleet.nodes) == OWN
        await pilot.press("p", "J", "home", "enter")
        await pilot.pause()
        app.pump()
        await pilot.pause()
        assert len(app.view_state.fleet.nodes) == 16
        assert app.view_state.snapshot is everything
        assert "alone" not in text_on(app)


SHARED, SPLIT_AT = "gpu-003", 4


def shared_node() -> StillSession:
    """The demo's session, where half of one node's GPUs is of another job with files of its own."""
    session = judged_session(40.0)
    node = session.fleet.nodes[SHARED]
    node.processes_at = (node.processes_at or 0.0) + 1
    node.processes = [
        structs.replace(each, job=OTHER, rank=local - SPLIT_AT, world_size=4) if local >= SPLIT_AT else each
        for each in node.processes
        if (local := each.local_rank) is not None
    ]
    theirs = {path for each in node.processes if each.job == OTHER for path in each.logs}
    node.logs = [structs.replace(file, job=OTHER) if file.path in theirs else file for file in node.logs]
    alerts = [
        structs.replace(disk_alert(), id=f"{gpu}", node=SHARED, gpu=gpu, job=None) for gpu in (None, 1, 6)
    ]
    session.book = StillBook([structs.replace(demo_incident(), job=None, cause=alerts[1], alerts=())], alerts)
    return session


async def test_a_job_that_shares_a_node_is_shown_without_the_other_jobs_gpus_ranks_logs_and_incidents(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = shared_node()
    app = still_app(session, 40.0)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        for job, gpus, ranks, alerts, incidents in (
            (OTHER, [4, 5, 6, 7], [0, 1, 2, 3], {"None", "6"}, 0),
            (JOB, [0, 1, 2, 3], [16, 17, 18, 19], {"None", "1"}, 1),
        ):
            app.view_state.show_job(job)
            app.pump()
            await pilot.pause()
            part, view = app.view_state.fleet.nodes[SHARED], app.overview.views[SHARED]
            assert [gpu.info.index for gpu in part.gpu_list()] == gpus
            assert sorted(each.rank for each in part.processes if each.rank is not None) == ranks
            assert {file.job for file in part.logs} <= {job, None}
            own = {path for each in part.processes for path in each.logs}
            listed = {source.file for source in all_sources(app.view_state.fleet) if source.node == SHARED}
            assert {file for file in listed if "rank_" in file} == own
            assert (view.ok, view.expected, view.lost) == (4, 4, 0)
            stated = app.view_state.snapshot.alerts.values()
            assert {alert.id for alert in stated if alert.node == SHARED} == alerts
            assert len(app.view_state.snapshot.incidents) == incidents
        nodes = app.view_state.fleet.nodes
        assert len(nodes) == 16
        assert nodes["gpu-005"] is session.fleet.nodes["gpu-005"]
        whole = session.fleet.nodes[SHARED]
        assert len(whole.gpus) == 8
        # what the node reports next goes into its part, too
        whole.processes_at = (whole.processes_at or 0.0) + 1
        whole.processes = [each for each in whole.processes if each.rank != 17]
        whole.version += 1
        app.pump()
        assert 17 not in {each.rank for each in nodes_of(app)[SHARED].processes}
        assert len(whole.gpus) == 8
        await pilot.press("6")
        await pilot.pause()
        assert app.training.facts is not None
        assert "GPU 6" not in text_on(app)
        searched: dict[str, Sequence[str]] = {}

        def search(node: str, _pattern: str, files: Sequence[str], **_: object) -> LogStream:
            searched[node] = files
            return session.unanswered(node, "", "search")

        monkeypatch.setattr(session, "search", search)
        app.workspace.searching.start_search("loss")
        assert set(searched) == set(nodes_of(app))
        assert {file for file in searched[SHARED] if "rank_" in file} == own


def nodes_of(app: GpuwatchApp) -> dict[str, Node]:
    return app.view_state.fleet.nodes


async def test_the_chosen_jobs_own_warning_precedes_what_names_no_job() -> None:
    session = shared_node()
    silent = structs.replace(
        disk_alert(), id="silent", code="job.silent", node=None, gpu=None, job=JOB, title="silent-4711"
    )
    (incident,) = session.book.incidents
    session.book = StillBook([incident], [*session.book.alerts.values(), silent])
    app = still_app(session, 40.0)
    async with app.run_test(size=(160, 40)) as pilot:
        await pilot.pause()
        assert "silent-4711" not in text_on(app).splitlines()[1]
        app.view_state.show_job(JOB)
        app.pump()
        await pilot.pause()
        lines = text_on(app).splitlines()
        assert "silent-4711" in lines[1]
        listed = [line for line in lines[2:] if "silent-4711" in line or incident.headline[:20] in line]
        assert "silent-4711" in listed[0] and len(listed) > 1
