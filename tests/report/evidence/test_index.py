"""The index of an evidence bundle: what it says of untrusted names, and how its texts stand apart."""

from __future__ import annotations

from gpuwatch.report.evidence.bundle_file import BundleEntry
from gpuwatch.report.evidence.environment import environment_text
from gpuwatch.report.evidence.index import IndexHead, index_text

HOSTILE = "<img src=x> [a](http://evil.example) | `x`"


def test_each_headline_is_a_paragraph_and_names_of_logs_are_no_markup() -> None:
    held = [
        BundleEntry("summary.md", "", "the incident"),
        BundleEntry("logs/gpu_1/a.log", "", f"lines around the evidence in {HOSTILE}"),
        BundleEntry("logs/gpu_1/b.log", "", ""),
    ]
    head = IndexHead(f"job {HOSTILE}", ["the first", HOSTILE], HOSTILE)
    text = index_text(head, held, [(HOSTILE, "too large")], 2, 0.0)
    lines = text.splitlines()
    assert lines[lines.index("> the first") + 1] == ""
    assert "| [logs/gpu_1/a.log](logs/gpu_1/a.log) | " in text
    assert "(logs/gpu_1/b.log)" not in text
    assert "<img" not in text.replace("\\<img", "")
    assert "[a](http" not in text.replace("`[a](http://evil.example)`", "")
    (row,) = [line for line in lines if "a.log" in line]
    assert row.replace("\\|", "").count("|") == 3


def test_a_variable_that_differs_between_ranks_has_a_row_for_each_value() -> None:
    def node(name: str, rank: int, value: str) -> dict[str, object]:
        ranks = [
            {"rank": rank, "python": "3.11", "torch": "2.4", "nccl": None, "memlock_bytes": None, "nofile": 1}
            | {"variables": {"NCCL_DEBUG": value}}
        ]
        inventory = dict.fromkeys(("driver", "cuda", "kernel", "os"))
        return {"name": name, **inventory, "settings": {"ranks": ranks}}

    nodes = [node(f"n{rank}", rank, "INFO" if rank != 1 else "``` | x") for rank in range(3)]
    command = {"node": "n0", "pid": 1, "rank": 0, "command": "python ``` x"}
    text = environment_text({"nodes": nodes, "commands": [command]})
    rows = [line.split(" | ") for line in text.splitlines() if "NCCL" in line]
    assert [row[-1] for row in rows] == ["rank 1 |", "ranks 0, 2 |"], "the rarest value first"
    assert text.count("\n````\n") == 2, "no command closes its fence"
