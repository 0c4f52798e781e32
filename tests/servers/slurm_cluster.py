"""A real Slurm on this machine: a controller, nodes with devices that stand for GPUs, and munge."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.parts import need

START_S = 300.0
"""A machine on which ten other processes compute needs a minute for what takes a second alone."""
GPUS_PER_NODE = 8


@dataclass(frozen=True)
class SlurmCluster:
    """A running cluster; `env` is what its commands need."""

    folder: Path
    env: dict[str, str]

    def run(self, *argv: str) -> str:
        """The output of a Slurm command."""
        done = subprocess.run(
            argv, cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=START_S, check=True
        )
        return done.stdout

    def submit(self, script: str, *options: str) -> str:
        """The id of a job that `sbatch` has taken."""
        path = self.folder / "job.sh"
        path.write_text("#!/bin/sh\n" + script)
        return self.run("sbatch", "--parsable", *options, str(path)).strip()

    def wait_for(self, job: str, state: str) -> None:
        """Return when a job is in a state."""
        deadline = time.monotonic() + START_S
        shown = ""
        while time.monotonic() < deadline:
            shown = self.run("scontrol", "show", "job", job)
            if f"JobState={state}" in shown:
                return
            time.sleep(0.2)
        raise AssertionError(f"job {job} is not {state}: {shown}")


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


@contextmanager
def slurm_cluster(folder: Path, nodes: int = 2) -> Iterator[SlurmCluster]:
    """Start one under `folder`; needs root, for the device files and munge's user."""
    munged, controller, daemon = need("munged"), need("slurmctld"), need("slurmd")
    need("sbatch")
    controller_port, *node_ports = free_ports(nodes + 1)
    started: list[subprocess.Popen[bytes]] = []
    auth = munge_folder(folder)
    for index in range(GPUS_PER_NODE):
        os.mknod(folder / f"nvidia{index}", 0o666 | 0o020000, os.makedev(1, 3))
    names = [f"node{number:03}" for number in range(1, nodes + 1)]
    write_settings(folder, auth, controller_port, dict(zip(names, node_ports, strict=True)))
    cluster = SlurmCluster(folder, {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")})
    try:
        started.append(start_munge(munged, auth))
        for name in names:
            (folder / f"spool-{name}").mkdir()
        for argv in ([controller, "-D"], *([daemon, "-D", "-N", name] for name in names)):
            log = (folder / f"{Path(argv[0]).name}-{argv[-1]}.out").open("wb")
            started.append(subprocess.Popen(argv, env=cluster.env, stdout=log, stderr=log))
        until_idle(cluster, len(names))
        yield cluster
    finally:
        for process in reversed(started):
            end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """TERM, and KILL after 10 s."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(10)
    if process.poll() is None:
        process.kill()
        process.wait()


def write_settings(folder: Path, auth: Path, controller_port: int, ports: Mapping[str, int]) -> None:
    """Write slurm.conf and gres.conf for these nodes (name -> port)."""
    (folder / "state").mkdir()
    host = socket.gethostname()
    lines = [
        "ClusterName=drill",
        f"SlurmctldHost={host}(127.0.0.1)",
        "SlurmUser=root",
        "SlurmdUser=root",
        f"SlurmctldPort={controller_port}",
        f"AuthInfo=socket={auth}/socket",
        "CredType=cred/munge",
        f"StateSaveLocation={folder}/state",
        f"SlurmdSpoolDir={folder}/spool-%n",
        f"SlurmctldPidFile={folder}/ctld.pid",
        f"SlurmdPidFile={folder}/slurmd-%n.pid",
        f"SlurmctldLogFile={folder}/ctld.log",
        f"SlurmdLogFile={folder}/slurmd-%n.log",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "JobAcctGatherType=jobacct_gather/none",
        "AccountingStorageType=accounting_storage/none",
        "MpiDefault=none",
        "SelectType=select/cons_tres",
        "GresTypes=gpu",
        "SlurmdParameters=config_overrides",
        "ReturnToService=2",
        "MessageTimeout=100",
        "BatchStartTimeout=300",
        "SlurmdTimeout=600",
        "TCPTimeout=60",
    ]
    lines += [
        f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=8 RealMemory=4000 "
        f"Gres=gpu:h100:{GPUS_PER_NODE}"
        for name, port in ports.items()
    ]
    lines += [f"PartitionName=train Nodes={','.join(ports)} Default=YES State=UP"]
    (folder / "slurm.conf").write_text("\n".join(lines) + "\n")
    (folder / "gres.conf").write_text(f"Name=gpu Type=h100 File={folder}/nvidia[0-{GPUS_PER_NODE - 1}]\n")


def munge_folder(folder: Path) -> Path:
    """A folder of munge's user with a key; every folder above it must not be writable for others."""
    auth = folder / "munge"
    auth.mkdir()
    (auth / "key").write_bytes(os.urandom(1024))
    for path in (auth, auth / "key"):
        shutil.chown(path, "munge", "munge")
    (auth / "key").chmod(0o400)
    auth.chmod(0o711)
    return auth


def start_munge(munged: str, auth: Path) -> subprocess.Popen[bytes]:
    """Munge's daemon as its own user, listening."""
    files = [f"--{name}={auth}/{name}" for name in ("socket", "pid-file", "log-file", "seed-file")]
    argv = [munged, "--foreground", "--force", f"--key-file={auth}/key", *files]
    process = subprocess.Popen(argv, user="munge", group="munge", stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + START_S
    while not (auth / "socket").exists() and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.05)
    return process


def until_idle(cluster: SlurmCluster, nodes: int) -> None:
    """Return when all nodes can take a job."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        with suppress(subprocess.CalledProcessError):
            if cluster.run("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").count("\n") == nodes:
                return
        time.sleep(0.2)
    raise AssertionError((cluster.folder / "ctld.log").read_text()[-3000:])
