"""What another user of the person's machine can read of gpuwatch's files, or have gpuwatch write."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuwatch.cli.probe.outputs import put
from gpuwatch.cli.shared.output import OutputError
from gpuwatch.diagnose.model.alert import Silence
from gpuwatch.session.settings.silence_file import SilenceFile
from tests.servers.sshd import LoginUser, login_user

OOM = "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
LOOK = "find {0} -type f -readable; find {0} -writable -not -type l; ls -d {0}/gpuwatch/* {0}/*/gpuwatch/*"


@pytest.fixture(scope="module")
def stranger() -> Iterator[LoginUser]:
    with login_user("/bin/sh") as user:
        yield user


@pytest.fixture
def home() -> Iterator[Path]:
    """A home whose folder everybody may pass, as on many login nodes."""
    folder = Path(tempfile.mkdtemp(prefix="gpuwatch-person-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def as_user(user: LoginUser, command: str) -> str:
    """The output of a shell command of that account."""
    argv = ["/bin/sh", "-c", command]
    who = {"user": user.name, "group": user.name, "extra_groups": []}
    done = subprocess.run(argv, check=False, capture_output=True, cwd="/", **who)  # type: ignore[call-overload]
    return str(done.stdout, "utf-8")


def gpuwatch(home: Path, *argv: str) -> int:
    """Run a command with a home of its own and no umask at all; its exit code."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("XDG_")}
    env |= {"HOME": str(home)}
    program = [sys.executable, "-c", "from gpuwatch.cli.main import main; main()", *argv]
    return subprocess.run(program, check=False, env=env, umask=0, capture_output=True, cwd=home).returncode


def test_another_user_reads_and_writes_none_of_the_persons_files(home: Path, stranger: LoginUser) -> None:
    (home / "rank0.log").write_text(OOM)
    (home / "rank0.log").chmod(0o600)
    assert gpuwatch(home, "scan", "rank0.log") == 1
    assert gpuwatch(home, "once", "--local", "--wait", "2", "--log", str(home / "rank0.log")) == 1
    before = os.umask(0)
    try:
        SilenceFile(home / ".config/gpuwatch/silences.json").write([Silence("oom.cuda")], 0.0)
    finally:
        os.umask(before)
    kept = [path for path in home.rglob("gpuwatch/*") if path.is_file()]
    assert kept, "nothing was kept, so nothing was tested"
    assert as_user(stranger, LOOK.format(home)) == ""


@pytest.mark.long
def test_rules_that_another_user_left_in_the_cache_are_not_taken(home: Path, stranger: LoginUser) -> None:
    (home / "rank0.log").write_text(OOM)
    assert gpuwatch(home, "scan", "rank0.log") == 1
    cached = [path for path in (home / ".cache/gpuwatch").rglob("*") if path.is_file()]
    for path in cached:
        path.write_bytes(b"[]")
        shutil.chown(path, stranger.name)
        path.chmod(0o666)
    assert cached
    assert gpuwatch(home, "scan", "rank0.log") == 1


def test_results_are_not_written_through_another_users_link(home: Path, stranger: LoginUser) -> None:
    """In a folder that all may write: the kernel refuses it as well where fs.protected_symlinks is set."""
    target, shared = home / "authorized_keys", home / "shared"
    target.write_text("mine")
    shared.mkdir()
    shared.chmod(0o777)
    as_user(stranger, f"ln -s {target} {shared}/probe.json")
    assert (shared / "probe.json").is_symlink()
    with pytest.raises(OutputError):
        put(str(shared / "probe.json"), "theirs")
    assert target.read_text() == "mine"
    (home / "own.json").symlink_to(target)
    put(str(home / "own.json"), "results")
    assert target.read_text() == "results"
