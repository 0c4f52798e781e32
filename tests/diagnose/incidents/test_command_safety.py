"""No text of a log, node or environment reaches a command to copy unless it has the form of its value."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import pytest
from msgspec import structs

import gpuwatch
from gpuwatch.diagnose.alerts.from_findings import alerts_of
from gpuwatch.diagnose.alerts.placement.finding_place import LocatedFinding
from gpuwatch.diagnose.hang.remedies import commands, on_node
from gpuwatch.diagnose.hang.stacks.groups import RankStack
from gpuwatch.diagnose.incidents.builder import incidents
from gpuwatch.diagnose.incidents.placeholders import command
from gpuwatch.diagnose.incidents.playbook import playbook
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.jobs.places import Places, RankPlace
from gpuwatch.fleet.jobs.rank_places import places_of
from gpuwatch.hosts.plan import NodeSpec
from gpuwatch.rules.load import load_packs
from gpuwatch.shell_command import FORMS, command_line, over_ssh, value
from gpuwatch.wire import Finding, KernelThread, Process, ProcessStack, Ranks
from tests.report.fleets import NODE_TIME, feed, hello, plan

PACKS = load_packs()
MARK = "EVIL"
HOSTILE = (
    "418207 ; EVIL #",
    "$(EVIL${IFS}x);`id`",
    "-oProxyCommand=EVIL",
    "a\nEVIL",
    "EVIL|sh",
    "a&EVIL",
    "x'EVIL",
    "../../EVIL",
    "~EVIL",
    "EVIL*",
)
PROGRAMS = {"ssh", "scontrol", "sbatch", "scancel", "sacct", "nvidia-smi", "dmesg", "kill", "py-spy"}
TABLE = ["  rank      : 3 (local_rank: 3)", "  host      : {}", "  exitcode  : -9 (pid: 7)"]


def words(line: str) -> list[str]:
    """The words of a command as a POSIX shell takes it apart, operators as words of their own."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    return list(lexer)


def check(line: str) -> None:
    """One command: a program that is known, one line, and no operator in our own shell."""
    assert MARK not in line and "\n" not in line, line
    found = words(line)
    assert found[0] in PROGRAMS, line
    assert not [word for word in found if set(word) <= set("();<>|&")], line


def copied(incident: Incident) -> list[str]:
    """Every command of an incident: in backticks, and the steps that settle its doubt."""
    texts = [incident.explain, *incident.do, *incident.settle]
    found = [each for text in texts for each in re.findall(r"`([^`]+)`", text)]
    return found + [step for step in incident.settle if step.startswith(("ssh ", "sacct "))]


def finding(rule: str, text: str, **changes: object) -> Finding:
    """A finding as a hostile node or log gives it: the text in every field that may hold one."""
    made = Finding(
        t=NODE_TIME, seq=1, id=1, rule=rule, severity="critical", file="/logs/rank_3.log", offset=0,
        at=NODE_TIME, timed=True, lines=[*(line.format(text) for line in TABLE)], key=2, host=text,
        fields={"node": text, "job": text, "pid": 7, "peer": text, "host": text, "hostname": text},
    )  # fmt: skip
    return structs.replace(made, **changes)


def live(text: str) -> tuple[Places, str]:
    fleet = Fleet(plan("gpu-001", "gpu-002"))
    process = Process(50, "python", rank=3, job=text, world_size=4, variables={"SLURM_JOB_ID": text})
    for node in ("gpu-001", "gpu-002"):
        feed(fleet, node, hello(2, host=text), Ranks(t=NODE_TIME, seq=1, processes=[process]))
    return places_of(list(fleet.nodes.values())), "gpu-001"


def ended(text: str) -> tuple[Places, None]:
    return Places((RankPlace(3, text, text, 1, pid=50),), {text: text}), None


@pytest.mark.sampled(9)
@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("places", [live, ended])
def test_no_field_of_a_finding_brings_a_command_of_its_own(text: str, places: object) -> None:
    where, node = places(text)  # type: ignore[operator]
    for number, code in enumerate(PACKS.by_id):
        rank = 3 if number % 2 else None
        found = [
            LocatedFinding(node, finding(code, text, rank=rank)),
            LocatedFinding(node, finding("rank.exit_error", text)),
        ]
        for incident in incidents(alerts_of(found, PACKS, where), where, PACKS, NODE_TIME):
            assert node is None or incident.node in (None, "gpu-001", "gpu-002"), code
            for each in copied(incident):
                assert MARK not in each, (code, each)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_host_is_in_no_step_of_any_pack(text: str) -> None:
    for code in PACKS.by_id:
        explain, steps, _ = playbook(code, PACKS, text, 5, 3)
        for step in (explain, *steps):
            assert MARK not in step, (code, step)


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("name", ["node", "job", "pid", "gpu", "rank"])
def test_a_hostile_value_is_in_no_command(name: str, text: str) -> None:
    values: dict[str, object] = {"node": "gpu-001", "job": "7", "pid": 4, "gpu": 1, "rank": 2, name: text}
    argv = ("nvidia-smi", "-i", "{gpu}", "--pid", "{pid}", "-j", "{job}", "{rank}")
    for remote in (True, False):
        assert MARK not in command(argv, values, remote=remote)
    assert value(name, text) is None


@pytest.mark.parametrize("text", ["\u0664\u0662", "4\uff12", "4\u00b2", "42\n", "\u0967_1"])
@pytest.mark.parametrize("kind", FORMS)
def test_only_ascii_is_in_a_value(kind: str, text: str) -> None:
    assert value(kind, text) is None
    assert value(kind, f"/{text}") is None


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_job_id_of_an_environment_is_cancelled_by_nobody(text: str) -> None:
    fleet = Fleet(plan("gpu-001"))
    process = Process(50, "python", rank=2, job="7", variables={"SLURM_JOB_ID": text})
    feed(fleet, "gpu-001", Ranks(t=NODE_TIME, seq=1, processes=[process]))
    made = [line for _, line in commands(fleet, (2,), None, {})]
    assert made, "the rank's own commands remain"
    for line in made:
        check(line)
        assert "scancel" not in line


def test_a_rank_with_another_job_id_lets_nobody_cancel_that_job() -> None:
    def ends(*ids: str) -> list[list[str]]:
        fleet = Fleet(plan("gpu-001"))
        ranks = [
            Process(50 + rank, "python", rank=rank, job="7", variables={"SLURM_JOB_ID": each})
            for rank, each in enumerate(ids)
        ]
        feed(fleet, "gpu-001", Ranks(t=NODE_TIME, seq=1, processes=ranks))
        return [words(line) for what, line in commands(fleet, (0,), "7", {}) if what.endswith("the job")]

    assert ends("418207_3", "418207_3") == [["scancel", "418207_3"]]
    assert ends("999", "418207_3") == []


@pytest.mark.parametrize("pid", [-1, 0, 1, -7])
def test_a_process_that_is_none_is_neither_ended_nor_let_go_on(pid: int) -> None:
    fleet = Fleet(plan("gpu-001"))
    ranks = [Process(50, "python", rank=2, job="7"), Process(pid, "python", rank=3, job="7")]
    feed(fleet, "gpu-001", Ranks(t=NODE_TIME, seq=1, processes=ranks))
    below = [KernelThread(pid, state="T"), KernelThread(51, state="T")]
    stack = ProcessStack(50, threads=[KernelThread(50, state="T")], children=below)
    made = commands(fleet, (2, 3), "7", {("gpu-001", 50): RankStack(2, "gpu-001", 50, stack=stack)})
    assert [words(line) for _, line in made] == [
        ["ssh", "gpu-001", "kill", "-CONT", "50", "51"],
        ["ssh", "gpu-001", "kill", "50"],
    ]


def test_a_shell_takes_every_line_apart_as_it_was_put_together() -> None:
    argv = ["kill", *HOSTILE]
    assert shlex.split(command_line(argv)) == argv
    remote = shlex.split(over_ssh(["-p", "22"], "gpu-001", argv))
    assert remote[:4] == ["ssh", "-p", "22", "gpu-001"]
    assert shlex.split(" ".join(remote[4:])) == argv, "as the shell of the node takes it apart again"
    pod = NodeSpec("pod", link="command", command=("kubectl", "exec", "{name}", "--"))
    *_, last = shlex.split(on_node(pod, argv))
    assert shlex.split(last) == argv


def test_only_one_place_makes_command_lines() -> None:
    package = Path(gpuwatch.__file__).parent
    # the commands of a pager, an editor, a job's user and the journal, which are read and not made
    journal = "agent/logs/discovery/launch_records/journal_entries.py"
    split = ("tui/logs/pager.py", "cli/config/settings.py", "hosts/slurm/reports.py", journal)
    own = {package / "shell_command.py", *(package / each for each in split)}
    for path in package.rglob("*.py"):
        if path in own or "launcher" in path.parts:
            continue
        names = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
        assert "shlex" not in names, path


def test_wire_values_reach_no_other_node() -> None:
    fleet = Fleet(plan("gpu-001"))
    feed(fleet, "gpu-001", hello(2, host="gpu-001"))
    where = places_of(list(fleet.nodes.values()))
    table = finding("rank.killed", "db-server", rank=None, host=None, fields={"pid": 7})
    slurm = finding("slurm.node_fail", "db-server", rank=None)
    for each in (table, slurm, finding("gpu.xid.fell_off", "db-server")):
        assert {alert.node for alert in alerts_of([LocatedFinding("gpu-001", each)], PACKS, where)} <= {
            None,
            "gpu-001",
        }
    there = alerts_of([LocatedFinding(None, table)], PACKS, Places())
    assert [alert.node for alert in there] == ["db-server"], "a name in the logs of an ended job"
