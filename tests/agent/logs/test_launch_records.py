"""Folders of ended launches from the process accounting and the journal: the right ones, and no others."""

from __future__ import annotations

import json
import os
import pwd
import struct
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gpuwatch.agent.logs.discovery.launch_records import unit_files
from gpuwatch.agent.logs.discovery.launch_records.accounting import AT_ONCE, ended_launchers
from gpuwatch.agent.logs.discovery.launch_records.journal_entries import STARTED, Launches
from gpuwatch.agent.logs.discovery.launch_records.recorded_folders import WINDOW_S, RecordedFolders
from gpuwatch.agent.logs.discovery.start_folders import MAX_RECORDED, StartFolders

NOW = 1_795_850_000.0


def record(uid: int, name: str, ended: float, seconds: float = 1.0, version: int = 3) -> bytes:
    """An entry as the kernel writes it (include/uapi/linux/acct.h)."""
    head = struct.pack("=BBHIIIIII", 0, version, 0, 0, uid, uid, 77, 1, int(ended - seconds))
    return head + struct.pack("=f8H16s", seconds * 100, *[0] * 8, name.encode())


def accounting(path: Path, *records: bytes) -> dict[int, float]:
    path.write_bytes(b"".join(records))
    return ([{}, *ended_launchers(str(path), NOW - WINDOW_S)])[-1]


def test_the_accounting_tells_whose_launcher_ended_last(tmp_path: Path) -> None:
    found = accounting(
        tmp_path / "pacct",
        record(1001, "torchrun", NOW - WINDOW_S - 60),
        record(1002, "torchrun", NOW - 7200),
        *[record(1005, "sh", NOW - 7000)] * (AT_ONCE + 10),
        record(1002, "mpirun", NOW - 3600),
        record(1003, "python3", NOW - 60, seconds=900),
        record(1004, "python3", NOW - 60, seconds=2),
        record(1006, "torchrun", NOW - 60, version=2),
    )
    assert {uid: round(NOW - ended, -1) for uid, ended in found.items()} == {1002: 3600, 1003: 60}


def test_a_damaged_or_other_file_is_no_accounting(tmp_path: Path) -> None:
    whole = record(1002, "torchrun", NOW - 7200)
    assert accounting(tmp_path / "pacct", whole, whole[:31]).keys() == {1002}
    assert accounting(tmp_path / "pacct", b"\xff" * 6400) == {}
    (tmp_path / "link").symlink_to(tmp_path / "pacct")
    with pytest.raises(OSError, match="link"):
        list(ended_launchers(str(tmp_path / "link"), 0.0))


SUDO = "alice : TTY=pts/0 ; PWD={} ; USER=root ; COMMAND={}"
ENTRIES: dict[str, tuple[dict[str, str], list[str], list[int]]] = {
    "sudo": ({"_COMM": "sudo", "MESSAGE": SUDO.format("/home/alice/run7", "/usr/bin/torchrun train.py")},
             ["/home/alice/run7"], []),
    "sudo, other": ({"_COMM": "sudo", "MESSAGE": SUDO.format("/home/alice", "/usr/bin/apt update")}, [], []),
    "another program's words": (
        {"_COMM": "logger", "SYSLOG_IDENTIFIER": "sudo", "MESSAGE": SUDO.format("/bob", "torchrun x")},
        [], []),
    "cron": ({"_COMM": "cron", "MESSAGE": "(alice) CMD (cd /data/run8 && ./nightly.sh > out.log 2>&1)"},
             ["/data/run8"], []),
    "slurmd": (
        {"_COMM": "slurmd", "_UID": "0",
         "MESSAGE": "launch task StepId=65.0 request from UID:1007 GID:100 HOST:n"}, [], [1007]),
    "a user's slurmd": ({"_COMM": "slurmd", "_UID": "1007", "MESSAGE": "request from UID:1008"}, [], []),
    "slurmd, root": ({"_COMM": "slurmd", "_UID": "0", "MESSAGE": "request from UID:0 UID:1008"}, [], []),
    "systemd-run": (
        {"_COMM": "systemd", "MESSAGE_ID": STARTED, "_UID": "0", "UNIT": "run-u5.service",
         "MESSAGE": "Started run-u5.service - /opt/v/bin/torchrun --log-dir=/data/logs /data/run9/train.py."},
        ["/data/logs", "/data/run9"], []),
    "systemd-run, no folder": (
        {"_COMM": "systemd", "MESSAGE_ID": STARTED, "_UID": "1008", "USER_UNIT": "run-r1.scope",
         "MESSAGE": "Started run-r1.scope - /usr/bin/torchrun train.py."}, [], [1008]),
    "another unit": (
        {"_COMM": "systemd", "MESSAGE_ID": STARTED, "UNIT": "cron.service",
         "MESSAGE": "Started cron.service - Regular background program processing daemon."}, [], []),
    "a service": (
        {"_COMM": "python3", "_SYSTEMD_UNIT": "train@7.service", "_UID": "0", "MESSAGE": "step 3",
         "_CMDLINE": "/usr/bin/python3 train.py"}, ["/data/service"], []),
    "a tool": (
        {"_COMM": "python3", "_SYSTEMD_UNIT": "tuned.service",
         "_CMDLINE": "/usr/bin/python3 -Es /usr/sbin/tuned"},
        [], []),
}  # fmt: skip


@pytest.mark.parametrize("kind", ENTRIES)
def test_an_entry_of_the_journal_gives_the_folder_of_a_training(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unit_files, "OF_SYSTEM", (str(tmp_path),))
    text = "[Service]\nWorkingDirectory=/data/service\nExecStart=/usr/bin/python3 train.py\n"
    (tmp_path / "train@.service").write_text(text)
    entry, folders, users = ENTRIES[kind]
    launches = Launches(
        lambda _uid: None, lambda path: Path(path).read_text() if Path(path).exists() else None
    )
    for line in (json.dumps(entry), json.dumps({**entry, "MESSAGE": [1, 2]}), "[" * 9999, "null", "{"):
        launches.add(line.encode())
    assert ([folder for folder, _ in launches.folders], launches.users) == (folders, users)


def test_a_pipe_in_place_of_a_user_s_unit_file_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, units = os.geteuid(), tmp_path / "home" / ".config" / "systemd" / "user"
    person = pwd.struct_passwd(("a", "x", own, own, "", str(tmp_path / "home"), "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", {own: person}.__getitem__)
    units.mkdir(parents=True)
    os.mkfifo(units / "x.service")
    (units / "y.service").write_text("[Service]\nWorkingDirectory=/data/y\nExecStart=/bin/torchrun y.py\n")
    (tmp_path / "journal" / "machine" / "file").mkdir(parents=True)
    entry = {"_COMM": "python3", "_UID": str(own), "_CMDLINE": "python3 train.py"}
    lines = [json.dumps({**entry, "_SYSTEMD_USER_UNIT": unit}) for unit in ("x.service", "y.service")]
    (tmp_path / "answer").write_text("\n".join([*lines, ""]))
    (tmp_path / "journalctl").write_text(f"#!/bin/sh\ncat {tmp_path}/answer\n")
    (tmp_path / "journalctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    records = RecordedFolders(
        str(tmp_path), lambda _path: None, lambda _path: False, (), (str(tmp_path / "journal"),)
    )
    for _ in records.steps():
        pass
    assert records.folders == [("/data/y", own), (str(tmp_path / "home"), own)]
    assert not records.cut


def test_a_user_s_home_and_working_folders_are_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, home = os.geteuid(), tmp_path / "home"
    person = pwd.struct_passwd(("a", "x", own, own, "", str(home), "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwuid", {own: person}.__getitem__)
    for pid, folder in (("7", str(tmp_path / "work")), ("8", "/usr/lib"), ("x", "/nowhere")):
        (tmp_path / "proc" / pid).mkdir(parents=True)
        (tmp_path / "proc" / pid / "cwd").symlink_to(folder)
    pacct = tmp_path / "pacct"
    pacct.write_bytes(record(own, "torchrun", time.time() - 60))
    blocked: Sequence[str]
    for blocked, expected in (((), [str(home), str(tmp_path / "work")]), ((str(pacct),), [])):
        records = RecordedFolders(
            str(tmp_path / "proc"), lambda _path: None, blocked.__contains__, (str(pacct), "/none"), ()
        )
        for _ in records.steps():
            pass
        assert records.folders == [(folder, own) for folder in expected]


@pytest.mark.parametrize(
    ("entry", "owner"),
    [
        ({"_COMM": "sudo", "_UID": "0", "MESSAGE": SUDO.format("/a", "torchrun x")}, 65534),
        ({"_COMM": "sudo", "_UID": "1009", "MESSAGE": SUDO.format("/a", "torchrun x")}, 1009),
        ({"_COMM": "sudo", "MESSAGE": SUDO.format("/a", "torchrun x")}, -1),
        ({"_COMM": "cron", "_UID": "0", "MESSAGE": "(alice) CMD (cd /a && torchrun x)"}, 65534),
        ({"_COMM": "crond", "_UID": "0",
          "MESSAGE": "(alice) CMD (cd /a && torchrun " + "x" * 9000 + "; (root) CMD (cd /b && torchrun))"},
         65534),
        ({"_COMM": "cron", "_UID": "1009", "MESSAGE": "(root) CMD (cd /a && torchrun x)"}, 1009),
        ({"_COMM": "python3", "_UID": "1009", "_SYSTEMD_UNIT": "a.service",
          "_CMDLINE": "torchrun /a/x.py"}, 1009),
        ({"_COMM": "systemd", "_UID": "1009", "MESSAGE_ID": STARTED, "UNIT": "a.service",
          "MESSAGE": "Started torchrun /a/x.py."}, 1009),
        ({"_COMM": "systemd", "_UID": "0", "MESSAGE_ID": STARTED, "UNIT": "a.service",
          "MESSAGE": "Started torchrun /a/x.py."}, 0),
    ],
)  # fmt: skip
def test_a_recorded_folder_stands_on_the_word_of_the_user_who_named_it(
    entry: dict[str, str], owner: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = pwd.struct_passwd(("alice", "x", 65534, 65534, "", "/", "/bin/sh"))
    monkeypatch.setattr(pwd, "getpwnam", {"alice": alice}.__getitem__)
    launches = Launches(lambda _uid: None, lambda _path: None)
    launches.add(json.dumps(entry).encode())
    assert list(launches.folders) == [("/a", owner)]


@pytest.mark.skipif(os.geteuid() != 0, reason="root gives folders to other users")
def test_no_user_leads_the_search_into_a_folder_that_he_may_not_list() -> None:
    with TemporaryDirectory(dir="/tmp") as made:  # pytest's own folders are private
        place = Path(made)
        place.chmod(0o755)
        private, own = place / "private", place / "own"
        for folder, uid in ((private, 0), (own, 65534)):
            (folder / "run").mkdir(parents=True)
            os.chown(folder, uid, uid)
            folder.chmod(0o700)
        (own / "link").symlink_to(private / "run")
        named = [str(private), str(private / "run"), str(own), str(own / "run"), str(own / "link")]

        def searched(uid: int) -> set[str]:
            starts = StartFolders(lambda _: None, lambda _: False)
            starts.take_recorded([(folder, uid) for folder in named])
            return {folder for folder, _ in starts.found}

        assert searched(65534) == {str(own), str(own / "run")}
        assert searched(-1) == set()
        assert searched(0) == {str(private), str(private / "run"), str(own), str(own / "run")}


def test_the_folders_of_one_user_hide_none_of_another(tmp_path: Path) -> None:
    """Also if he names folders that do not exist, or the other's folder himself."""
    own, folder = os.geteuid(), tmp_path / "run9"
    folder.mkdir()
    launches = Launches(lambda _uid: None, lambda _path: None)
    nowhere = " ".join(f"--o=/nope/{number}" for number in range(99))
    for uid, options in ((4242, f"--o={folder}"), (4242, nowhere), (own, f"--o={folder}")):
        command = f"python3 train.py {options}"
        launches.add(json.dumps({"_COMM": "python3", "_UID": str(uid), "_CMDLINE": command}).encode())
    starts = StartFolders(lambda _: None, lambda _: False)
    starts.take_recorded(launches.folders)
    assert ([folder for folder, _ in starts.found], starts.cut) == ([str(folder)], False)


def test_folders_beyond_the_limit_are_taken_in_turns_and_told(tmp_path: Path) -> None:
    for number in range(MAX_RECORDED + 1):
        (tmp_path / str(number)).mkdir()
    starts = StartFolders(lambda _: None, lambda _: False)
    starts.take_recorded([(str(tmp_path / str(n)), os.geteuid()) for n in range(MAX_RECORDED + 1)])
    assert (len(starts.found), starts.cut) == (MAX_RECORDED, True)


def test_a_user_with_many_entries_hides_none_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`journalctl` answers as the journal would: the newest entries, of one user if asked for him."""
    entry = {"_COMM": "python3", "_CMDLINE": "python3 train.py --out=/x{}", "_UID": "4242"}
    (tmp_path / "4242").write_text((json.dumps(entry) + "\n") * 500)
    (tmp_path / "1009").write_text(
        json.dumps({**entry, "_CMDLINE": "torchrun --out=/data x.py", "_UID": "1009"}) + "\n"
    )
    (tmp_path / "machine").mkdir()
    (tmp_path / "machine" / "file").touch()
    script = f"""#!/bin/sh
        cd {tmp_path}; n=$(echo "$*" | sed -n 's/.* -n \\([0-9]*\\) .*/\\1/p')
        case "$*" in *-F*) printf '4242\\n1009\\n';; *_COMM=sudo*) ;;
            *_UID=1009*) cat 1009;; *) head -n "$n" 4242;; esac"""
    (tmp_path / "journalctl").write_text(script)
    (tmp_path / "journalctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    records = RecordedFolders("/nowhere", lambda _path: None, lambda _path: False, (), (str(tmp_path),))
    for _ in records.steps():
        pass
    assert (("/data", 1009) in records.folders, records.cut) == (True, False)
