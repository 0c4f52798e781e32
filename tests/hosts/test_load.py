"""What a hosts file comes to, and what is said about one that is wrong."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuwatch.hosts.keys import DOCUMENT, SETTINGS
from gpuwatch.hosts.load import load_plan, load_source, parse_plan
from gpuwatch.hosts.plan import Model, NodeSpec, Thresholds
from gpuwatch.hosts.validation.errors import HostsError
from gpuwatch.rules.load import load_packs
from gpuwatch.rules.model.errors import RulesError
from tests.sentences import Sentences


def problems(text: str) -> list[str]:
    with pytest.raises(HostsError) as caught:
        parse_plan(text, "hosts.yaml")
    return list(caught.value.problems)


def nodes(text: str) -> dict[str, NodeSpec]:
    return {node.name: node for node in parse_plan(text, "hosts.yaml").nodes}


def test_a_host_wins_over_its_groups_and_they_over_the_defaults() -> None:
    found = nodes(
        """
        defaults: {user: ubuntu, port: 22, labels: {site: a, rack: 00}}
        hosts:
          - {name: n1, user: root, labels: {rack: 012}}
          - n2
          - n3
        groups:
          first: {hosts: "n[1-2]", user: one, port: 2222, labels: {row: x}}
          second: {hosts: [n2], port: 2223}
        """
    )
    assert (found["n1"].user, found["n1"].port) == ("root", 2222)
    assert (found["n2"].user, found["n2"].port) == ("one", 2223)
    assert (found["n3"].user, found["n3"].port) == ("ubuntu", 22)
    assert found["n1"].labels == {"site": "a", "rack": "012", "row": "x"}


def test_the_name_is_put_into_addresses_and_commands_of_a_range() -> None:
    found = nodes(
        """
        hosts:
          - {name: "gpu-[1-2]", address: "{name}.ib.example"}
          - name: pod-[1-2]
            command: [kubectl, exec, -i, "{name}", --]
          - {name: here, link: local}
          - {name: box, link: {command: [docker, exec, -i, box]}}
        """
    )
    assert found["gpu-2"].address == "gpu-2.ib.example"
    assert (found["pod-2"].link, found["pod-2"].command) == (
        "command",
        ("kubectl", "exec", "-i", "pod-2", "--"),
    )
    assert found["here"].link == "local"
    assert found["box"].command == ("docker", "exec", "-i", "box")


def test_a_host_can_leave_the_command_of_its_group() -> None:
    found = nodes(
        """
        defaults: {command: [ssh, -T, "{name}"]}
        hosts: [a, {name: b, link: ssh}]
        """
    )
    assert found["a"].command == ("ssh", "-T", "a")
    assert (found["b"].link, found["b"].command) == ("ssh", ())


def test_the_rest_of_the_file_reaches_the_plan() -> None:
    plan = parse_plan(
        """
        hosts: [n1, n2, admin@n3]
        groups: {train: [n1, n2], all: ["@train", n3]}
        logs: ["/scratch/*/rank{rank}.log", "~/logs/{host}-{date}.txt"]
        interval: 2
        thresholds: {temperature_c: 80, memory_pct: 99.5}
        defaults: {identity_file: [/k/a, /k/b], jump: me@bastion:2222, python: /opt/py/bin/python3, slots: 8}
        """,
        "hosts.yaml",
    )
    assert plan.groups == {"train": ("n1", "n2"), "all": ("n1", "n2", "n3")}
    assert plan.logs == ("/scratch/*/rank{rank}.log", "~/logs/{host}-{date}.txt")
    assert plan.interval_s == 2
    assert plan.thresholds == Thresholds(temperature_c=80, memory_pct=99.5)
    assert plan.source == "hosts.yaml"
    node = plan.nodes[2]
    assert (node.user, node.identity_file, node.jump, node.python, node.slots) == (
        "admin", ("/k/a", "/k/b"), "me@bastion:2222", "/opt/py/bin/python3", 8
    )  # fmt: skip


def test_activation_is_a_shell_line_of_which_the_nearest_wins() -> None:
    found = nodes(
        """
        hosts: [n1, {name: n2, activate: 'source "$HOME/my venv/bin/activate" && export A=1 # mine'}]
        defaults: {activate: module load cuda/12.4 && source ~/venv/bin/activate}
        """
    )
    assert found["n1"].activate == "module load cuda/12.4 && source ~/venv/bin/activate"
    assert found["n2"].activate == 'source "$HOME/my venv/bin/activate" && export A=1 # mine'


def test_a_tilde_in_a_key_path_is_the_home_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert nodes("hosts: [n1]\ndefaults: {identity_file: ~/.ssh/k}")["n1"].identity_file == (
        "/home/ada/.ssh/k",
    )


def test_a_bad_model_is_reported_with_file_line_and_remedy(tmp_path: Path) -> None:
    file = tmp_path / "hosts.yaml"
    file.write_text("hosts: n1\nmodel:\n  params: 13B\n")
    with pytest.raises(HostsError) as caught:
        load_plan(file)
    reported = "3:11: 'params' must be a number from 1000 to 1e+16 (parameters, such as 13.0e+9), not '13B'"
    assert caught.value.problems == (f"{file}:{reported}",)


def test_a_model_reaches_the_plan() -> None:
    plan = parse_plan("hosts: n1\nmodel: {params: 13e9, layers: 40, peak_tflops: 148}", "hosts.yaml")
    assert plan.model == Model(13e9, layers=40, peak_tflops=148)


def test_every_mistake_is_reported_at_once_in_the_order_of_the_file(sentences: Sentences) -> None:
    text = """\
defaults:
  prot: 22
hosts:
  - gpu-[001-004]
  - {name: "big-[1-2]", adress: x, port: 70000}
  - gpu-003
  - n[5-3]
groups:
  dev: {hosts: [big-1, "@trian"], slots: "8"}
interval: 0
interval: 1
"""
    sentences(problems(text))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("hosts: [n1]\ngroups: {a: 'n[1-3]'}", "2:13: 'n[2-3]' are not under 'hosts'"),
        ("hosts: [gpu-1]\ngroups: {a: gpu-l}", "2:13: 'gpu-l' is not under 'hosts', did you mean 'gpu-1'?"),
        ("hosts: 'n[1-999999999]'", "1:9: 'n[1-999999999]': 999,999,999 nodes, more than the 10,000"),
        ("hosts: ['a[1-6000]', 'b[1-6000]']", "1:22: more than 10,000 nodes in all"),
        ("hosts: [{name: 'n[1-4]', address: 10.0.0.1}]", "1:35: 4 nodes would share the address '10.0.0.1'"),
        ("hosts: [{name: n, link: ssh, command: [x]}]", "1:25: 'link' and 'command' exclude each other"),
        ("hosts: [{name: n, link: local, port: 22}]", "1:38: 'port' has no meaning for a local link"),
        (
            "hosts: [{name: n, link: shs}]",
            "1:25: 'link' must be ssh or local, not 'shs', did you mean 'ssh'?",
        ),
        ("hosts: [{port: 22}]", "1:9: a host needs the key 'name'"),
        ("hosts: [n1]\ndefaults: {user: -oProxyCommand=x}", "2:18: 'user' must be a user name"),
        ("hosts: [n1]\ndefaults: {address: -oProxyCommand=x}", "2:21: 'address' must be"),
        ("hosts: [n1]\ndefaults: {jump: '-J x'}", "2:18: 'jump' must be"),
        ("hosts: ['-oProxyCommand=x']", "1:10: '-oProxyCommand=x': a node name cannot begin with '-'"),
        ('hosts: ["a\\e[2J"]', "1:11: 'a\\x1b[2J': '\\x1b' cannot be part"),
        ("hosts: [n1]\nlogs: '/var/log/{rnak}.log'", "2:7: 'logs' must be"),
        ("hosts: [{name: n, command: [x, '{host}']}]", "1:32: 'command' must be"),
        ("hosts: [{name: n, command: [x, {name}]}]", "1:32: 'command' holds { } without quotes"),
        ("hosts:", "1:7: 'hosts' must be a list of hosts, not nothing"),
        ("hosts: []", "1:8: 'hosts' must be a list of hosts, not an empty list"),
        ("defaults: {}", "1:1: a hosts file needs the key 'hosts'"),
        ("hosts: [n1]\n<<: {a: b}", "2:1: unknown key '<<'; merge keys are not supported"),
        ("hosts: [!secret n1]", "1:9: 'hosts' must be"),
        ("hosts: [n1]\ndefaults: &a {labels: {x: *a}}", "2:27: the alias '*a' has no anchor before it"),
        ("hosts: [n1\n", "2:1: not YAML: "),
        ("hosts: [gpu-[1-3]]", "not YAML: "),
        ("hosts:\n\t- n1", "2:1: not YAML: "),
        ("hosts: [n1]\n---\nhosts: [n2]", "2:1: not YAML: "),
        ("hosts: [n1]\nlogs: \x00", "2:7: the character '\\x00' is not allowed in YAML"),
        (
            "hosts: n1\nmodel: {params: 13B}",
            "2:17: 'params' must be a number from 1000 to 1e+16 (parameters, such as 13.0e+9), not '13B'",
        ),
        ("hosts: n1\nmodel: {params: 0}", "2:17: 'params' must be a number from 1000"),
        ("hosts: n1\nmodel: {params: .nan}", "2:17: 'params' must be a number from 1000"),
        ("hosts: n1\nmodel: {layers: 40}", "2:8: model needs the key 'params'"),
        ("hosts: n1\nmodel: {parms: 1.0e+9}", "2:9: unknown key 'parms', did you mean 'params'?"),
        ("hosts: n1\nmodel: {params: 1.0e+9, layers: 4.5}", "2:33: 'layers' must be a whole number from 1"),
        ("hosts: n1\nmodel: {params: 1.0e+9, tokens_per_s: node}", "2:39: 'tokens_per_s' must be gpu or job"),
        (
            "hosts: n1\nmodel: {params: 1.0e+9, peak_tflops: 0}",
            "2:38: 'peak_tflops' must be a number from 0.1",
        ),
        ("hosts: n1\nmodel: 13.0e+9", "2:8: 'model' must be a mapping with keys of params, layers, "),
        ("hosts: n1\nmodel:", "2:7: 'model' must be a mapping with keys of params, layers, "),
        ("", "1:1: the file is empty"),
        ("# nothing\n", "1:1: the file is empty"),
        ("hosts: " + "[" * 100 + "]" * 100, "1:23: nested too deep"),
    ],
)
def test_a_mistake_is_reported_with_its_place(text: str, problem: str) -> None:
    reported = problems(text)
    assert any(problem in line for line in reported), reported
    assert all(line.isprintable() for line in reported)


def test_a_mistake_quotes_no_secret() -> None:
    quoted = "\n".join(problems("hosts:\n  - {name: a, port: 'password=Zx9tQ4wLm27RkP'}\n"))
    assert "Zx9tQ4wLm27RkP" not in quoted
    assert "[masked]" in quoted


def test_an_alias_bomb_is_refused(sentences: Sentences) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    (problem,) = problems("\n".join(lines))
    sentences(problem)


def test_many_large_ranges_are_refused_before_they_are_expanded(sentences: Sentences) -> None:
    reported = problems(
        "hosts: n[1-10000]\ngroups:\n" + "".join(f"  g{n}: n[1-10000]\n" for n in range(1000))
    )
    sentences(reported[-1])
    reported = problems("hosts: n[1-10000]\ngroups:\n  a: n[1-10000]\n  b:\n" + "    - '@a'\n" * 1000)
    sentences(reported[-1])


def test_an_alias_of_ordinary_size_is_followed() -> None:
    found = nodes("hosts:\n  - {name: a, labels: &l {rack: r1}}\n  - {name: b, labels: *l}")
    assert found["b"].labels == {"rack": "r1"}


@pytest.mark.parametrize(
    "text",
    [
        "- n[1-2]\n- n3\n",
        "n[1-2]\nn3\n",
        "# ours\nn1 slots=8  # first\nn2 slots=8\nn3 slots=8 max_slots=16\n",
        "n1:8\nn2:8\nn3:8\n",
        "n1\nn1\nn2\nn3\n",
        "[n1, n2, n3]",
        '{"hosts": ["n1", "n2", "n3"]}',
        "\ufeffn1\r\nn2\r\nn3\r\n",
    ],
)
def test_a_list_or_a_hostfile_is_known_by_its_content(text: str, tmp_path: Path) -> None:
    path = tmp_path / "cluster"
    path.write_bytes(text.encode())
    plan = load_plan(path)
    assert [node.name for node in plan.nodes] == ["n1", "n2", "n3"]
    assert {node.slots for node in plan.nodes} == ({8} if "8" in text else {None})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("n1\nn2 slot=8\n", "2:1: 'slot=8' is not a known option, did you mean 'slots'?"),
        ("n1\n  n2 slots=many\n", "2:3: 'slots' must be a whole number from 0 to 1024, not 'many'"),
        ("n1 slots=8\nn2\nn1 slots=4", "3:1: 'n1' is listed twice, first in line 1"),
        ("n1\nn[2-\n", "2:2: 'n[2-': '[' is not closed"),
        ("hosts\n  - n1\n", "2:3: '-': a node name cannot begin with '-'"),
    ],
)
def test_a_mistake_in_a_hostfile_is_reported_with_its_place(text: str, problem: str) -> None:
    assert any(line.startswith(f"hosts.yaml:{problem}") for line in problems(text)), problems(text)


def test_a_range_on_the_command_line_needs_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert [node.name for node in load_source("gpu-[001-002],big").nodes] == ["gpu-001", "gpu-002", "big"]
    assert load_source("ada@10.0.0.1").nodes == (NodeSpec(name="10.0.0.1", user="ada"),)
    long = "gpu-[" + ",".join(str(number) for number in range(200)) + "]"  # longer than a file name may be
    assert len(load_source(long).nodes) == 200
    (tmp_path / "gpu-1").write_text("n7\n")
    assert [node.name for node in load_source("gpu-1").nodes] == ["n7"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("hots.yaml", "hots.yaml: no such file, did you mean 'hosts.yaml'?"),
        ("conf/hosts", "conf/hosts: no such file"),
        ("n[3-1]", "'n[3-1]' is neither a file nor a valid node range (character 3)"),
        (".", ".: a folder; name the hosts file in it"),
    ],
)
def test_a_source_that_is_neither_file_nor_range_says_what_was_tried(
    text: str, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hosts.yaml").write_text("- n1")
    with pytest.raises(HostsError) as caught:
        load_source(text)
    assert caught.value.problems[0].startswith(problem)


def test_a_file_that_is_no_text_or_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yaml"
    path.write_bytes(b"hosts:\n  - n\xff1\n")
    with pytest.raises(HostsError) as caught:
        load_plan(path)
    assert caught.value.problems == (f"{path}:2:6: not UTF-8 text",)
    path.write_bytes(b"- n1\n" * 500_000)
    with pytest.raises(HostsError, match="larger than 1 MiB"):
        load_plan(path)


def loads_or_says_why(text: str) -> None:
    try:
        plan = parse_plan(text, "h.yaml")
    except HostsError as error:
        assert error.problems
        for line in error.problems:
            source, row, column, _ = line.split(":", 3)
            assert source == "h.yaml"
            assert int(row) >= 1
            assert int(column) >= 1
            assert line.isprintable()
    else:
        assert len({node.name for node in plan.nodes}) == len(plan.nodes)


keys = st.sampled_from([*DOCUMENT.keys, *(key.name for key in SETTINGS), "name", "<<", "x", "prot"])
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(
        ["n1", "n[1-3]", "@x", "u@n", "ssh", "local", "{name}", "-x", "/var/{rank}", "10.0.0.1", "2024-01-01"]
    )
)
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys | scalars, inner, max_size=5),
    max_leaves=20,
)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(keys, documents, max_size=6) | documents)
def test_any_document_loads_or_gives_problems_with_places(document: object) -> None:
    loads_or_says_why(yaml.safe_dump(document, allow_unicode=True))


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=60) | st.text(alphabet="ab:-[]{}&*!|>%@'\"#,? \n\t0\\", max_size=60))
def test_any_text_loads_or_gives_problems_with_places(text: str) -> None:
    loads_or_says_why(text)
    loads_or_says_why("hosts: [n1]\ndefaults:\n  " + text)


@settings(deadline=None)
@given(data=st.binary(max_size=60))
def test_any_file_loads_or_gives_problems(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "any-hosts-file"
    path.write_bytes(data)
    try:
        assert load_plan(path).nodes
    except HostsError as error:
        assert all(line.isprintable() for line in error.problems)


@pytest.mark.parametrize(
    "text",
    [
        '!!python/object/apply:os.system ["touch x"]\n',
        "!foo\nhosts: [a]\n",
        "!!set {a, b}\n",
        "!!omap\n- hosts: [a]\n",
        "hosts: !foo [a]\n",
        "--- !foo\nhosts: [a]\n",
        "%TAG ! tag:x,2000:\n---\n!m {hosts: [a]}\n",
        "hosts: [!!python/object/apply:os.system [x]]\n",
        "hosts:\n  - !evil {name: a}\n",
    ],
)
def test_a_tag_of_a_list_or_mapping_is_refused_at_its_place(text: str) -> None:
    with pytest.raises(HostsError) as refused:
        parse_plan(text, "hosts.yaml")
    assert re.search(r"hosts\.yaml:\d+:\d+: the tag ", str(refused.value))


def test_a_named_pipe_is_refused_and_one_of_the_shell_is_read(tmp_path: Path) -> None:
    fifo = tmp_path / "hosts.yaml"
    os.mkfifo(fifo)
    with pytest.raises(HostsError, match="named pipe"):
        load_plan(fifo)
    with pytest.raises(RulesError, match="named pipe"):
        load_packs([fifo])
    reading, writing = os.pipe()
    os.write(writing, b"hosts: [gpu-001]\n")
    os.close(writing)
    plan = load_plan(Path(f"/dev/fd/{reading}"))
    os.close(reading)
    assert [node.name for node in plan.nodes] == ["gpu-001"]


@pytest.mark.parametrize(
    "text",
    [
        "root:$6$hunter2:20228:0:::\nada:$6$hunter2:1:0:::\n",
        "machine h login u password hunter2\n",
        "h:5432:db:user:hunter2\n",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nhunter2\n",
        "TOKEN=hunter2\n",
        "aws hunter2 key: 1\nhunter2=: 2\n",
    ],
)
def test_a_file_that_is_no_rule_pack_is_not_quoted(tmp_path: Path, text: str) -> None:
    secret = tmp_path / "shadow"
    secret.write_text(text.replace("aws hunter2 key", "aws:hunter2:key"))
    with pytest.raises(RulesError) as refused:
        load_packs([secret])
    assert str(secret) in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("target", ["loop.yaml", "missing.yaml"])
def test_a_link_that_leads_nowhere_is_called_so(tmp_path: Path, target: str) -> None:
    link = tmp_path / "loop.yaml"
    link.symlink_to(tmp_path / target)
    with pytest.raises(HostsError, match="symbolic link"):
        load_source(str(link))
