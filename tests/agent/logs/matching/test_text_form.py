"""Source code, rows of data, talks and prose about crashes are no events; events beside them are."""

from __future__ import annotations

import pytest

from gpuwatch.rules.scoring.score import ALARMING, scan_excerpt
from tests.packs import built_in_rules

TEXTS = [
    # code
    '  137) echo "Killed, out of memory" ;;\n  139) echo "Segmentation fault (core dumped)" ;;',
    ' 11      if code == errno.ENOSPC:\n 12          raise RuntimeError("No space left on device")',
    '+        logger.error("RuntimeError: NCCL communicator was aborted on rank 0.")',
    'if (err) { fprintf(stderr, "CUDA error: out of memory"); }\n'
    'import torch\ntorch.OutOfMemoryError: CUDA out of memory.\nprint("Segmentation fault")',
    # settings and templates
    '    - match: "Segmentation fault"\n      action: restart',
    '      summary: "GPU {{ $labels.gpu }} has fallen off the bus"',
    "cluster 5 size 3: NVRM: Xid (PCI:<*>): 79, GPU has fallen off the bus",
    "  WHERE message LIKE '%GPU has fallen off the bus%'",
    # rows and cells
    "2    GPU 0 was found\n3    Bus error (core dumped)\n4    a clear line",
    "│ 12 of 20 │ Segmentation fault (core dumped) │ 0.4 │",
    "H-2    -0.31    Segmentation fault in the kernel",
    "Segmentation(123, 5) fault(7, 7) (9, 9) core(1, 1) dumped(2, 2)",
    "1d2c3b4 Crash where the checkpoint is corrupt\n2d2c3b5 Segmentation fault (core dumped) is gone",
    "     OR state = 'OUT_OF_MEMORY'",
    # talks and samples
    "> [rank1]: ok\n> [rank2]: torch.OutOfMemoryError: CUDA out of memory.",
    "[00:04.320 --> 00:07.100]  CUDA error: an illegal memory access was encountered, it read.",
    "[10:01] <ann> CUDA error: uncorrectable ECC error encountered",
    "rejected: RuntimeError: CUDA error: unspecified launch failure",
    "OBSERVATION:\nSegmentation fault (core dumped)\nThought:",
    "OBSERVATION:\nTraceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    import foo\n"
    "ModuleNotFoundError: No module named 'foo'\nThought:",
    "Generated: Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n    f()\n"
    "RuntimeError: CUDA error: device-side assert triggered",
    # prose
    "A fan stopped in the night, and nobody in the room had heard it.\n"
    "The GPU had fallen off the bus, and then the kernel wrote the last of its words.\n"
    "By dawn it was all that we had of that machine.",
    "Drill (nothing is executed, dry run):\n  1. fill /scratch until \"No space left on device\"",
]  # fmt: skip
EVENTS = [
    'echo "start"\nSegmentation fault (core dumped)',
    "  - match: \"x\"\nsrun: error: gpu-3: task 2: Segmentation fault",
    "The plan was made in the morning, and it was a good one.\nRuntimeError: CUDA out of memory.",
    "OBSERVATION:\nok\nSegmentation fault (core dumped)",
    "│ ❱ 753 │   train(                                  │\n"
    "│   754 │   )                                       │\n"
    "RuntimeError: CUDA error: an illegal memory access was encountered",
    "state: \"CUDA out of memory\"",
    "7: RuntimeError: CUDA out of memory\n8: RuntimeError: CUDA out of memory",
    "Your job was killed because it ran out of memory.\nPlease ask for more of it, and run the job again.\n"
    "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=11.0. Some step tasks have been OOM Killed.",
]  # fmt: skip


def alarms(text: str) -> list[str]:
    found = scan_excerpt(built_in_rules(), text.split("\n"))
    return [str(each["rule"]) for each in found if each["severity"] in ALARMING]


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_about_crashes_raises_no_alarm(text: str) -> None:
    assert alarms(text) == []


@pytest.mark.parametrize("text", EVENTS)
def test_an_event_beside_such_a_text_does(text: str) -> None:
    assert alarms(text) != []
