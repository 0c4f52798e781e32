"""Only regular files are opened, and only where the owner of a link may read what it leads to."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import rmtree

import pytest

from gpuwatch.agent.base import regular_file
from gpuwatch.agent.base.regular_file import open_regular
from gpuwatch.agent.logs.discovery.tail import LogTail
from gpuwatch.agent.logs.files.backlog import Backlog
from gpuwatch.agent.logs.files.follower import Follower
from gpuwatch.agent.ranks.ray_workers import RayWorkers
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.files.opening import open_file
from gpuwatch.runs.files.packing import Contents
from gpuwatch.runs.flight.dump_files import gather_dumps
from tests.cli.running import gpuwatch

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can play several users")
USER, OTHER = 12001, 12002
SPECIAL = ("fifo", "device", "folder", "socket", "link to a fifo", "link to a device")


def special(path: Path, kind: str) -> Path:
    target = path.with_name("target")
    if "fifo" in kind:
        os.mkfifo(target if "link" in kind else path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        os.mknod(path, 0o600 | 0o140000)
    elif "link" in kind:
        target.symlink_to("/dev/tty")
    else:
        path.symlink_to("/dev/zero")
    if "link" in kind:
        path.symlink_to(target)
    return path


@pytest.fixture(params=["with O_PATH", "without O_PATH", "without /proc"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "without O_PATH":
        monkeypatch.setattr(regular_file, "PATH_ONLY", None)
    elif request.param == "without /proc":
        monkeypatch.setattr(regular_file, "FD_PATH", "/nowhere/{}")


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("kind", SPECIAL)
def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(OSError):
        open_regular(str(special(tmp_path / "a.log", kind)))
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.usefixtures("way")
def test_a_regular_file_is_read_through_links_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "run.log").write_text("step 1")
    (tmp_path / "folder").symlink_to("deep")
    (tmp_path / "latest.log").symlink_to("folder/../folder/run.log")
    for name in ("deep/run.log", "folder/run.log", "latest.log"):
        number = open_regular(str(tmp_path / name))
        assert os.read(number, 100) == b"step 1"
        os.close(number)
    with pytest.raises(OSError) as refused:
        open_regular(str(tmp_path / "latest.log"), no_link=True)
    assert refused.value.errno in (errno.ELOOP, 0)


def test_every_reader_comes_back_from_a_fifo_that_was_swapped_in(tmp_path: Path) -> None:
    """As if the file had been changed between the check of its kind and its opening."""
    path = tmp_path / "rank_0.log"
    os.mkfifo(path)
    for read in (
        lambda: Backlog(str(path), 10),
        lambda: LogTail(str(path)),
        lambda: Follower(str(path), lambda: 0.0).open(),
        lambda: open_file(path),
        lambda: list(Contents(path, None).pieces()),
    ):
        with pytest.raises(OSError, match="not a regular file"):
            read()
    path = path.with_name(f"worker-{'0' * 56}-01000000-7.out")
    os.mkfifo(path)
    assert RayWorkers().facts(7, 1, [str(path)]) == {}


@pytest.mark.long
def test_a_scan_survives_files_that_become_fifos_while_it_looks(tmp_path: Path) -> None:
    for rank in range(40):
        (tmp_path / f"rank_{rank}.log").write_text("step 1\n" * 20)
    script = (
        "import os, sys, itertools\n"
        "names = sorted(os.listdir(sys.argv[1]))\n"
        "os.chdir(sys.argv[1])\n"
        "for number in itertools.count():\n"
        "    name = names[number % len(names)]\n"
        "    os.mkfifo('.x'); os.rename(name, '.' + name); os.rename('.x', name)\n"
        "    os.remove(name); os.rename('.' + name, name)\n"
    )
    swapper = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)])
    try:
        for _ in range(2):
            gather([tmp_path])
            gather_dumps([tmp_path])
            assert gpuwatch("scan", "--json", str(tmp_path)).returncode in (0, 1)
            assert swapper.poll() is None
    finally:
        swapper.kill()
        swapper.wait()


def owned(path: Path, user: int, mode: int | None = None) -> Path:
    os.chown(path, user, user, follow_symlinks=False)
    if mode is not None:
        path.chmod(mode)
    return path


@ROOT
@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("through", ["file", "folder"])
@pytest.mark.parametrize(
    ("owner", "mode", "folder_mode", "read"),
    [
        (0, 0o600, 0o755, False),
        (0, 0o640, 0o755, False),
        (OTHER, 0o600, 0o755, False),
        (0, 0o644, 0o700, False),
        (0, 0o644, 0o755, True),
        (USER, 0o600, 0o755, True),
        (USER, 0o600, 0o700, True),
    ],
)
def test_a_users_link_leads_only_to_what_the_user_may_read(
    tmp_path: Path, through: str, owner: int, mode: int, folder_mode: int, *, read: bool
) -> None:
    for each in (tmp_path, *tmp_path.parents):
        if each != Path("/tmp") and str(each).startswith("/tmp/"):
            each.chmod(0o755)
    secret = tmp_path / "private"
    secret.mkdir()
    owned(secret, owner, folder_mode)
    (secret / "x.log").write_text("password")
    owned(secret / "x.log", owner, mode)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    owned(scratch, USER)
    link = scratch / ("x.log" if through == "file" else "logs")
    link.symlink_to(secret / "x.log" if through == "file" else secret)
    owned(link, USER)
    name = link if through == "file" else link / "x.log"
    if read:
        os.close(open_regular(str(name)))
        is_entered = through == "file" or owner == USER  # a link to a folder may lead to all files
        assert [log.path.name for log in gather([scratch]).files] == ["x.log"] * is_entered
        return
    with pytest.raises(PermissionError):
        open_regular(str(name))
    gathered = gather([scratch])
    assert gathered.files == []
    assert [each.unreadable for each in gathered.skipped] == [True]
    owned(link, 0)
    os.close(open_regular(str(name)))


IN_A_CONTAINER = """
mount -t tmpfs none /mnt
mkdir /mnt/m
echo text | tee /mnt/m/own.log > /mnt/shadow
ln -s own.log /mnt/m/beside.log
ln -s /mnt/m/own.log /mnt/m/from_root.log
ln -s {folder}/secret /mnt/m/link.log
ln -s ../../../../../../..{folder}/secret /mnt/m/above.log
touch /mnt/m/mounted.log
mount --bind {folder}/secret /mnt/m/mounted.log
echo ready
exec sleep 3600
"""


@ROOT
def test_a_user_in_a_container_of_his_own_leads_only_to_what_he_may_read() -> None:
    """His links lead where they lead him, and what he mounts there keeps its owner."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        folder.chmod(0o755)
        (folder / "secret").write_text("password")
        owned(folder / "secret", 0, 0o600)
        script = IN_A_CONTAINER.format(folder=folder)
        argv = [
            "setpriv",
            f"--reuid={USER}",
            f"--regid={USER}",
            "--clear-groups",
            "unshare",
            "-Urm",
            "sh",
            "-c",
        ]
        with subprocess.Popen([*argv, script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as user:
            assert user.stdout is not None
            if user.stdout.readline() != b"ready\n":
                user.kill()
                pytest.skip("users get no namespaces of their own here")
            try:
                place = f"/proc/{user.pid}/root/mnt/m"
                for name in ("own", "beside", "from_root"):
                    os.close(open_regular(f"{place}/{name}.log"))
                for name in ("link", "above", "mounted"):
                    with pytest.raises(PermissionError):
                        open_regular(f"{place}/{name}.log")
                with pytest.raises(FileNotFoundError):
                    open_regular(f"{place}/none.log")
            finally:
                user.kill()
    finally:
        rmtree(folder)
