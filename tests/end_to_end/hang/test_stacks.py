"""`gpuwatch stacks` over real gloo ranks that hang, and over NCCL's RAS on a real socket."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import gpuwatch
from tests.end_to_end.hang.hanging import RANKS, WHOM, hanging_job, py_spy, sleeping_ranks
from tests.parts import SEEN_BY_EVERY_AGENT, need_torch
from tests.servers import ras_server
from tests.servers.sshd import Sshd

pytestmark = SEEN_BY_EVERY_AGENT


@pytest.fixture(scope="module")
def hanging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[int]]]:
    need_torch()
    with hanging_job(tmp_path_factory.mktemp("hanging")) as (job, ranks):
        yield job, [rank.pid for rank in ranks]


def asked(hanging: tuple[str, list[int]], *arguments: str) -> dict[str, Any]:
    """What the command says of this job: others may run on the same machine."""
    done = gpuwatch("stacks", *arguments, "--json", "--wait", "45")
    assert done.returncode in (0, 1), done.stderr
    reported = json.loads(done.stdout)
    (job,) = [job for job in reported["jobs"] if job["job"] == hanging[0]]
    assert isinstance(job, dict)
    return {**reported, "this": job}


def test_the_kernel_names_the_one_that_sleeps(hanging: tuple[str, list[int]]) -> None:
    job = asked(hanging, "--local", "--no-py-spy", "--no-ras")["this"]
    assert (job["by"], job["culprits"], job["confidence"]) == ("kernel", [WHOM], "medium")
    odd, usual = job["places"]
    assert "nanosleep" in odd["what"]
    assert [rank["rank"] for rank in usual["ranks"]] == [0, 1, 3]
    assert {rank["pid"] for place in job["places"] for rank in place["ranks"]} == set(hanging[1])
    assert "gloo_tcp_loop" in usual["ranks"][0]["threads"]


def test_py_spy_names_its_line(hanging: tuple[str, list[int]]) -> None:
    """Document 004, line 419."""
    reported = asked(hanging, "--local", "--py-spy", py_spy(), "--no-ras")
    job = reported["this"]
    assert (job["by"], job["culprits"], job["confidence"]) == ("python", [WHOM], "high")
    assert "data_loader_next (hang_job.py:" in job["sentence"]
    assert "all_reduce, called by train_step (hang_job.py:" in job["sentence"]
    assert job["places"][0]["frames"][0].startswith("data_loader_next")


def test_any_process_is_asked_by_its_pid(hanging: tuple[str, list[int]]) -> None:
    rank, nobody = hanging[1][WHOM], 1 << 22
    done = gpuwatch(
        "stacks", "--local", "--py-spy", py_spy(), "--no-ras", "--json", "--wait", "45",
        "--pid", str(rank), "--pid", str(nobody),
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    seen = {each["pid"]: each for each in json.loads(done.stdout)["processes"]}
    assert seen[rank]["frames"][0].startswith("data_loader_next")
    assert (seen[nobody]["what"], seen[nobody]["frames"]) == (None, [])


def test_the_ranks_tell_their_lines_on_their_jobs_own_socket(hanging: tuple[str, list[int]]) -> None:
    job = asked(hanging, "--local", "--py-spy", "/none/on/this/node", "--no-ras")["this"]
    assert (job["by"], job["culprits"], job["confidence"]) == ("python", [WHOM], "high")
    assert "data_loader_next (hang_job.py:" in job["sentence"]
    assert "all_reduce, called by train_step (hang_job.py:" in job["sentence"]


def test_a_py_spy_is_lent_to_a_node_that_has_none(tmp_path: Path) -> None:
    """The ranks' own Python stands in a folder without one, and nothing is left behind."""
    program = py_spy()
    bare = {"PATH": "/usr/bin:/bin", "TMPDIR": str(tmp_path / "tmp")}
    (tmp_path / "tmp").mkdir()
    (tmp_path / "python").symlink_to(sys.executable)
    arguments = ("stacks", "--local", "--no-ras", "--json", "--wait", "45")
    with sleeping_ranks("127.0.0.1:1", tmp_path / "python") as name:

        def job_with(*more: str) -> dict[str, Any]:
            done = gpuwatch(*arguments, *more, changes=bare)
            return next(job for job in json.loads(done.stdout)["jobs"] if job["job"] == name)

        job = job_with()
        for _ in range(3):  # py-spy has 4 s for a rank, which a busy machine does not always give it
            after = job_with("--upload-py-spy", program)
            if after["by"] == "python":
                break
    assert job["places"][0]["ranks"][0]["without_python"].startswith("py-spy")
    assert (job["by"], after["by"]) == ("kernel", "python")
    assert after["places"][0]["frames"] == ["<module> (<string>:1)"]
    assert list((tmp_path / "tmp").iterdir()) == []


def test_what_is_no_program_is_not_uploaded() -> None:
    done = gpuwatch("stacks", "--local", "--upload-py-spy", __file__)
    assert done.returncode == 2
    assert f"--upload-py-spy {__file__}: not a program" in done.stderr


@pytest.mark.long
@pytest.mark.sampled(1)
@pytest.mark.parametrize("link", ["ssh", "command"])
def test_it_works_on_every_link(hanging: tuple[str, list[int]], link: str, tmp_path: Path) -> None:
    if link == "ssh":
        with Sshd(tmp_path / "sshd", names=("node-1",)) as sshd:
            job = asked(hanging, "node-1", "-F", str(sshd.client.config), "--no-ras")["this"]
    else:
        hosts = tmp_path / "hosts.yaml"
        hosts.write_text("hosts:\n  - {name: node-1, command: [/usr/bin/env]}\n")
        job = asked(hanging, str(hosts), "--no-ras")["this"]
    seen = [rank for place in job["places"] for rank in place["ranks"]]
    assert {rank["node"] for rank in seen} == {"node-1"}
    assert len(seen) == RANKS


def test_text_says_the_same_and_where(hanging: tuple[str, list[int]]) -> None:
    done = gpuwatch("stacks", "--local", "--no-py-spy", "--no-ras", "--wait", "45")
    assert re.search(rf"job {re.escape(hanging[0])}: 4 ranks .*2 ", done.stdout)
    assert f"pid {hanging[1][WHOM]}" in done.stdout


def test_nccls_counts_name_the_rank_that_the_stacks_do_not() -> None:
    """Four ranks that all sleep: only NCCL knows that one has launched less."""
    stated = ras_server.answer([ras_server.rank(n, 41 if n == 1 else 42) for n in range(4)])
    with ras_server.ras_server(stated, speaks_json=True) as address, sleeping_ranks(address):
        done = gpuwatch("stacks", "--local", "--no-py-spy", "--json", "--wait", "45")
        reported = json.loads(done.stdout)
    assert reported["ras"]["culprits"] == [1]
    assert reported["ras"]["answers"][0]["nccl"] == "2.28.9"
    launched = reported["ras"]["answers"][0]["communicators"][0]["launched"]["AllReduce"]
    assert [(each["count"], each["size"]) for each in launched] == [(41, 1), (42, 3)]
    assert done.returncode == 1


def test_a_node_that_is_not_there_is_reported(tmp_path: Path) -> None:
    hosts = tmp_path / "hosts.yaml"
    hosts.write_text("hosts:\n  - {name: gone, command: [/bin/false]}\n")
    done = gpuwatch("stacks", str(hosts))
    assert done.returncode == 2
    assert done.stderr.startswith("gone: ")
    assert gpuwatch("stacks", "--local", "--node", "nobody").returncode == 2
