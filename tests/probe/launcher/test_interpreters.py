"""Which interpreter a node's ranks get, asked of real interpreters, and why the others would not do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpuwatch.probe.launcher.inventory import interpreters
from gpuwatch.probe.protocol import Done, NodeInventory, Note, Ready, Step
from tests.agent.pythons import interpreter
from tests.parts import SEEN_BY_EVERY_AGENT, need
from tests.probe.launcher.driving import STUB, Driven, children, dial, fake_torch, one_rank
from tests.sentences import Sentences

pytestmark = SEEN_BY_EVERY_AGENT

BARE = {"PYTHONPATH": "", "VIRTUAL_ENV": "", "CONDA_PREFIX": "", "HOME": "/nonexistent"}


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python 3 without torch."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, symlinks=True)
    return folder / "bin" / "python3"


@pytest.fixture
def with_torch(tmp_path: Path) -> Path:
    """A venv whose torch must not be imported."""
    folder = tmp_path / "venv"
    venv.create(folder, symlinks=True)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    fake_torch(folder / "lib" / version / "site-packages")
    return folder


def inventory(
    environ: dict[str, str], *, python: str | None = None, activate: str | None = None
) -> NodeInventory:
    """What a launcher on a node with this environment finds."""
    with Driven(dial({**BARE, **environ}), python=python, activate=activate) as driven:
        return driven.inventory()


def test_a_python_of_the_hosts_file_without_torch_gives_way(
    bare: Path, with_torch: Path, sentences: Sentences
) -> None:
    found = inventory({"VIRTUAL_ENV": str(with_torch)}, python=str(bare))
    sentences(found.tried)
    assert (found.python, found.python_from, found.torch) == (
        str(with_torch / "bin" / "python3"),
        "VIRTUAL_ENV",
        "2.9.1+fake",
    )


def test_activation_is_shell_and_may_print_read_and_set_what_it_wants(
    tmp_path: Path, with_torch: Path
) -> None:
    need("bash")
    script = tmp_path / "activate.sh"
    script.write_text(
        'echo loading modules\ncat\nexport CUDA_CACHE_DISABLE=0 GREETING="it\'s on"\n'
        f"set -- --not --our --words\n. {with_torch}/bin/activate\n"
    )
    with Driven(dial(BARE), python=None, activate=f"source {script} # with a comment") as driven:
        found = driven.inventory()
        assert (found.python_from, found.torch, found.tried) == ("activate", "2.9.1+fake", [])
        assert found.python == str(with_torch / "bin" / "python3")
        driven.send(one_rank())
        driven.until(Ready)
        _, environ, python, _ = json.loads(driven.until(Note).text)
        assert (environ["GREETING"], environ["CUDA_CACHE_DISABLE"]) == ("it's on", "1")
        assert python == found.python
        driven.send(Step(id=3, what="collective"))
        assert driven.until(Done).step == 3


def test_activation_that_fails_is_reported_and_nothing_else_is_taken(
    with_torch: Path,
) -> None:
    need("bash")
    found = inventory({"VIRTUAL_ENV": str(with_torch)}, activate="source /nowhere/activate")
    assert found.python is None
    (reason,) = found.tried
    assert reason.startswith("python3 (activate): exit code 1: ")
    assert "/nowhere/activate" in reason


def test_activation_and_the_name_of_the_interpreter_that_it_brings(with_torch: Path) -> None:
    need("bash")
    found = inventory({}, activate=f"PATH={with_torch}/bin:$PATH", python="python")
    assert found.python == str(with_torch / "bin" / "python")


def test_an_old_python_runs_the_launcher_but_not_the_ranks(with_torch: Path, sentences: Sentences) -> None:
    old = interpreter("3.6")
    found = inventory({"VIRTUAL_ENV": str(with_torch)}, python=old)
    (reason,) = found.tried
    sentences(reason.replace(str(old), "python3.6"))
    assert found.torch == "2.9.1+fake"


def test_a_folder_that_is_only_called_torch_is_none(bare: Path, tmp_path: Path, sentences: Sentences) -> None:
    (tmp_path / "torch").mkdir()
    found = inventory({"PYTHONPATH": str(tmp_path)}, python=str(bare))
    sentences(found.tried[0])


def test_a_shell_line_that_hangs_is_left_after_its_time_with_all_that_it_started(
    sentences: Sentences,
) -> None:
    source = Path(interpreters.__file__).read_text()
    quick = {**STUB, interpreters.__name__: source.replace("ASK_S = 10.0", "ASK_S = 1.0")}
    with Driven(dial(BARE), python=None, activate="sleep 1000; true", modules=quick) as driven:
        found = driven.inventory()
        assert found.python is None
        sentences(found.tried)
        assert children(found.pid) == []


@contextmanager
def training(with_torch: Path, folder: Path, **environ: str) -> Iterator[int]:
    """A process that looks like a rank: it runs train.py in the venv, and knows its place."""
    (folder / "train.py").write_text("print('up', flush=True)\nimport sys\nsys.stdin.read()\n")
    process = subprocess.Popen(
        ["python", "-u", "train.py"],
        executable=with_torch / "bin" / "python",
        cwd=folder,
        env={"PATH": f"{with_torch}/bin", "RANK": "0", "WORLD_SIZE": "8", **environ},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        assert process.stdout.readline() == b"up\n"
        yield process.pid
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """A /proc in which only what is linked there can be seen."""
    folder = tmp_path / "proc"
    folder.mkdir()
    return folder


def test_the_interpreter_of_a_training_process_comes_with_its_environment(
    bare: Path, with_torch: Path, tmp_path: Path, proc: Path
) -> None:
    fabric = {"NCCL_IB_HCA": "mlx5_0", "SECRET": "s", "PYTHONPATH": "src:/abs", "NCCL_TOPO_DUMP_FILE": "/t"}
    with training(with_torch, tmp_path, **fabric) as pid:
        (proc / str(pid)).symlink_to(f"/proc/{pid}")
        with Driven(dial({**BARE, "NCCL_IB_HCA": "other"}), python=str(bare), proc=str(proc)) as driven:
            found = driven.inventory()
            assert found.python_from == f"process {pid} (train.py)"
            assert found.python == str(with_torch / "bin" / "python")
            driven.send(one_rank())
            driven.until(Ready)
            _, environ, python, path = json.loads(driven.until(Note).text)
    assert python == found.python
    assert environ["NCCL_IB_HCA"] == "mlx5_0"
    assert not {"SECRET", "RANK", "NCCL_TOPO_DUMP_FILE"} & set(environ)
    assert str(tmp_path / "src") in path and "/abs" in path


def test_the_interpreter_of_another_users_process_is_not_taken(
    bare: Path, with_torch: Path, tmp_path: Path, proc: Path, sentences: Sentences
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can show a folder as somebody else's")
    with training(with_torch, tmp_path) as pid:
        (proc / str(pid)).mkdir()
        for name in ("stat", "cmdline", "environ", "exe", "status"):
            (proc / str(pid) / name).symlink_to(f"/proc/{pid}/{name}")
        os.chown(proc / str(pid), 65534, -1)
        with Driven(
            dial({**BARE, "VIRTUAL_ENV": str(with_torch)}), python=str(bare), proc=str(proc)
        ) as driven:
            found = driven.inventory()
    sentences(found.tried[0].replace(str(pid), "4711"))
    assert found.python_from == "VIRTUAL_ENV"
