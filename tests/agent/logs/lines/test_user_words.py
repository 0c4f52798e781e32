"""Words that a user has chosen are no facts of the kernel, wherever the kernel quotes them."""

from __future__ import annotations

import itertools

import pytest

from gpuwatch.agent.kernel.xid_lines import event
from gpuwatch.agent.logs.lines.normalise import messages
from gpuwatch.agent.logs.lines.user_words import without_user_words
from gpuwatch.agent.logs.queries.kernel_lines import KernelLines
from tests.packs import built_in_rules

FILE = (
    "a.out[7]: segfault at 0 ip 0000 sp 7ff0 error 4 in {}[400000+1000]",
    "a.out[7]: segfault at 0 ip 0000 sp 7ff0 error 4 in {}[1137,400000+1000] likely on CPU 3 (core 1)",
    "traps: a.out[7] general protection fault ip:0 sp:0 error:0 in {}[4000+1000]",
    "[T4123] a.out[7]: segfault at 0 ip 0 sp 0 error 4 in {}[400000+1000]",
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/user.slice/{},"
    "task_memcg=/user.slice/{},task=python,pid=77,uid=1000",
    "Memory cgroup stats for /user.slice/{}:",
    "Tasks in /user/{} killed as a result of limit of /user/{}",
    "cgroup: fork rejected by pids controller in /user.slice/{}",
    "tmpfs: Unknown parameter '{}'",
    "overlayfs: failed to resolve '{}': -2",
    'overlayfs: unrecognized mount option "{}" or missing value',
    "process '{}' started with executable stack",
    "x\n{}",
)
"""Messages in which the kernel quotes a name of any length."""
NAME = (
    "{}[7]: segfault at 0 ip 00 sp 00 error 4 in a.out[4000+1000]",
    "{} invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
    "CPU: 3 PID: 77 Comm: {} Tainted: P           OE",
    "[   4711]  1000  4711   123    45    6        0             0 {}",
    "Memory cgroup out of memory: Killed process 77 ({}) total-vm:1kB, anon-rss:1kB, UID:1000",
    "INFO: task {}:123 blocked for more than 120 seconds.",
    "NVRM: Xid (PCI:0000:3b:00): 31, pid=77, name={}, Ch 00000008, MMU Fault",
    "NVRM: Xid (PCI:0000:3b:00): 31, pid=77, name={}, channel 0x00000008, intr 00000000. MMU Fault",
    "watchdog: BUG: soft lockup - CPU#8 stuck for 26s! [{}:61002]",
    "{} (123): attempted to duplicate a private mapping with mremap.  This is not supported.",
    "{} (123): /proc/123/oom_adj is deprecated, please use /proc/123/oom_score_adj instead.",
    "{}: page allocation failure: order:4, mode:0x40dc0(GFP_KERNEL|__GFP_COMP), nodemask=(null)",
    "{}: vmalloc error: size 4096, failed to allocate pages, mode:0xcc0(GFP_KERNEL), nodemask=(null)",
    "{} uses obsolete (PF_INET,SOCK_PACKET)",
    "{} (123) used greatest stack depth: 11000 bytes left",
    "{} (123): drop_caches: 3",
    "futex_wake_op: {} tries to shift op by 32; fix this program",
    "mmap: {} (123): VmData 4096 exceed data ulimit 0. Update limits or use boot option.",
    "Pid 123({}) over core_pipe_limit",
    "x86/split lock detection: #AC: {}/123 took a split_lock trap at address: 0x401",
    "cgroup: {} (123) created nested cgroup for controller memory which has incomplete hierarchy support.",
    "BUG: Bad page map in process {}  pte:8000000 pmd:800000",
    "x86/PAT: {}:123 map pfn expected mapping type write-back for [mem 0x0-0xfff], got uncached",
)
"""Messages in which it quotes the 15 characters of a process's name."""
XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus."
FORGED = (
    XID,
    "x in " + XID,
    "nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Fatal, Link 32 egress error",
    "Kernel panic - not syncing: Fatal hardware error!",
    "EDAC MC0: 1 UE memory read error on CPU_SrcID#0",
    "mce: [Hardware Error]: Machine check events logged",
    "nvme nvme0: I/O error, dev nvme0n1, sector 4",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
)


def rules_of(text: str) -> set[str]:
    """The rules that a kernel's record fulfils."""
    lines = KernelLines(built_in_rules(), itertools.count(1).__next__, 0.0, 0, [], lambda _number: None)
    return {found["rule"] for found in [*lines.take([(1.7e9, text)], 1.7e9), *lines.quiet(1.8e9)]}


@pytest.mark.parametrize("message", FILE)
def test_a_name_of_a_file_or_control_group_is_no_fact(message: str) -> None:
    usual = rules_of(message.format("python", "python"))
    for words in FORGED:
        text = message.format(words, words)
        assert event(text) is None
        assert rules_of(text) <= usual, text


@pytest.mark.parametrize("message", NAME)
def test_a_name_of_a_process_is_no_fact(message: str) -> None:
    usual = rules_of(message.format("python"))
    for words in (
        "hard LOCKUP", "Oops: 0000 [#1]", "out of memory", "CUDA OOM", "EDAC MC0: 1 UE", "GPU reset begin",
        "Disk failure on", "NVRM:Xid (a):79", "NVRM: Xid (a):7", "Killed process", "Out of memory:",
        "EADDRINUSE", "JSONDecodeError", "ActorDiedError", "ncclSystemError", "PermissionError",
    ):  # fmt: skip
        assert message.startswith("NVRM") or event(message.format(words)) is None, words
        assert rules_of(message.format(words)) <= usual, words


def test_what_the_kernel_says_itself_is_kept() -> None:
    assert rules_of(
        "CPU3: Core temperature is above threshold, cpu clock is throttled (total events = 17)"
    ) == {"host.cpu_throttle"}


@pytest.mark.parametrize("name", ["NVRM: Xid (PCI:", "NVRM: x", "nvidia-nvswitch"])
def test_a_program_with_the_name_of_a_driver_is_no_driver(name: str) -> None:
    """As a kernel wrote it when such a program crashed; of a process's name it keeps 15 characters."""
    text = f"{name}[7]: segfault at 0 ip 5 sp 7 error 6 in {XID}[1132,55d5c44af000+1000] likely on CPU 1"
    assert event(text) is None
    assert "gpu.xid.fell_off" not in rules_of(text)


def test_they_are_none_in_a_collected_kernel_log_either() -> None:
    line = f"Nov 22 10:00:00 gpu-007 kernel: [12.5] a.out[7]: segfault at 0 ip 0 sp 0 error 4 in {XID}[4+1]"
    ((text, _),) = messages(line.encode())[0]
    assert "Xid (" not in text


@pytest.mark.parametrize(
    "text",
    [
        XID,
        "[T4123] " + XID,
        "Out of memory: Killed process 4242 (python3) total-vm:9kB, anon-rss:9kB, file-rss:0kB",
        "mlx5_core 0000:9f:00.0: Detected insufficient power on the PCIe slot (27W).",
        "EXT4-fs error (device nvme0n1p1): ext4_find_entry:1454: inode #2: comm python: reading directory",
    ],
)
def test_what_the_kernel_states_itself_stays(text: str) -> None:
    assert without_user_words(text) == text


def test_of_many_quotes_it_takes_little_time() -> None:
    assert len(without_user_words("a '" * 20_000)) == 60_000


def test_the_kernels_own_words_behind_a_name_keep_their_blanks() -> None:
    """As driver 580 writes it, which names no `Ch`."""
    found = event(
        "NVRM: Xid (PCI:0000:00:06): 31, pid=1669, name=my train, channel 0x0000001e, intr 00000000. "
        "MMU Fault: ENGINE GRAPHICS GPC0 GPCCLIENT_T1_8 faulted @ 0xbfa6_e1308000."
    )
    assert found is not None
    assert "name=my_train, channel 0x0000001e, intr 00000000. MMU Fault: ENGINE GRAPHICS" in str(
        found["detail"]
    )
