"""`gpuwatch rules` as a person calls it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gpuwatch.cli.config.rules import rules
from gpuwatch.cli.main import COMMANDS
from gpuwatch.cli.shared import exit_codes
from tests.agent.logs.scan_lines import rule
from tests.cli.running import COMMAND, ROOT, environment, gpuwatch
from tests.parts import need
from tests.sentences import Sentences, line_of


def call(*argv: str) -> Result:
    return CliRunner().invoke(rules, list(argv), standalone_mode=True)


def test_it_is_a_command() -> None:
    assert "rules" in COMMANDS


def test_list_and_show_tell_of_a_rule(tmp_path: Path, sentences: Sentences) -> None:
    pack = tmp_path / "mine.yaml"
    pack.write_text(rule("the frobnicator seized up", name="my.frobnicator"))
    listed = call("list", "frobnicator", "--rules", str(pack)).output
    assert "my.frobnicator" in listed
    assert listed.endswith("1 rule\n")
    shown = call("show", "my.frobnicator", "--rules", str(pack)).output
    sentences(line_of(shown, "frobnicator"))
    assert str(pack) in shown
    (facts,) = json.loads(call("show", "my.frobnicator", "--rules", str(pack), "--json").output)
    sentences(facts["match"])


@pytest.mark.parametrize("name", ["kernel.panic", "gpu.xid.app", "storage.device", "progress.megatron"])
def test_a_rule_printed_as_json_is_a_pack(name: str, tmp_path: Path) -> None:
    pack, printed = tmp_path / "mine.json", call("show", name, "--json").output
    pack.write_text(printed)
    again = call("show", name, "--rules", str(pack), "--json")
    assert (again.exit_code, again.output) == (0, printed)


def test_an_unknown_rule_and_a_bad_pack_are_refused(tmp_path: Path, sentences: Sentences) -> None:
    refused = call("show", "nccl.watchdog_timout")
    assert refused.exit_code == 2
    sentences(line_of(refused.output, "nccl.watchdog_timeout"))
    pack = tmp_path / "mine.yaml"
    pack.write_text(rule("the (frobnicator"))
    refused = call("list", "--rules", str(pack))
    assert refused.exit_code == 2
    sentences(line_of(refused.output, "mine.yaml:7:15"))


def test_test_scores_excerpts_with_the_keys_that_scripts_read(tmp_path: Path) -> None:
    pack, excerpts = tmp_path / "mine.yaml", tmp_path / "labelled.jsonl"
    pack.write_text(rule("the frobnicator seized up", name="my.frobnicator"))
    rows = [
        {
            "id": "a",
            "class": "my.frobnicator",
            "severity": "error",
            "lines": ["x", "the frobnicator seized up"],
        },
        {"id": "b", "class": "my.other", "severity": "error", "lines": ["the frobnicator seized up"]},
        {"id": "c", "class": "my.other", "severity": "error", "lines": ["nothing of note"]},
        {"id": "d", "class": "benign", "severity": "none", "lines": ["all quiet"]},
        {"id": "e", "class": "benign", "severity": "none", "lines": ["the frobnicator seized up"]},
    ]
    excerpts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    facts = json.loads(call("test", str(excerpts), "--rules", str(pack), "--json").output)
    classes = facts.pop("classes")
    assert facts == {
        "positives": 3,
        "negatives": 2,
        "detected": 2,
        "class_correct": 1,
        "false_alarms": 1,
        "recall": 0.6667,
        "class_accuracy": 0.3333,
        "false_alarm_rate": 0.5,
    }
    assert classes["my.other"]["detected"] == 1
    reported = call("test", str(excerpts), "--rules", str(pack), "--failures").output
    assert "MISSED c" in reported
    assert "OTHER CLASS b" in reported
    assert "FALSE ALARM e" in reported


def test_a_file_that_holds_no_excerpts_is_refused_with_the_line(tmp_path: Path, sentences: Sentences) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"class": "x", "lines": ["a"]}\n{"lines": 5}\n')
    refused = call("test", str(bad))
    assert refused.exit_code == 2
    sentences(line_of(refused.output, "bad.jsonl:2"))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", ["pipe", "zero", "folder", "gone", "sparse", "binary", "deep"])
def test_test_refuses_a_file_that_has_no_end_or_is_no_text(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "labelled.jsonl"
    match kind:
        case "pipe":
            os.mkfifo(file)
        case "zero":
            file.symlink_to("/dev/zero")
        case "folder":
            file.mkdir()
        case "sparse":
            file.touch()
            os.truncate(file, 1 << 40)
        case "binary":
            file.write_bytes(b"\xff\xfe\x80")
        case "deep":
            file.write_text('{"class": "x", "lines": ' + "[" * 200_000)
    done = gpuwatch("rules", "test", str(file))
    assert done.returncode == exit_codes.USAGE
    assert str(file) in done.stderr


def test_test_reads_a_pipe_of_the_shell_once(tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    lines.write_text(json.dumps({"class": "benign", "lines": ["all quiet"]}))
    script = f"{shlex.join(COMMAND)} rules test --json <(cat {shlex.quote(str(lines))})"
    done = subprocess.run(
        [need("bash"), "-c", script], cwd=ROOT, env=environment(), capture_output=True, timeout=60, check=True
    )
    assert json.loads(done.stdout)["negatives"] == 1
