from __future__ import annotations

import csv
import io
import json
import re
import shlex
import signal
import subprocess
import time
from pathlib import Path

import pyte
import pytest

from gpuwatch.cli.monitor.once import default_wait_s
from tests.cli.running import COMMAND, ROOT, environment, gpuwatch, on_a_terminal, start
from tests.sentences import Sentences, line_of
from tests.waiting import alive

SGR_COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-9]")


def hosts_file(folder: Path, text: str) -> str:
    path = folder / "hosts.yaml"
    path.write_text(text)
    return str(path)


def test_the_demo_as_json_is_complete_and_healthy_at_its_start() -> None:
    done = gpuwatch("once", "--demo", "--json", "--wait", "60")
    facts = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert facts["demo"] is True
    assert facts["healthy"] is True
    gpus = [gpu for node in facts["nodes"] for gpu in node["gpus"]]
    assert (len(facts["nodes"]), len(gpus)) == (16, 128)
    assert all(gpu["utilization_pct"] is not None and gpu["power_limit_w"] is not None for gpu in gpus)
    assert sorted(process["rank"] for gpu in gpus for process in gpu["processes"]) == list(range(128))
    assert done.stderr == ""


def test_the_demo_as_csv() -> None:
    done = gpuwatch("once", "--demo", "--csv", "--wait", "60")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert done.returncode == 0
    assert len(rows) == 128
    assert {row["state"] for row in rows} == {"ok"}


def test_text_in_a_pipe_has_no_escape_and_says_that_it_is_a_demo() -> None:
    done = gpuwatch("once", "--demo", "--wait", "60")
    assert done.returncode == 0
    assert done.stdout.startswith("DEMO")
    assert "\x1b" not in done.stdout
    assert "16 nodes, 128 GPUs: all healthy" in done.stdout


def test_on_a_terminal_it_is_coloured_and_fits() -> None:
    status, text = on_a_terminal("once", "--demo", "--wait", "60", columns=80)
    assert status == 0
    assert SGR_COLOUR.search(text)
    screen = pyte.HistoryScreen(80, 24, history=10_000)
    pyte.Stream(screen).feed(text)
    lines = ["".join(cells[x].data for x in range(80)) for cells in screen.history.top]
    rows = [line for line in lines if re.match(r"    [0-7]  ", line)]
    assert len(rows) + sum(bool(re.match(r"    [0-7]  ", line)) for line in screen.display) == 128
    assert all("rank" in row for row in rows)


def test_no_color_is_honoured() -> None:
    _, text = on_a_terminal("once", "--demo", "--wait", "60", NO_COLOR="1")
    assert "DEMO" in text
    assert not SGR_COLOUR.search(text)


def test_a_node_that_cannot_be_reached_is_reported_and_the_status_is_1(
    tmp_path: Path, sentences: Sentences
) -> None:
    path = hosts_file(
        tmp_path, "hosts:\n  - {name: dead, command: [sh, -c, 'echo the pod is gone >&2; exit 3']}\n"
    )
    done = gpuwatch("once", path, "--json", "--wait", "10")
    facts = json.loads(done.stdout)
    assert done.returncode == 1
    (node,) = facts["nodes"]
    assert (node["name"], node["state"], node["gpus"]) == ("dead", "lost", [])
    sentences(line_of(node["error"], "gone"))
    assert facts["healthy"] is False
    text = gpuwatch("once", path, "--wait", "10")
    assert text.returncode == 1
    sentences(line_of(text.stdout, "dead", "gone"), but=r"[\d.]+s")


def test_a_node_that_never_answers_is_waited_for_no_longer_than_asked(
    tmp_path: Path, sentences: Sentences
) -> None:
    path = hosts_file(tmp_path, "hosts:\n  - {name: mute, command: [sh, -c, 'exec sleep 60']}\n")
    done = gpuwatch("once", path, "--wait", "0.3", "--json")
    assert done.returncode == 1
    facts = json.loads(done.stdout)
    (node,), (condition,) = facts["nodes"], facts["conditions"]
    assert node["state"] == "connecting"
    sentences(line_of(node["error"], "answer"))
    assert (condition["node"], condition["code"]) == ("mute", "node_unanswered")
    text = gpuwatch("once", path, "--wait", "0.3").stdout
    sentences(line_of(text, "connecting"))
    assert "1 warning" in text


def test_the_default_wait_reaches_the_second_sample() -> None:
    assert default_wait_s(1.0) == 5.0
    assert default_wait_s(60.0) > 120.0


def test_the_nodes_waited_for_are_shown_on_a_terminal_only(tmp_path: Path) -> None:
    path = hosts_file(tmp_path, "hosts:\n  - {name: mute, command: [sh, -c, 'exec sleep 60']}\n")
    _, text = on_a_terminal("once", path, "--wait", "1")
    assert re.search(r"waiting \w+ mute\b", text)
    assert gpuwatch("once", path, "--wait", "1").stderr == ""


def test_problems_of_a_hosts_file_come_one_a_line(tmp_path: Path) -> None:
    path = hosts_file(tmp_path, "hosts:\n  - {name: a, adress: x}\n  - {name: b, prot: 3}\n")
    done = gpuwatch("once", path)
    lines = done.stderr.splitlines()
    assert done.returncode == 2
    assert [line.startswith(f"{path}:{number}:") for line, number in zip(lines, (2, 3), strict=True)] == [
        True,
        True,
    ]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_closes_everything(tmp_path: Path, number: signal.Signals, status: int) -> None:
    marker = tmp_path / "child"
    command = f"echo $$ > {marker}; exec sleep 60"
    path = hosts_file(tmp_path, f"hosts:\n  - {{name: mute, command: [sh, -c, '{command}']}}\n")
    running = start("once", path, "--wait", "60")
    try:
        child = int(wait_for_text(marker))
        running.send_signal(number)
        out, err = running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode == status
    assert out == ""
    assert "Traceback" not in err
    assert not alive(child)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    "arguments", [("once", "--demo"), ("dmon", "--demo", "-c", "1"), ("hosts", "check", "--demo")]
)
def test_a_closed_stdout_changes_no_status_and_a_full_one_is_reported(arguments: tuple[str, ...]) -> None:
    command = shlex.join([*COMMAND, *arguments])
    for target, status, reported in ((">&-", 0, ""), (">/dev/full", 74, "No space left on device")):
        done = subprocess.run(
            ["sh", "-c", f"exec {command} {target}"], cwd=ROOT, env=environment(), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip
        assert done.returncode == status, done.stderr
        assert done.stderr == "" if not reported else reported in done.stderr
        assert len(done.stderr.splitlines()) <= 1


def test_a_reader_that_leaves_does_not_change_the_verdict() -> None:
    running = start("once", "--demo", "--json", "--wait", "60")
    assert running.stdout is not None
    running.stdout.close()
    assert running.stderr is not None
    assert running.stderr.read() == ""
    assert running.wait(timeout=60) in (0, 1)  # on a busy machine a node of the demo may be stale


def wait_for_text(path: Path) -> str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if path.exists() and path.read_text().strip():
            return path.read_text()
        time.sleep(0.02)
    pytest.fail(f"{path} was not written")


def test_two_forms_at_once_are_wrong_usage() -> None:
    done = gpuwatch("once", "--demo", "--json", "--csv")
    assert (done.returncode, done.stdout) == (2, "")


def test_the_report_in_place_of_the_screen_says_why() -> None:
    done = gpuwatch("--demo")
    assert "gpuwatch once" in done.stderr
    assert "stdout" in done.stderr
    assert "nodes" in done.stdout
