"""One link and a real process at its other end, in health and in every kind of trouble."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from msgspec.structs import replace

from gpuwatch.hosts.plan import NodeSpec
from gpuwatch.link.agent.agent_link import AgentLink, LinkContext
from gpuwatch.link.agent.backoff import RetryPace
from gpuwatch.link.agent.call import CallTiming
from gpuwatch.link.command import CommandDialer
from gpuwatch.link.dialers import dial_local
from gpuwatch.link.stream.carrier import Carrier, Dialer
from gpuwatch.link.stream.inbox import ClockReading, Inbox, LinkStatus, Refused
from gpuwatch.link.stream.limits import START_MARK
from gpuwatch.wire import Hello, Reply, Sample, SetInterval
from tests.link.stub_agent import MAIN, stub_agent
from tests.link.watching import Watcher, nothing_left, until
from tests.sentences import Sentences

SPEC = NodeSpec("n1", link="local")
QUICK = RetryPace(first_s=0.05, most_s=0.1, final_first_s=0.2, final_most_s=0.2)
Start = Callable[..., tuple[AgentLink, Watcher]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts links that are closed after the test, which must leave nothing behind."""
    opened: list[tuple[AgentLink, LinkContext]] = []

    def begin(
        dialer: Dialer = dial_local,
        spec: NodeSpec = SPEC,
        main: str = MAIN,
        retry: RetryPace = QUICK,
        **timing: float,
    ) -> tuple[AgentLink, Watcher]:
        inbox = Inbox()
        board = LinkContext(
            inbox,
            interval_s=0.1,
            timing=replace(CallTiming(), **timing),
            retry=retry,
            modules=stub_agent(main),
        )
        link = AgentLink(spec, dialer, board)
        opened.append((link, board))
        link.start()
        return link, Watcher(inbox)

    with nothing_left():
        yield begin
        for link, board in opened:
            link.close()
            board.close()


def _sh(script: str) -> tuple[Dialer, NodeSpec]:
    """Return the dialer and the node of a link through a script that gets the command as its arguments."""
    spec = NodeSpec("n1", link="command", command=("/bin/sh", "-c", script, "sh"))
    return CommandDialer(spec), spec


def test_a_local_link_goes_live_and_brings_frames_and_the_clock(start: Start) -> None:
    _, watcher = start()
    first = watcher.next(LinkStatus)
    assert (first.phase, first.attempt) == ("connecting", 1)
    live = watcher.live()
    assert live.start_s is not None
    hello = watcher.next(Hello)
    assert (hello.host, hello.interval_s) == ("stub", 0.1)
    reading = watcher.next(ClockReading)  # before the samples: it may come between them, and they go on
    assert abs(reading.offset_s) <= reading.error_s + 0.05
    seen = watcher.next(Sample).seq
    assert watcher.next(Sample).seq > seen


def test_the_clock_offset_of_a_wrong_clock_is_found(start: Start) -> None:
    _, watcher = start(main=MAIN.replace('config.get("clock_ahead_s", 0.0)', "3600"))
    reading = watcher.next(ClockReading)
    assert reading.offset_s == pytest.approx(3600, abs=reading.error_s + 0.05)


def test_requests_reach_the_agent_and_ping_replies_stay_inside(start: Start) -> None:
    answer = MAIN.replace('if request["do"] == "ping":', "if True:")
    link, watcher = start(main=answer, ping_every_s=0.05)
    assert not link.send(SetInterval(id=6, seconds=1.0))
    watcher.live()
    assert link.send(SetInterval(id=7, seconds=1.0))
    assert watcher.next(Reply).id == 7
    for _ in range(3):
        watcher.next(Sample)
    assert not [arrival for arrival in watcher.drain() if isinstance(arrival.what, Reply)]


def test_login_shell_noise_is_kept_and_cleaned(start: Start) -> None:
    dialer, spec = _sh("printf 'Welcome to \\033[31mn1\\n'; echo oops >&2; exec \"$@\"")
    _, watcher = start(dialer, spec)
    assert watcher.live().noise == "Welcome to \u241b[31mn1"
    assert watcher.next(Hello).host == "stub"


def test_more_noise_on_stderr_than_a_pipe_holds_does_not_block_the_start(start: Start) -> None:
    dialer, spec = _sh('head -c 300000 /dev/zero | tr "\\0" x >&2; exec "$@"')
    _, watcher = start(dialer, spec)
    assert watcher.next(Hello).host == "stub"


def test_a_killed_agent_is_noticed_at_once_and_dialled_again(start: Start, sentences: Sentences) -> None:
    _, watcher = start()
    pid = watcher.next(Hello).pid
    os.kill(pid, signal.SIGKILL)
    lost = watcher.lost()
    sentences(lost.reason)
    assert lost.retry_at is not None
    again = watcher.next(LinkStatus)
    assert (again.phase, again.reason) == ("connecting", lost.reason)
    assert watcher.next(Hello).pid != pid


def test_a_stopped_agent_goes_on_when_it_is_continued_in_time(start: Start) -> None:
    _, watcher = start(silence_s=60.0)
    pid = watcher.next(Hello).pid
    before = watcher.next(Sample).seq
    os.kill(pid, signal.SIGSTOP)
    until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED, "the stop")
    before = max([before, *(a.what.seq for a in watcher.drain() if isinstance(a.what, Sample))])
    os.kill(pid, signal.SIGCONT)
    while watcher.next(Sample).seq <= before + 3:
        pass
    assert not [a for a in watcher.drain() if isinstance(a.what, LinkStatus)]
    assert psutil.pid_exists(pid)


def test_an_agent_that_stays_stopped_is_given_up_killed_and_dialled_again(
    start: Start, sentences: Sentences
) -> None:
    _, watcher = start(silence_s=1.0)
    pid = watcher.next(Hello).pid
    os.kill(pid, signal.SIGSTOP)
    sentences(watcher.lost().reason)
    assert watcher.next(Hello).pid != pid
    until(lambda: not psutil.pid_exists(pid), "the end of the stopped agent")


def test_an_agent_that_ticks_rarely_is_not_silent_because_it_answers_pings(start: Start) -> None:
    rare = MAIN.replace('time.sleep(config["interval_s"])', "time.sleep(2.0)")
    _, watcher = start(main=rare, silence_s=1.0, ping_every_s=0.1)
    watcher.next(Sample)
    until(lambda: [a for a in watcher.drain() if isinstance(a.what, Sample)], "a sample after the silence")
    assert not [a for a in watcher.drain() if isinstance(a.what, LinkStatus)]


def test_an_agent_that_never_starts_is_given_up(start: Start, sentences: Sentences) -> None:
    dialer, spec = _sh("echo 'Enter your one-time password:'; exec sleep 3600")
    _, watcher = start(dialer, spec, start_s=0.5)
    reason = watcher.lost().reason
    sentences(reason)
    assert "one-time password" in reason


def test_an_agent_that_fails_shows_its_error_and_place(start: Start) -> None:
    main = "def run(config, stdin, stdout):\n    raise KeyError('driver')\n"
    _, watcher = start(main=main)
    reason = watcher.lost().reason
    assert "gpuwatch_agent/main.py:2" in reason
    assert "KeyError: 'driver'" in reason


def test_an_agent_that_says_goodbye_is_quoted(start: Start, sentences: Sentences) -> None:
    bye = MAIN.replace(
        "    def tick():",
        '    write({"kind": "bye", "reason": "no request for 30 s"})\n    return 0\n    def tick():',
    )
    _, watcher = start(main=bye)
    sentences(watcher.lost().reason)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo 'This account is currently not available.'; exit 1", "account is currently not available"),
        ("echo 'error: pod n1 was not found' >&2; exit 1", "pod n1 was not found"),
        ("exit 0", "without any output"),
    ],
)
def test_a_command_that_refuses_is_quoted_with_a_remedy(start: Start, script: str, words: str) -> None:
    dialer, spec = _sh(script)
    _, watcher = start(dialer, spec)
    lost = watcher.lost()
    assert words in lost.reason
    assert lost.attempt == 1
    assert watcher.lost().attempt == 2


def test_a_child_that_left_its_stdout_to_another_process_counts_as_gone(
    start: Start, sentences: Sentences
) -> None:
    dialer, spec = _sh("(while :; do echo noise; sleep 0.1; done) & exit 3")
    _, watcher = start(dialer, spec, start_s=3600.0)
    sentences(watcher.lost().reason)
    watcher.lost()


def test_a_wait_is_cut_short_on_request(start: Start) -> None:
    dialer, spec = _sh("exit 1")
    link, watcher = start(dialer, spec, retry=RetryPace(first_s=3600.0, most_s=3600.0))
    for attempt in (1, 2):
        assert watcher.lost().attempt == attempt
        link.retry()
    assert watcher.lost().attempt == 3


def test_no_python_is_final_and_names_the_remedy(start: Start, tmp_path: Path, sentences: Sentences) -> None:
    dialer, spec = _sh(f'PATH={tmp_path} exec "$@"')
    _, watcher = start(dialer, replace(spec, python="/opt/none/python3"))
    sentences(watcher.lost().reason)


def test_a_program_that_is_not_there_is_reported(start: Start, sentences: Sentences) -> None:
    spec = NodeSpec("n1", link="command", command=("no-such-kubectl", "exec"))
    _, watcher = start(CommandDialer(spec), spec)
    sentences(watcher.lost().reason)


def test_an_unsafe_interpreter_path_is_reported_and_nothing_runs(start: Start) -> None:
    _, watcher = start(spec=replace(SPEC, python="python3; reboot"))
    assert "interpreter path" in watcher.lost().reason


def _speak(payload: str) -> str:
    """Return the source of an agent that writes the start marker, then `payload` (an expression of bytes)."""
    mark = f'stdout.write(("\\n{START_MARK} %s\\n" % config["nonce"]).encode())'
    return textwrap.dedent(
        f"""
        import zlib
        def run(config, stdin, stdout):
            {mark.encode("unicode_escape").decode()}
            stdout.write({payload})
            stdout.flush()
            stdin.read()
            return 0
        """
    ).replace("\\\\n", "\\n")


def test_garbage_after_the_marker_ends_the_call_with_a_sentence(start: Start, sentences: Sentences) -> None:
    _, watcher = start(main=_speak("b'not zlib at all'"))
    watcher.live()
    sentences(watcher.lost().reason)


def test_a_bomb_ends_the_call_and_costs_little_memory(start: Start) -> None:
    before = psutil.Process().memory_info().rss
    _, watcher = start(main=_speak("zlib.compress(bytes(1 << 28), 9)"))
    assert "MiB/s" in watcher.lost().reason
    assert psutil.Process().memory_info().rss - before < 64 << 20


def test_lines_that_are_no_frames_are_counted_and_the_link_lives_on(start: Start) -> None:
    frames = (
        'b"what?\\n" * 7 + b\'{"kind":"hello","host":"h","agent":"0","python":"3","pid":1,'
        '"interval_s":1,"t":1,"seq":0}\\n\''
    )
    squeeze = f"(lambda z: z.compress({frames}) + z.flush(zlib.Z_SYNC_FLUSH))(zlib.compressobj())"
    _, watcher = start(main=_speak(squeeze))
    assert watcher.next(Hello).host == "h"
    assert watcher.next(Refused).count == 7


def test_a_banner_cannot_fake_the_start(start: Start) -> None:
    dialer, spec = _sh(f"printf '\\n{START_MARK} 0123456789abcdef\\n'; exec \"$@\"")
    _, watcher = start(dialer, spec)
    assert watcher.live().noise == f"{START_MARK} 0123456789abcdef"
    assert watcher.next(Hello).host == "stub"


class _Blocked:
    """A carrier whose sends never return until it is closed, like a socket into a black hole."""

    def __init__(self, inner: Carrier) -> None:
        self._inner = inner
        self._closed = threading.Event()
        self._bundle_sent = False

    def send(self, data: bytes) -> None:
        if not self._bundle_sent:
            self._bundle_sent = True
            self._inner.send(data)
            return
        self._closed.wait()
        raise BrokenPipeError("closed")

    def recv(self, limit: int) -> bytes:
        return self._inner.recv(limit)

    def stderr(self) -> str:
        return self._inner.stderr()

    def exit_status(self, timeout_s: float) -> int | None:
        return self._inner.exit_status(timeout_s)

    def close(self) -> None:
        self._closed.set()
        self._inner.close()


def test_a_blocked_send_holds_up_no_other_link() -> None:
    with nothing_left():
        inbox = Inbox()
        board = LinkContext(
            inbox, interval_s=0.1, timing=CallTiming(ping_every_s=0.1), modules=stub_agent(), retry=QUICK
        )
        stuck = [
            AgentLink(NodeSpec(f"stuck{n}"), lambda command: _Blocked(dial_local(command)), board)
            for n in range(3)
        ]
        free = AgentLink(NodeSpec("free"), dial_local, board)
        watcher = Watcher(inbox)
        for link in stuck:
            link.start()
        for link in stuck:
            watcher.next(Sample, node=link.node)
        until(lambda: all(link.send(SetInterval(id=1, seconds=1.0)) for link in stuck), "queued requests")
        free.start()
        watcher.next(ClockReading, node="free")
        for link in [*stuck, free]:
            link.close()
        board.close()


def test_close_ends_a_child_that_ignores_the_end_of_its_stdin(start: Start) -> None:
    me = psutil.Process()
    earlier = {*me.children(recursive=True)}  # that of another test may be on its way out
    dialer, spec = _sh("trap '' TERM HUP; sleep 3600 & sleep 3600")
    link, _ = start(dialer, spec)
    until(lambda: len({*me.children(recursive=True)} - earlier) >= 3, "the child and what it started")
    link.close()
    assert {*me.children(recursive=True)} - earlier == set()


def test_the_agent_leaves_when_the_cockpit_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "cockpit.py"
    script.write_text(
        textwrap.dedent(
            """
            from gpuwatch.link.agent.agent_link import AgentLink, LinkContext
            from gpuwatch.hosts.plan import NodeSpec
            from gpuwatch.link.stream.inbox import Inbox
            from gpuwatch.link.dialers import dial_local
            from gpuwatch.wire import Hello
            from tests.link.stub_agent import stub_agent
            from tests.link.watching import Watcher
            import time
            inbox = Inbox()
            AgentLink(NodeSpec("n1"), dial_local, LinkContext(inbox, modules=stub_agent())).start()
            print(Watcher(inbox).next(Hello).pid, flush=True)
            time.sleep(3600)
            """
        )
    )
    root = Path(__file__).parents[2]
    env = {**os.environ, "PYTHONPATH": str(root)}
    cockpit = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, cwd=root, env=env)
    assert cockpit.stdout is not None
    agent = int(cockpit.stdout.readline())
    cockpit.kill()
    cockpit.wait()
    cockpit.stdout.close()
    until(lambda: not psutil.pid_exists(agent), "the agent's end")


def test_a_connection_that_is_hung_up_is_lost_for_that_reason_and_dialled_again(
    start: Start, sentences: Sentences
) -> None:
    link, watcher = start()
    watcher.next(Sample)
    link.hang_up("a frame that nobody can process")
    sentences(watcher.lost().reason)
    watcher.live()


def test_a_connection_that_ends_anywhere_is_tried_again() -> None:
    """The ssh library raises EOFError then, whatever it was asked for."""
    dialled: list[str] = []

    def dial(command: str) -> Carrier:
        dialled.append(command)
        raise EOFError

    with nothing_left():
        board = LinkContext(Inbox(), interval_s=0.1, modules=stub_agent(), retry=QUICK)
        link = AgentLink(NodeSpec("gone"), dial, board)
        link.start()
        until(lambda: len(dialled) > 2, "the third attempt")
        link.close()
        board.close()
