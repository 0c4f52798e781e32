"""Shell completion, as the shells ask for it: by a variable in the environment of the command."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from gpuwatch.cli.config.completion import SHELLS, VARIABLE
from gpuwatch.cli.main import COMMANDS
from tests.cli.running import COMMAND, environment, gpuwatch
from tests.parts import need


def offered(line: str, cwd: Path, **variables: str) -> set[str]:
    """What is offered for the last word of a line, as bash asks."""
    words = line.split(" ")
    place = {VARIABLE: "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    asking = environment(**place, **variables)
    done = subprocess.run(
        COMMAND, cwd=cwd, env=asking, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return set(done.stdout.split("\n")) - {""}


def test_commands_options_files_and_nodes_are_completed(tmp_path: Path) -> None:
    (tmp_path / "hosts.yaml").write_text("hosts: ['gpu-[01-03]', 'login']\n")
    assert {f"plain,{name}" for name in COMMANDS} | {"file,"} == offered("gpuwatch ", tmp_path)
    assert offered("gpuwatch on", tmp_path) == {"plain,once", "file,on"}
    assert {"plain,--local", "plain,--theme"} <= offered("gpuwatch --", tmp_path)
    assert {"plain,--json"} <= offered("gpuwatch once --j", tmp_path)
    assert offered("gpuwatch once hosts", tmp_path) == {"file,hosts"}
    assert offered("gpuwatch stacks hosts.yaml --node gpu", tmp_path) == {
        "plain,gpu-01", "plain,gpu-02", "plain,gpu-03",
    }  # fmt: skip
    assert offered("gpuwatch stacks nosuch.yaml --node gpu", tmp_path) == set()


def test_themes_topics_and_job_ids_are_completed(tmp_path: Path) -> None:
    squeue = tmp_path / "squeue"
    row = "61|RUNNING|ann|2|5:00|0:10|gres:gpu:8|node001|run seven"
    separated = f'rest=${{4#%i}}; echo "{row}" | sed "s/|/${{rest%%%*}}/g"'
    squeue.write_text(f"#!/bin/sh\n{separated}\n")
    squeue.chmod(0o755)
    assert offered("gpuwatch --theme gpuw", tmp_path) == {"plain,gpuwatch", "plain,gpuwatch-light"}
    assert "plain,hang" in offered("gpuwatch explain ha", tmp_path)
    assert "plain,gpu.xid.fell_off" in offered("gpuwatch explain xi", tmp_path)
    for line in ("gpuwatch --slurm ", "gpuwatch once --slurm 6"):
        assert offered(line, tmp_path, PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}") == {"plain,61"}


@pytest.mark.parametrize("shell", SHELLS)
def test_every_shell_has_a_script_that_it_can_read(shell: str, tmp_path: Path) -> None:
    done = gpuwatch("completion", shell)
    assert done.returncode == 0
    assert VARIABLE in done.stdout
    program = shutil.which(shell)
    if program is not None:
        script = tmp_path / "script"
        script.write_text(done.stdout)
        read = subprocess.run([program, "-n", str(script)], capture_output=True, text=True, check=False)
        assert (read.returncode, read.stderr) == (0, "")


def test_a_shell_that_is_not_known_is_refused() -> None:
    assert gpuwatch("completion", "tcsh").returncode == 2


def test_bash_takes_the_commands_beside_the_files(tmp_path: Path) -> None:
    need("bash")
    program = tmp_path / "gpuwatch"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    program.chmod(0o755)
    asked = f"""
        {gpuwatch("completion", "bash").stdout}
        COMP_WORDS=(gpuwatch on) COMP_CWORD=1
        _gpuwatch_completion {program} 2> /dev/null
        echo "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "-c", asked], env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.split() == ["once"]
