"""Classifies programs: which ones a rule is about, and which belong to the system."""

import re

KERNEL = "kernel"
"""Program name for the kernel's own lines."""
JOB = "job"
"""In a rule: output of a job's processes, that is lines of no program or of an unknown one."""
ANY = "any"
DEFAULT = (JOB, KERNEL)
"""For rules that name none."""

_NAMES = """
    acpid agetty anacron apache2 atd audit auditd automount avahi-daemon bluetoothd chronyd containerd crio
    cron crond dhclient dhcpd dnsmasq dockerd earlyoom etcd filebeat firewalld fluent-bit fluentd fwupd
    gitlab-runner
    gmond haproxy httpd ibacm ipmievd irqbalance iscsid kauditd keepalived kubelet lightdm lldpd login
    logrotate mariadbd mcelog mdadm modemmanager multipathd munged mysqld nagios named networkmanager nginx
    nmbd node_exporter nrpe nscd nslcd ntpd ntpdate nv-fabricmanager nv- hostengine nvidia-fabricmanager
    nvidia-persistenced oomd opensm packagekitd pbs_mom polkitd postgres prometheus rasdaemon redis-server
    rpcbind rsyslogd run-parts sendmail slurmctld slurmd slurmdbd slurmstepd smartd smbd snapd snmpd squid
    sshd su sudo telegraf thermald tuned unbound vsftpd winbindd wpa_supplicant
"""
_EXACT = frozenset(_NAMES.split())
_BEGINS = (
    "systemd", "(systemd", "pam_", "sshd-", "dbus", "postfix", "exim", "dovecot", "syslog-ng", "sssd", "rpc.",
    "kube-", "containerd-shim", "prometheus-", "jenkins", "buildkite",
    "calico", "puppet", "chef", "ansible", "salt-", "zabbix", "grafana", "udev",
    "udisks", "gdm", "gnome-", "gsd-", "gvfs", "goa-", "tracker-", "evolution", "pulseaudio", "pipewire",
    "wireplumber", "xdg-", "plasma", "kwin", "nautilus",
    "cups", "fail2ban", "kdump", "abrt", "dcgm", "proftpd",
)  # fmt: skip
_HEAD = re.compile(r"(?!slurm)([A-Za-z][\w.-]{1,40})(?:\[\d{1,10}\])?: ")


def is_system(program: str) -> bool:
    """Return True if a program (in lower case) belongs to the system and runs no part of a job."""
    return program in _EXACT or program.startswith(_BEGINS) or program == KERNEL


def head_program(message: str) -> "str | None":
    """Return the system program at the start of a line without a time (`sshd[1761]: `), or None.

    In lower case. None also for `kernel: ` and for Slurm's programs: a job's own output has lines that begin
    with `slurmstepd: error: `. For the same reason the name does not identify the file's writer.
    """
    found = _HEAD.match(message)
    name = found.group(1).lower() if found else ""
    return name if name and name != KERNEL and is_system(name) else None


def program_of(name: str) -> str:
    """Return the bare name of a program as written in system logs, in lower case.

    `sshd` for `/usr/sbin/sshd`, `postfix` for `postfix/smtp`, `crond` for `crond(pam_unix)`.
    """
    bare = name.strip("()").partition("(")[0]
    parts = [part for part in bare.split("/") if part] or [name]
    return (parts[-1] if bare.startswith("/") else parts[0]).lower()


def is_about(programs: "tuple[str, ...]", program: "str | None") -> bool:
    """Return True if a rule with these `programs` applies to lines of `program`.

    `program` None: the line names none, so every rule applies.
    """
    if program is None or ANY in programs or program in programs:
        return True
    return JOB in programs and not is_system(program)
