"""`gpuwatch hosts check`: the verdict on every node, from facts and over real connections."""

from __future__ import annotations

import io
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.builtin import demo_plan
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.stream.inbox import Arrival, ClockReading, Content, LinkStatus
from gpuwatch.report.hosts_check import NodeCheck, check_fleet, check_node, print_checks, settled, to_json
from gpuwatch.session import Session
from gpuwatch.wire import GpuFast, GpuInfo, GpuSample, Hello, Notice, Sample
from tests.cli.running import gpuwatch
from tests.sentences import Sentences
from tests.servers.sshd import Sshd

GPUS = [GpuInfo(uuid=f"GPU-{index}", index=index, name="H100") for index in range(2)]


def hello(**more: Any) -> Hello:
    facts = {"gpus": GPUS, "python": "3.9.1", "driver": "550.54", "kernel_log": "/dev/kmsg"} | more
    return Hello(t=0, seq=1, host="n1", agent="0.1", pid=7, interval_s=1, **facts)


def sample(**gpu: Any) -> Sample:
    readings = [GpuSample(uuid=each.uuid, fast=GpuFast(t=0), **gpu) for each in GPUS]
    return Sample(t=0, seq=2, gpus=readings)


LIVE = LinkStatus("live", start_s=0.2)
CLOCK = ClockReading(0.001, 0.002)


def reported(*contents: Content, spec: NodeSpec | None = None) -> NodeCheck:
    fleet = Fleet(Plan(nodes=(spec or NodeSpec(name="n1"),)))
    for content in contents:
        fleet.apply(Arrival("n1", 1.0, content))
    return check_node(fleet.nodes["n1"], 5)


def test_a_node_where_all_works_is_fine() -> None:
    check = reported(LIVE, hello(), CLOCK, sample())
    assert check.ok
    assert (check.error, check.problems, check.notes) == (None, (), ())
    assert (check.gpus, check.gpus_expected, check.driver, check.python) == (2, 2, "550.54", "3.9.1")
    assert (check.clock_offset_s, check.clock_error_s) == (0.001, 0.002)


def test_a_link_that_failed_says_why_and_one_that_is_silent_how_long(sentences: Sentences) -> None:
    lost = reported(LinkStatus("lost", reason="unknown host key ED25519 SHA256:abc"))
    assert not lost.ok
    sentences(lost.error)
    silent = reported(LinkStatus("connecting"))
    assert not silent.ok
    sentences(silent.error or "")
    assert (silent.gpus, silent.clock_offset_s, silent.python) == (None, None, None)


@pytest.mark.parametrize(
    ("contents", "problem"),
    [
        ([hello(gpus_expected=8), sample()], "2 of 8 GPUs present"),
        (
            [hello(notices=[Notice("driver_mismatch", "versions differ", "critical", "reboot")])],
            "versions differ. What to do: reboot",
        ),
        (
            [hello(), sample(state="stuck", stuck_in="nvmlDeviceGetPowerUsage")],
            "stuck in nvmlDeviceGetPowerUsage",
        ),
        ([hello(), sample(state="lost", reason="GPU is lost")], "GPU 1 is lost: GPU is lost"),
    ],
)
def test_what_is_not_well_makes_the_node_not_fine(contents: list[Content], problem: str) -> None:
    check = reported(LIVE, *contents)
    assert not check.ok
    assert any(problem in text for text in check.problems), check.problems


def test_slots_of_the_hosts_file_count_as_expected_gpus() -> None:
    check = reported(LIVE, hello(), sample(), spec=NodeSpec(name="n1", slots=4))
    assert check.problems == ("2 of 4 GPUs present",)


def test_what_cannot_be_read_is_noted_without_blame(sentences: Sentences) -> None:
    check = reported(
        LinkStatus("live", start_s=3.5),
        hello(kernel_log=None),
        ClockReading(-4.0, 0.1),
        sample(missing={"memory_temperature_c": "not_supported", "ecc_corrected": "no_permission"}),
    )
    assert check.ok
    notes = "\n".join(check.notes)
    sentences(notes)
    assert "-4.000 s off" in notes


def test_a_node_is_waited_for_until_inventory_clock_and_gpus_have_come() -> None:
    fleet = Fleet(Plan(nodes=(NodeSpec(name="n1"),)))
    node = fleet.nodes["n1"]
    waited = []
    for content in (LIVE, hello(), CLOCK, sample()):
        waited.append(settled(node))
        fleet.apply(Arrival("n1", 1.0, content))
    assert waited == [False] * 4
    assert settled(node)


def test_the_text_folds_the_same_fault_of_many_nodes_and_reads_no_markup(sentences: Sentences) -> None:
    checks = [
        NodeCheck(name=f"n{number}", ok=False, link="ssh", target=f"n{number}", error="[/bold] no route")
        for number in range(1, 4)
    ]
    out = io.StringIO()
    print_checks([*checks, NodeCheck(name="n4", ok=True, link="local", target="here", noise="[red]hi")], out)
    text = out.getvalue()
    sentences(text)
    assert not any(line != line.rstrip() for line in text.splitlines())


def test_the_json_has_null_for_what_is_not_known() -> None:
    facts = json.loads(to_json([reported(LinkStatus("connecting"))]))
    assert facts["ok"] is False
    (node,) = facts["nodes"]
    assert node["name"] == "n1"
    assert node["gpus"] is None
    assert node["problems"] == []


def test_every_node_of_the_demo_is_fine_and_says_that_it_is_a_demo() -> None:
    with Session(demo_plan()) as session:
        checks = check_fleet(session, 30)
    assert [check.ok for check in checks] == [True] * 16
    assert {(check.link, check.gpus) for check in checks} == {("demo", 8)}
    assert all(any("DEMO" in note for note in check.notes) for check in checks)


# --------------------------------------------------------------------------- the real command


def run(*words: object) -> subprocess.CompletedProcess[str]:
    return gpuwatch("hosts", *map(str, words))


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    folder = tmp_path_factory.mktemp("check")
    with Sshd(folder, names=("known", "stranger"), trusted=False) as server:
        config = server.client.config
        strangers = folder / "known_hosts_of_strangers"
        strangers.touch()
        text = config.read_text()
        known, stranger = text.split("Host stranger\n")
        lines = [line for line in stranger.splitlines() if "UserKnownHostsFile" not in line]
        config.write_text(
            f"{known}Host stranger\n    UserKnownHostsFile {strangers}\n" + "\n".join(lines) + "\n"
        )
        key = server.host_keys[0].with_name(server.host_keys[0].name + ".pub").read_text()
        server.client.trust(f"[127.0.0.1]:{server.port} {' '.join(key.split()[:2])}")
        yield server


def test_over_real_connections_every_node_gets_its_own_verdict(sshd: Sshd, tmp_path: Path) -> None:
    plan = tmp_path / "hosts.yaml"
    plan.write_text(
        """
        hosts:
          - known
          - stranger
          - {name: closed, address: 127.0.0.1, port: 1}
          - {name: beside, command: [env, "NODE={name}"]}
          - {name: broken, command: [false]}
          - {name: here, link: local}
        """
    )
    done = run("check", plan, "-F", sshd.client.config, "--json", "--timeout", 60)
    assert done.returncode == 1, done.stderr
    nodes = {node["name"]: node for node in json.loads(done.stdout)["nodes"]}
    assert {name: node["ok"] for name, node in nodes.items()} == {
        "known": True, "stranger": False, "closed": False, "beside": True, "broken": False, "here": True,
    }, done.stdout  # fmt: skip
    known = nodes["known"]
    assert known["target"] == f"{sshd.user}@127.0.0.1:{sshd.port}"
    assert "SHA256:" in known["host_key"]
    assert str(sshd.client.known_hosts) in known["verified_by"]
    assert known["authenticated_by"]
    assert known["python"]
    assert abs(known["clock_offset_s"]) < 60
    assert "SHA256:" in nodes["stranger"]["error"]
    assert nodes["stranger"]["target"] == known["target"], "what ssh_config makes of the name"
    assert nodes["closed"]["target"].endswith("@127.0.0.1:1")
    assert "refused" in nodes["closed"]["error"]


def test_a_mistake_in_the_file_is_reported_and_nothing_is_connected(
    tmp_path: Path, sentences: Sentences
) -> None:
    plan = tmp_path / "hosts.yaml"
    touched = tmp_path / "touched"
    plan.write_text(f"hosts:\n  - {{name: a, command: [touch, {touched}]}}\n  - {{name: b, prot: 22}}\n")
    done = run("check", plan)
    assert (done.returncode, done.stdout) == (2, "")
    sentences(done.stderr)
    assert not touched.exists()


def test_the_schema_is_printed_as_json(sentences: Sentences) -> None:
    done = run("schema")
    assert done.returncode == 0
    sentences(json.loads(done.stdout)["title"])
