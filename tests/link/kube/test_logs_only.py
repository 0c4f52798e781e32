"""A pod that may not be entered is followed by `kubectl logs`: its findings, lines and searches."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import pytest

from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.kube.logs_only import logs_command
from gpuwatch.report.once.problems.pending import pending
from gpuwatch.session import Session
from tests.session.polling import until

FORBIDDEN = (
    'Error from server (Forbidden): pods "w-3" is forbidden: User "jane" cannot create resource "pods/exec"'
)
KUBECTL = """#!/bin/sh
echo "$*" >> "$FOLDER/calls"
case "$1" in
exec) test -e "$FOLDER/allowed" && exec "$FOLDER/entered" "$@"; echo '{forbidden}' >&2; exit 1;;
logs)
  test -e "$FOLDER/mute" && {{ echo 'Error from server (Forbidden): pods "w-3" is forbidden' >&2; exit 1; }}
  cat "$FOLDER/printed"
  case "$*" in *--since-time*) exit 0;; esac
  test -e "$FOLDER/ended" || exec sleep 600;;
esac
"""
POD = NodeSpec(
    "w-3",
    link="command",
    command=("kubectl", "exec", "-i", "--namespace", "ml", "w-3", "--container", "trainer", "--"),
    slots=8,
    labels={"kube_namespace": "ml", "kube_phase": "Running", "kube_node": "gpu-3"},
)
PLAN = Plan((POD,), discover=False, source="--kube app=train")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "kubectl"
    program.write_text(KUBECTL.format(forbidden=FORBIDDEN))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("FOLDER", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    lately = time.strftime("%Y-%m-%dT%H:%M", time.gmtime(time.time() - 120))
    line = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    (tmp_path / "printed").write_text(
        f"{lately}:00.000000001Z step 1/100 loss 2.5\n{lately}:01.000000001Z {line}\n"
    )
    return tmp_path


def test_the_command_that_reads_the_logs_of_the_entered_container() -> None:
    assert logs_command(POD) == ("kubectl", "logs", "--namespace", "ml", "w-3", "--container", "trainer")


def test_findings_lines_and_searches_of_a_pod_that_may_not_be_entered(folder: Path) -> None:
    with Session(PLAN) as session:
        node = session.fleet.nodes["w-3"]
        until(session, lambda: any(each.rank == 3 for each in session.book.incidents))
        until(session, lambda: bool(node.logs) and node.hello is not None)
        assert node.link.phase == "live"
        assert "pods/exec" in node.link.reason
        assert node.hello is not None
        assert [notice.code for notice in node.hello.notices] == ["logs_only"]
        assert (node.processes, node.host) == ([], None), "nothing of this machine"
        (file,) = node.logs
        stream = session.tail("w-3", file.path)
        until(session, lambda: len(stream.lines) == 2)
        hits = session.search("w-3", "OutOfMemory")
        until(session, lambda: len(hits.lines) == 1)
        codes = {alert.code for alert in session.book.alerts.values() if alert.node == "w-3"}
        assert "gpu_missing" not in codes
        until(session, lambda: not pending(session.fleet, time.monotonic()))
    assert not list(folder.glob("gpuwatch-pod-*")), "the copy is removed"


def test_logs_that_may_not_be_read_either_are_a_lost_node_with_both_reasons(folder: Path) -> None:
    (folder / "mute").touch()
    with Session(PLAN) as session:
        node = session.fleet.nodes["w-3"]
        until(session, lambda: "kubectl logs" in node.link.reason)
        assert node.link.phase == "lost"
        assert "pods/exec" in node.link.reason


def test_lines_of_a_container_that_ended_come_once(folder: Path) -> None:
    (folder / "ended").touch()
    with Session(PLAN) as session:
        until(session, lambda: any(each.rank == 3 for each in session.book.incidents))
        calls = folder / "calls"
        until(session, lambda: calls.read_text().count("--since-time") >= 2)
        (copied,) = folder.glob("gpuwatch-pod-*/w-3.log")
        assert len(copied.read_text().splitlines()) == 2
