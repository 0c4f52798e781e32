"""`gpuwatch probe` for real: torch ranks over gloo on this machine, through the ordinary links."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.probe.probe_request import COLLECTIVES, MIB
from tests.cli.running import gpuwatch, interrupted_at
from tests.fake_nvml.build import FakeNvml, build
from tests.parts import need_compiler, need_torch
from tests.sentences import Sentences, line_of

SMALL = ("--sizes", "64K", "--collectives", "all_reduce,broadcast")
MARK = "GPUWATCH_TEST_MARK"
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(autouse=True)
def torch() -> None:
    need_torch()


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> str:
    """Inherited by every process that the command starts on this machine."""
    mark = uuid.uuid4().hex
    monkeypatch.setenv(MARK, mark)
    return mark


def hosts(folder: Path, nodes: int, python: str = sys.executable) -> str:
    """This machine, several times."""
    names = "".join(
        f"  - {{name: here-{n + 1}, command: [env], python: {json.dumps(python)}}}\n" for n in range(nodes)
    )
    path = folder / "hosts.yaml"
    path.write_text(f"hosts:\n{names}")
    return str(path)


def probe(*arguments: str) -> subprocess.CompletedProcess[str]:
    return gpuwatch("probe", *arguments)


def left_behind(mark: str) -> list[str]:
    """Command lines of processes that carry the mark."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if int(folder.name) != os.getpid() and mark.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_text().replace("\0", " ")[:200])
    return found


def facts_of(text: str) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(text)
    return facts


@pytest.mark.long
def test_two_nodes_of_two_ranks_as_json(tmp_path: Path, mark: str) -> None:
    arguments = ("--ranks-per-node", "2", "--sizes", "64K", "--backend", "gloo", "--yes", "--json", "-")
    done = probe(hosts(tmp_path, 2), *arguments, "--csv", str(tmp_path / "out.csv"))
    facts = facts_of(done.stdout)
    assert done.stderr == ""
    assert (facts["backend"], facts["world_size"], facts["phase"]) == ("gloo", 4, "done")
    assert {(row["op"], row["bytes"]) for row in facts["collectives"]} == {
        (op, MIB // 16) for op in COLLECTIVES
    }
    assert all(row["correct"] is True and row["error"] is None for row in facts["collectives"])
    assert all(row["min_s"] <= row["p50_s"] <= row["p99_s"] for row in facts["collectives"])
    ranks = range(4)
    assert {(pair["src"], pair["dst"]) for pair in facts["pairs"]} == {
        (src, dst) for src in ranks for dst in ranks if src != dst
    }
    assert all(
        pair["ok"] and pair["bandwidth_gb_per_s"] > 0 and pair["latency_us"] > 0 for pair in facts["pairs"]
    )
    assert [(slot["node"], slot["local"]) for slot in facts["slots"]] == [
        ("here-1", 0),
        ("here-1", 1),
        ("here-2", 0),
        ("here-2", 1),
    ]
    assert done.returncode == (1 if facts["verdict"]["status"] in ("bad", "failed") else 0)
    assert {node["python_from"] for node in facts["nodes"]} == {"hosts file"}
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert len(rows) == len(facts["collectives"]) + len(facts["pairs"])
    assert left_behind(mark) == []


@pytest.mark.long
def test_a_python_that_prints_garbage_at_its_start_is_measured_all_the_same(
    tmp_path: Path, mark: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os\nos.write(1, b'\\x1b]0;owned\\x07 no end of line')\nos.write(2, b'\\x1b[2J' * 99)\n"
    )
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    arguments = ("--ranks-per-node", "2", "--no-pairs", "--backend", "gloo", "--yes", *SMALL)
    done = probe(hosts(tmp_path, 1, str(python)), *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not set("\x1b\x07") & set(done.stdout + done.stderr)
    assert left_behind(mark) == []


def test_this_machine_as_text(mark: str, sentences: Sentences) -> None:
    done = probe("--local", "--ranks-per-node", "2", "--no-pairs", "--backend", "gloo", "--yes", *SMALL)
    assert done.returncode == 0, done.stdout + done.stderr
    sentences(line_of(done.stdout, "training"))
    assert re.search(r"all_reduce +64K .* ok$", done.stdout, re.MULTILINE)
    assert re.search(r"^(OK|NOISY)  ", done.stdout, re.MULTILINE)
    assert left_behind(mark) == []


def test_without_a_terminal_and_a_yes_nothing_runs(tmp_path: Path, mark: str, sentences: Sentences) -> None:
    done = probe(hosts(tmp_path, 2), "--ranks-per-node", "1", "--backend", "gloo", *SMALL)
    assert done.returncode == 2
    sentences(line_of(done.stderr, "nodes"))
    assert "--yes" in done.stderr
    sentences(line_of(done.stdout, "ranks"))
    assert left_behind(mark) == []


def test_ctrl_c_ends_everything_and_keeps_what_was_measured(tmp_path: Path, mark: str) -> None:
    out = tmp_path / "partial.json"
    arguments = (
        "--ranks-per-node",
        "2",
        "--sizes",
        "64K..64M",
        "--backend",
        "gloo",
        "--yes",
        "--json",
        str(out),
    )
    status, _ = interrupted_at(" rows", "probe", hosts(tmp_path, 1), *arguments)
    assert status == 130
    facts = facts_of(out.read_text())
    assert facts["phase"] == "cancelled"
    assert len(facts["collectives"]) >= 2
    assert facts["verdict"] is not None
    assert left_behind(mark) == []


def test_a_busy_gpu_is_refused_and_its_process_named(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_compiler()
    driver = FakeNvml(build(tmp_path_factory.mktemp("nvml")), tmp_path)
    for name, value in driver.env().items():
        monkeypatch.setenv(name, value)
    script = tmp_path / "train.py"
    script.write_text("import time\ntime.sleep(100)\n")
    trainer = subprocess.Popen([sys.executable, str(script)])
    try:
        driver.set("gpus 2", f"process 1 {trainer.pid} {30 << 30} c 0")
        done = probe("--local", "--yes", *SMALL)
    finally:
        trainer.kill()
        trainer.wait()
    assert done.returncode == 2
    assert re.search(rf"busy: {trainer.pid} train\.py .*30\.0GB", done.stdout)
    assert "--allow-busy" in done.stderr
