from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from gpuwatch.cli.probe.options import read_collectives, read_sizes
from gpuwatch.probe.probe_request import COLLECTIVES, SIZES
from tests.cli.loaded import HEAVY, loaded
from tests.cli.running import gpuwatch
from tests.sentences import Sentences, line_of


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        ("1,4,16,64,256", SIZES),
        ("16M, 1M", (1 << 20, 16 << 20)),
        ("64K,1G,512B", (512, 64 << 10, 1 << 30)),
        ("1M..1G", (1 << 20, 4 << 20, 16 << 20, 64 << 20, 256 << 20, 1 << 30)),
        ("1..8,1.5k", (1536, 1 << 20, 4 << 20)),
        ("4MiB,4MB", (4 << 20,)),
    ],
)
def test_sizes(text: str, sizes: tuple[int, ...]) -> None:
    """Document 004, line 156."""
    assert read_sizes(text) == sizes


@pytest.mark.parametrize("text", ["", "x", "-1", "0", "16M..1M", "1T", "65G", "1B..64G,3,5,7", "4..", "1,,x"])
def test_what_is_no_size_is_refused(text: str) -> None:
    if text == "1B..64G,3,5,7":
        text += "," + ",".join(str(number) for number in range(11, 41))
    with pytest.raises(click.BadParameter):
        read_sizes(text)


def test_collectives_by_name() -> None:
    """Document 004, line 157."""
    assert read_collectives(",".join(COLLECTIVES)) == COLLECTIVES
    assert read_collectives("send-recv, all_reduce,send_recv") == ("send_recv", "all_reduce")
    assert read_collectives("none") == ()
    with pytest.raises(click.BadParameter, match="did you mean all_reduce"):
        read_collectives("allreduce")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "SOURCE (a hosts file or node range), --local, --demo"),
        (("--local", "--sizes", "huge"), "not a size"),
        (("--local", "--collectives", "allreduce"), "did you mean all_reduce"),
        (("--local", "--time-limit", "0"), "time-limit"),
        (("--local", "--backend", "mpi"), "gloo"),
        (("--local", "--ranks-per-node", "0"), "ranks-per-node"),
        (("--local", "--json", "-", "--csv", "-"), "both write to stdout"),
        (("--local", "--json", "/nowhere/at/all.json"), "directory /nowhere/at does not exist"),
        (("--local", "--csv", "/"), "it is a directory; give a file"),
        (("--local", "--json", "same", "--csv", "./same"), "--json and --csv both write to ./same"),
        (("--demo", "--collectives", "none", "--no-pairs", "--no-gpu-checks"), "nothing to measure"),
        (("--local", "--baseline", "/nowhere/base.json"), "/nowhere/base.json"),
        (("/nowhere/hosts.yaml",), "no such file"),
    ],
)
def test_a_wrong_command_line_is_reported_before_anything_is_connected(
    arguments: tuple[str, ...], sentence: str
) -> None:
    done = gpuwatch("probe", *arguments)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_a_file_that_is_no_baseline_is_refused_first(tmp_path: Path) -> None:
    path = tmp_path / "base.json"
    path.write_text("{}")
    for option in ("--baseline", "--save-baseline"):
        done = gpuwatch("probe", "--local", option, str(path))
        assert (done.returncode, done.stdout) == (2, "")
        assert "not a baseline" in done.stderr
    assert path.read_text() == "{}"


def test_help_imports_nothing_heavy() -> None:
    assert loaded("probe", "--help") & HEAVY == set()
    help_text = gpuwatch("probe", "--help").stdout
    for option in (
        "--collectives",
        "--sizes",
        "--quick",
        "--no-pairs",
        "--allow-busy",
        "--save-baseline",
        "--yes",
    ):
        assert option in help_text
    for option in ("--log", "--interval"):  # of commands that watch
        assert option not in help_text


def test_the_demo_names_its_bad_nic_and_says_that_it_is_a_demo(sentences: Sentences) -> None:
    arguments = ("--quick", "--sizes", "64", "--collectives", "all_reduce", "--yes")
    done = gpuwatch("probe", "--demo", *arguments)
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("DEMO")
    assert re.search(r"^BAD  gpu-\d+ .* slow", done.stdout, re.MULTILINE)
    sentences(line_of(done.stdout, "128"))
    assert "plan: NCCL" in done.stdout
