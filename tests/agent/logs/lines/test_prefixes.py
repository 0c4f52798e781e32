"""Who says a line, by what launchers and collectors put before it."""

from __future__ import annotations

import pytest

from gpuwatch.agent.logs.lines.normalise import messages
from tests.agent.logs.scan_lines import found, rule, ruleset

WHO = ("rank", "local_rank", "host", "pid", "task")


@pytest.mark.parametrize(
    ("line", "message", "who"),
    [
        ("[rank3]: boom", "boom", {"rank": 3}),
        ("[rank3]:[E1119 13:21:12.5 x.cpp:6] boom", "[E1119 13:21:12.5 x.cpp:6] boom", {"rank": 3}),
        ("[rank0]:[rank8]:[E x.cpp:6] boom", "[E x.cpp:6] boom", {"rank": 8, "local_rank": 0}),
        ("[rank3[]: boom", "boom", {"rank": 3}),
        ("[   12.000345] ata2.00: boom", "ata2.00: boom", {}),
        ("nfs4_reclaim: boom", "nfs4_reclaim: boom", {}),
        ("[RANK 1] boom", "boom", {"rank": 1}),
        ("[default5]:boom", "boom", {"local_rank": 5}),
        ("[trainer0|1]:boom", "boom", {}),
        ("12: boom", "boom", {"task": 12}),
        ("12:   Boom", "  Boom", {"task": 12}),
        ("  3: boom", "boom", {"task": 3}),
        ("[1,37]<stderr>:boom", "boom", {"rank": 37}),
        ("(Work pid=71, ip=10.1.2.3) [rank9]: boom", "boom", {"rank": 9, "pid": 71, "host": "10.1.2.3"}),
        ("(pid=81) boom", "boom", {"pid": 81}),
        ("(raylet, ip=10.1.2.3) boom", "boom", {"host": "10.1.2.3"}),
        ("gpu1504: boom", "boom", {"host": "gpu1504"}),
        ("vm-07-05: boom", "boom", {"host": "vm-07-05"}),
        ("10.0.0.7: boom", "boom", {"host": "10.0.0.7"}),
        ("head-node: [rank3]: boom", "boom", {"host": "head-node", "rank": 3}),
        ("head-node: boom", "head-node: boom", {}),
        ("oom-kill: boom", "oom-kill: boom", {}),
        ("nfs4_find_state: boom", "nfs4_find_state: boom", {}),
        ("slurm_load_step2: [rank3]: boom", "slurm_load_step2: [rank3]: boom", {}),
        ("node.cn-d004 [stderr] boom", "boom", {"host": "node.cn-d004"}),
        ("ray/0 (Actor pid=4) boom", "boom", {"pid": 4}),
        ("My-sft7.b/0 [default1]:[rank6]: boom", "boom", {"rank": 6, "local_rank": 1}),
        ("[40123] [rank2]: boom", "boom", {"rank": 2}),
        ("[stdout] [rank2]: boom", "boom", {"rank": 2}),
        ("[stderr] (Actor pid=4) boom", "boom", {"pid": 4}),
        ("    12\t[rank2]: boom", "boom", {"rank": 2}),
        ("     7\t2025-06-15 12:00:00 [rank2]: boom", "boom", {"rank": 2}),
        ("  1234\t(Actor pid=4) boom", "boom", {"pid": 4}),
        ("    12\t0.5\t2.5", "    12    0.5    2.5", {}),
        ("    12\tNo space left on device", "    12    No space left on device", {}),
        ("[3] NCCL WARN boom", "[3] NCCL WARN boom", {}),
        ("2025-06-15 12:00 [rank2]: boom", "boom", {"rank": 2}),
        ("2025-06-15 12:00:00.123 +02:00 [rank2]: boom", "boom", {"rank": 2}),
        ("2025-06-15T12:00:00.123456789Z stderr F [rank2]: boom", "boom", {"rank": 2}),
        ("2025-06-15T12:00:00+02:00 boom", "boom", {}),
        ("2025-06-15T12:00:00Z 2025-06-15 12:00:00,1 boom", "boom", {}),
        ("[Mon Jun 15 12:00:00 2025] boom", "boom", {}),
        ("[12345.678901] boom", "boom", {}),
        ("6,1234,98765432,-;boom", "boom", {}),
        ("Jun 15 12:00:00 gpu-003 kernel: [   12.345678] boom", "boom", {"host": "gpu-003"}),
        ("6月 15 12:00:00 gpu-003 kernel: boom", "boom", {"host": "gpu-003"}),
        ("6월 15 12:00:00 gpu-003 sshd[71]: boom", "boom", {"host": "gpu-003"}),
        ("[15.06.2025 12:00:00] [rank2]: boom", "boom", {"rank": 2}),
        ("15.06.2025 12:00:00,5 [rank2]: boom", "boom", {"rank": 2}),
        ("> boom", "boom", {}),
        ("[Rank 4] boom", "[Rank 4] boom", {"rank": 4}),
        ("[PG ID 2 PG GUID 3(tp) Rank 4] boom", "[PG ID 2 PG GUID 3(tp) Rank 4] boom", {"rank": 4}),
        ("n9:411:512 [3] NCCL WARN boom", "n9:411:512 [3] NCCL WARN boom", {"host": "n9", "pid": 411}),
        ("mlx5_0: boom", "mlx5_0: boom", {}),
        ("eth0: boom", "eth0: boom", {}),
        ("RuntimeError: boom", "RuntimeError: boom", {}),
    ],
)  # fmt: skip
def test_a_prefix_is_peeled_and_names_who_speaks(line: str, message: str, who: dict[str, object]) -> None:
    """Document 004, line 545."""
    ((text, speaker),) = messages(line.encode())[0]
    assert text == message
    assert {name: value for name in WHO if (value := getattr(speaker, name)) is not None} == who


def test_two_ranks_on_one_line_are_distinguished() -> None:
    rules = ruleset(rule("boom"))
    (finding,) = found(rules, "[rank1]: step 5 [rank2]: boom\n")
    assert finding["rank"] == 2


@pytest.mark.parametrize("quote", ["'", '"', "`"])
def test_a_prefix_inside_a_quotation_is_no_other_rank(quote: str) -> None:
    line = f"INFO request 7 prompt: {quote}why does\\n[rank3]: boom appear{quote}, n=1"
    ((text, speaker),) = messages(line.encode())[0]
    assert (text, speaker.rank) == (line, None)
    closed = f"INFO prompt: {quote}hello{quote}[rank3]: boom"
    assert [each.rank for _, each in messages(closed.encode())[0]] == [None, 3]


def test_once_a_line_shows_both_a_lone_rank_prefix_is_known_to_be_local() -> None:
    rules = ruleset(rule("boom"))
    text = "[rank0]:[rank8]: boom a\n[rank1]: boom b\n"
    assert [(f.get("rank"), f.get("local_rank")) for f in found(rules, text)] == [(8, 0), (None, 1)]
