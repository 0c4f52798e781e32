"""Whose lines a rule is about: the program that a system log names."""

from __future__ import annotations

import pytest

from gpuwatch.agent.logs.lines.normalise import messages
from gpuwatch.rules.scoring.score import ALARMING, scan_excerpt
from tests.agent.logs.scan_lines import found, rule, ruleset
from tests.packs import built_in_rules

HEADS = ("Jun 15 12:00:31 gpu-003 {}: {}", "2025-06-15T12:00:31.123456+02:00 gpu-003 {}: {}")


def classes(line: str) -> set[str]:
    return {each["rule"] for each in scan_excerpt(built_in_rules(), [line]) if each["severity"] in ALARMING}


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("sshd[1761]", "error: Bind to port 22 on 0.0.0.0 failed: Address already in use."),
        ("sshd[1761]", "Failed password for root from 10.0.0.9 port 51122 ssh2: Permission denied"),
        ("sshd-session[88]", "fatal: Read from socket failed: Connection reset by peer [preauth]"),
        ("sudo[12]", "pam_unix(sudo:auth): conversation failed: Permission denied"),
        ("crond(pam_unix)[2915]", "session closed: Permission denied"),
        ("cron[91]", "(root) CMD (backup) failed: No space left on device"),
        ("systemd[1]", "backup.service: Main process exited, code=killed, status=9/KILL"),
        ("systemd-resolved[610]", "Failed to send hostname reply: Connection timed out"),
        ("dockerd[990]", "error: Connection refused while pulling an image: dial tcp: no route to host"),
        ("containerd[990]", "failed to connect to all addresses: Connection reset by peer"),
        ("kubelet[700]", "E0615 12:00:31.1 700 probe.go:88] Connection refused"),
        ("NetworkManager[801]", "<warn> dhcp4 (eth0): request timed out: No such file or directory"),
        ("dhclient[640]", "DHCPREQUEST on eth0: Network is unreachable"),
        ("postfix/smtp[99]", "connect to mx.example.org[10.1.1.1]:25: Connection timed out"),
        ("chronyd[500]", "Could not open /run/chrony: Permission denied"),
        ("nginx[77]", "bind() to 0.0.0.0:80 failed (98: Address already in use)"),
    ],
)
def test_other_programs_lines_are_no_failures_of_training(head: str, program: str, message: str) -> None:
    assert classes(head.format(program, message)) == set()


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize(
    ("program", "message", "expected"),
    [
        ("kernel", "NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus.", "gpu.xid.fell_off"),
        ("kernel", "Out of memory: Killed process 4182 (python3) total-vm:4123kB", "oom.host.kernel"),
        ("systemd-oomd[71]", "Killed /a.slice/t.service due to memory pressure for /", "oom.host.cgroup"),
        ("earlyoom[9]", "sending SIGTERM to process 41 uid 1000 \"python3\": badness 904", "oom.host.kernel"),
        ("slurmctld[40]", "error: Nodes gpu-007 not responding, setting DOWN", "slurm.node_failure"),
        ("python3[4711]", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB.", "oom.cuda"),
        ("train.sh[4711]", "[rank3]: torch.OutOfMemoryError: CUDA out of memory.", "oom.cuda"),
        (
            "systemd-coredump[9]",
            "Process 91 (python) of user 6 terminated abnormally with signal 6/ABRT",
            "proc.abort",
        ),
    ],
)  # fmt: skip
def test_a_program_s_own_rules_read_its_lines(head: str, program: str, message: str, expected: str) -> None:
    assert expected in classes(head.format(program, message))


def test_a_kernel_rule_reads_kernel_lines_and_those_of_no_program() -> None:
    xid = "NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus."
    assert "gpu.xid.fell_off" in classes(xid)
    assert "gpu.xid.fell_off" in classes(f"[12345.678901] {xid}")
    assert "gpu.xid.fell_off" not in classes(HEADS[0].format("python3[88]", f"a note on {xid}"))


def test_a_line_without_a_time_may_name_its_program() -> None:
    assert classes("sshd: error: Bind to port 22 on :: failed: Address already in use") == set()
    ((_, speaker),) = messages(b"sshd[1761]: error: Bind to port 22 failed")[0]
    assert speaker.program == "sshd"


@pytest.mark.parametrize(
    ("programs", "reads"),
    [
        ("", {None, "kernel", "python3[5]"}),
        ("programs: kernel", {None, "kernel"}),
        ("programs: [sshd, job]", {None, "sshd[5]", "python3[5]"}),
        ("programs: any", {None, "kernel", "sshd[5]", "python3[5]"}),
    ],
)
def test_a_rule_declares_whose_lines_it_is_about(programs: str, reads: set[str | None]) -> None:
    rules = ruleset(rule("quantum glitch", extra=programs))
    for program in (None, "kernel", "sshd[5]", "python3[5]"):
        line = "quantum glitch" if program is None else HEADS[0].format(program, "quantum glitch")
        assert bool(found(rules, line + "\n")) == (program in reads), program
