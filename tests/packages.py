"""The Debian package of each system part that some tests need; as a program it prints those missing here.

`.ci/run` starts it with the system's own Python before anything is installed: standard library only.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

PACKAGE_OF = {
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "ssh-add": "openssh-client",
    "ssh-agent": "openssh-client",
    "ssh-keygen": "openssh-client",
    "useradd": "passwd",
    "userdel": "passwd",
    "tmux": "tmux",
    "ip": "iproute2",
    "tc": "iproute2",
    "iptables": "iptables",
    "gcc": "gcc",
    "bash": "bash",
    "dash": "dash",
    "fish": "fish",
    "csh": "tcsh",
    "tcsh": "tcsh",
    "zsh": "zsh",
    "getconf": "libc-bin",
    "make": "make",
    "promtool": "prometheus",
    "prometheus": "prometheus",
    "amtool": "prometheus-alertmanager",
    "prometheus-alertmanager": "prometheus-alertmanager",
    "unshare": "util-linux",
}
LONG_PACKAGE_OF = {
    "munged": "munge",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sbatch": "slurm-client",
    "chromium": "chromium",
    "journalctl": "systemd",
    "kubectl": "kubernetes-client",
    "etcd": "etcd-server",
    "kube-apiserver": "kubernetes, a source package to be built",
}
"""Parts that only tests of `make test-long` need."""
C_HEADERS = "libc6-dev"
_SBIN = "/usr/sbin:/sbin:/usr/local/sbin"


def path_of(program: str) -> str | None:
    """Where a program is: on PATH or in the sbin folders, which a user's PATH may lack."""
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:{_SBIN}")


def has_c_headers() -> bool:
    """Whether a C program can be compiled: gcc alone has no headers of the C library."""
    return Path("/usr/include/stdlib.h").exists()


def missing_packages() -> list[str]:
    """What a package manager would have to install for all tests, sorted."""
    found = {package for program, package in PACKAGE_OF.items() if path_of(program) is None}
    return sorted(found | (set() if has_c_headers() else {C_HEADERS}))


if __name__ == "__main__":
    print(*missing_packages())
