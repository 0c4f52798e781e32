"""Commands that really run, here and over a `command` link."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from gpuwatch.diagnose.actions.action import Action, ActionOutcome, SignalledProcess
from gpuwatch.hosts.plan import NodeSpec
from gpuwatch.link.command import CommandDialer
from gpuwatch.link.stream.carrier import CarrierError
from gpuwatch.session.actions.execution import ActionRun, run_of
from gpuwatch.session.actions.running import noted


def action(*argv: str, node: str | None = None) -> Action:
    return Action("drain", "try", argv, " ".join(argv), "a", "node", node)


def outcome_of(run: ActionRun) -> ActionOutcome:
    run.start()
    assert run.wait(60)
    assert run.outcome is not None
    return run.outcome


def python(code: str, node: str | None = None) -> Action:
    return action(sys.executable, "-c", code, node=node)


def test_status_and_output_come_back_harmless() -> None:
    code = "import sys; print('\\x1b[2Jgone'); print('why', file=sys.stderr); sys.exit(3)"
    outcome = outcome_of(run_of(python(code), None, None))
    assert outcome.exit_status == 3
    assert "\x1b" not in outcome.output
    assert {"why"} < set(outcome.output.splitlines())


def test_over_a_link_every_word_stays_one_word() -> None:
    spec = NodeSpec("a", link="command", command=("env",))
    words = ("it's", "$(id)", "a b", ";exit 9", "`id`")
    wanted = action(sys.executable, "-c", "import sys; print(sys.argv[1:])", *words, node="a")
    outcome = outcome_of(run_of(wanted, spec, CommandDialer(spec)))
    assert (outcome.exit_status, outcome.output) == (0, str(list(words)))


def test_a_number_that_is_another_process_now_is_not_signalled() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    spec = NodeSpec("a", link="command", command=("env",))
    try:
        start = psutil.Process(child.pid).create_time()
        for age, status in ((60.0, 3), (-60.0, 3), (0.0, 0)):
            process = SignalledProcess("a", child.pid, start + age)
            wanted = replace(action("kill", "-KILL", str(child.pid), node="a"), process=process)
            assert child.poll() is None
            assert outcome_of(run_of(wanted, spec, CommandDialer(spec))).exit_status == status
        assert child.wait(60) == -signal.SIGKILL
    finally:
        child.kill()
        child.communicate()


@pytest.mark.parametrize("name", [") *\n", "x\n", ") /* a[$(id)]\n", "a) S 1 (b"])
def test_the_name_of_a_process_reaches_no_shell(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name stands in /proc/PID/stat before the start time, and the working folder may be a stranger's."""
    (tmp_path / "a[$(touch RAN)]1").touch()
    monkeypatch.chdir(tmp_path)
    named = (
        f"import ctypes; ctypes.CDLL(None).prctl(15, {name.encode()!r}); print('named', flush=True); input()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", named], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path
    )
    spec = NodeSpec("a", link="command", command=("env",))
    try:
        assert child.stdout is not None
        child.stdout.readline()
        process = SignalledProcess("a", child.pid, psutil.Process(child.pid).create_time())
        wanted = replace(action("kill", "-KILL", str(child.pid), node="a"), process=process)
        assert outcome_of(run_of(wanted, spec, CommandDialer(spec))).exit_status == 0
        assert child.wait(60) == -signal.SIGKILL
        assert [path.name for path in tmp_path.iterdir()] == ["a[$(touch RAN)]1"]
    finally:
        child.kill()
        child.communicate()


def test_a_way_that_fails_is_reported() -> None:
    spec = NodeSpec("a", link="command", command=("/no/such/program",))
    outcome = outcome_of(run_of(action("kill", "7", node="a"), spec, CommandDialer(spec)))
    assert outcome.exit_status is None
    assert outcome.problem
    with pytest.raises(CarrierError):
        run_of(action("no-such-program-here"), None, None)
    with pytest.raises(CarrierError):
        run_of(action("kill", "7", node="a"), spec, None)


def test_a_command_without_an_end_is_given_up() -> None:
    endless = python("import time; print('begun', flush=True); time.sleep(600)")
    run = ActionRun(endless, run_of(endless, None, None)._opened, limit_s=0.5)
    outcome = outcome_of(run)
    assert outcome.exit_status is None
    assert outcome.problem


def test_output_and_note_are_bounded() -> None:
    outcome = outcome_of(
        run_of(python("print('x' * 99 + chr(10), end='') or print('y\\n' * 500_000)"), None, None)
    )
    assert outcome.exit_status == 0
    assert len(outcome.output) < 100_000
    assert len(noted(action("a"), outcome)) < 1_000
