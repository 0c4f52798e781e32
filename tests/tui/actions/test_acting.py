"""`A` over a real session: it lists, asks for the name, runs once, and notes the result."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from gpuwatch.diagnose.actions.action import ActionTarget
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.session.session import Session
from gpuwatch.tui.actions.actions_screen import ActionsScreen
from gpuwatch.tui.actions.confirm_screen import ConfirmScreen
from gpuwatch.tui.app import GpuwatchApp
from gpuwatch.tui.model.preferences import Preferences
from gpuwatch.tui.model.session_protocol import SharedView
from tests.tui.shots import plan_for
from tests.tui.still import demo_session, still_app

RANK, SLURM = 7431, "904177431"
LIMIT_S = 240.0


@pytest.fixture
def rank() -> Iterator[subprocess.Popen[bytes]]:
    """A process that carries a rank of a job that nothing else on this machine has."""
    variables = {"RANK": str(RANK), "WORLD_SIZE": "8000", "SLURM_JOB_ID": SLURM, "SLURMD_NODENAME": "here-1"}
    child = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"], env={**os.environ, **variables}
    )
    yield child
    child.kill()
    child.wait()


@pytest.fixture
def scontrol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file in which a scontrol of ours records its arguments, a line each call."""
    calls = tmp_path / "calls"
    program = tmp_path / "scontrol"
    program.write_text(
        f"#!{sys.executable}\nimport json, sys\n"
        f"open({str(calls)!r}, 'a').write(json.dumps(sys.argv[1:]) + chr(10))\n"
        "print('slurm_update error: \\x1b]0;gone\\x07 Invalid user id')\nsys.exit(1)\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    calls.touch()
    return calls


def changes(calls: Path) -> list[list[str]]:
    """The calls that would change something: the agent asks with `show`."""
    called: list[list[str]] = [json.loads(line) for line in calls.read_text().splitlines()]
    return [argv for argv in called if argv[0] != "show"]


def node_plan() -> Plan:
    return Plan((NodeSpec("here-1", link="command", command=("env",)),), discover=False, source="test")


async def until(true: Callable[[], bool], pilot: Pilot[None]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < deadline
        await pilot.pause()
        await asyncio.sleep(0.05)


def app_of(session: Session, preferences: Preferences | None = None) -> GpuwatchApp:
    return GpuwatchApp(session, ascii_only=True, preferences=preferences)


async def choose(app: GpuwatchApp, pilot: Pilot[None], kind: str) -> ConfirmScreen:
    """Open the actions and take the one of a kind."""
    await pilot.press("A")
    await until(lambda: isinstance(app.screen, ActionsScreen), pilot)
    screen = app.screen
    assert isinstance(screen, ActionsScreen)
    kinds = [each.kind for each in screen._actions]
    for _ in range(kinds.index(kind)):  # type: ignore[arg-type]
        await pilot.press("down")
    await pilot.press("enter")
    await until(lambda: isinstance(app.screen, ConfirmScreen) and app.screen.line.has_focus, pilot)
    assert isinstance(app.screen, ConfirmScreen)
    return app.screen


async def test_a_rank_is_ended_by_its_typed_number_and_by_nothing_else(
    rank: subprocess.Popen[bytes], scontrol: Path
) -> None:
    with closing(Session(node_plan())) as session:
        app = app_of(session)
        async with app.run_test(size=(120, 40)) as pilot:
            await until(lambda: any(p.rank == RANK for p in session.fleet.nodes["here-1"].processes), pilot)
            job = next(p.job for p in session.fleet.nodes["here-1"].processes if p.rank == RANK)
            app.show_job(job)
            await pilot.pause()
            confirm = await choose(app, pilot, "drain")
            await pilot.press(*"here-2", "enter")
            assert not changes(scontrol)
            await pilot.press("escape")
            assert app.screen is not confirm
            confirm = await choose(app, pilot, "end_rank")
            assert f"kill {rank.pid}" in str(confirm.about.content)
            await pilot.press(*f"{RANK}0", "enter")
            await pilot.pause()
            assert rank.poll() is None
            await pilot.press("backspace", "enter")
            await until(lambda: rank.poll() is not None, pilot)
            await until(lambda: confirm.has_class("-ended"), pilot)
            assert rank.wait() == -15
            assert "exit status 0" in str(confirm.about.content)
            await pilot.press("escape")
            assert not changes(scontrol)


@pytest.mark.long
async def test_slurms_refusal_is_shown_and_noted_once(rank: subprocess.Popen[bytes], scontrol: Path) -> None:
    with closing(Session(node_plan())) as session:
        app = app_of(session)
        async with app.run_test(size=(80, 24)) as pilot:
            await until(lambda: any(p.rank == RANK for p in session.fleet.nodes["here-1"].processes), pilot)
            job = next(p.job for p in session.fleet.nodes["here-1"].processes if p.rank == RANK)
            target = ActionTarget("here-1", job=job, incident="i1", about="gpuwatch: gpu.xid.79")
            app.screen.action_target = lambda: target  # type: ignore[attr-defined]
            confirm = await choose(app, pilot, "drain")
            await pilot.press(*"here-1", "enter", "enter")
            await until(lambda: confirm.has_class("-ended") and bool(session._state.marks.notes), pilot)
            assert "\x1b" not in str(confirm.about.content)
            assert "exit status 1" in str(confirm.about.content)
            await pilot.press("enter")
    argv = ["update", "NodeName=here-1", "State=DRAIN", "Reason=gpuwatch: gpu.xid.79"]
    assert changes(scontrol) == [argv]
    (note,) = session._state.marks.notes
    assert note.incident == "i1"
    assert "exit status 1" in note.text
    assert "slurm_update" in note.text
    assert "\x1b" not in note.text
    assert rank.poll() is None


@pytest.mark.sampled(1)
@pytest.mark.parametrize("off", ["shared", "settings", "hosts"])
async def test_nothing_is_listed_where_actions_are_off(off: str) -> None:
    session = demo_session(5.0, plan_for(2))
    session.plan = replace(session.plan, actions=off != "hosts")
    app = still_app(session, 5.0)
    app.preferences = replace(app.preferences, actions=off != "settings")
    app.shared_view = SharedView(changes=True) if off == "shared" else None
    async with app.run_test() as pilot:
        await pilot.press("A")
        await pilot.pause()
        assert not isinstance(app.screen, ActionsScreen)


async def test_keys_that_come_after_escape_do_nothing() -> None:
    app = still_app(demo_session(5.0, plan_for(2)), 5.0)
    async with app.run_test() as pilot:
        await pilot.press("A")
        await pilot.pause()
        screen = app.screen
        assert isinstance(screen, ActionsScreen)
        screen.action_choose()
        screen.action_close()
        screen.action_close()
        await pilot.pause()
        assert not isinstance(app.screen, ActionsScreen)
        assert app.faults.count == 0


async def test_the_demo_shows_the_commands_and_runs_nothing(scontrol: Path) -> None:
    app = still_app(demo_session(5.0, plan_for(2)), 5.0)
    async with app.run_test(size=(80, 24)) as pilot:
        confirm = await choose(app, pilot, "drain")
        assert "scontrol update" in str(confirm.about.content)
        confirm.reason.focus()
        await pilot.press(*"bad 'nic", "enter")
        assert "'Reason=bad nic'" in str(confirm.about.content)
        assert confirm.line.has_focus
        await pilot.press(*confirm._action.confirm, "enter")
        await pilot.pause()
        assert not confirm.has_class("-ended")
        assert confirm._run is None
    assert not changes(scontrol)
