"""Words of an error in advice, data, names and the output of tests are no events."""

from __future__ import annotations

import pytest

from gpuwatch.rules.scoring.score import ALARMING, scan_excerpt
from tests.packs import built_in_rules

OOM = "CUDA out of memory. Tried to allocate 2.00 GiB."
NO_EVENTS = [
    # advice and lists of possibilities
    "The process was killed. This may be due to: the OOM killer, a time limit, CUDA out of memory",
    f"hint: if you see {OOM} try a smaller batch",
    "use activation checkpointing to avoid CUDA out of memory",
    "Common reasons include CUDA out of memory and No space left on device",
    "some errors, e.g. CUDA out of memory, are retried",
    "Possible causes:\n  - CUDA out of memory\n  - No space left on device",
    "Troubleshooting:\n 1. RuntimeError: NCCL operation timed out\n 2. CUDA out of memory",
    # text that a model writes or reads
    f"Prompt: how do I fix RuntimeError: {OOM}",
    f'{{"prompt": "explain", "completion": "torch.OutOfMemoryError: {OOM}"}}',
    f'{{"step": 5, "sample": "RuntimeError: {OOM}"}}',
    f"Completion:\nYou ran into this error.\nRuntimeError: {OOM}\nUse a smaller batch.",
    f"=== Sample 3 ===\nThe log says\nRuntimeError: {OOM}\nUse less.",
    f"eval sample\n```\nRuntimeError: {OOM}\n```\ndone",
    f'answer: "{OOM}" means that memory ran out',
    # settings and names
    "retryable_errors=['CUDA out of memory', 'NCCL operation timed out']",
    '{"ignore_patterns": ["CUDA out of memory", "No space left on device"], "retries": 3}',
    # test runners and linters
    "tests/test_memory.py::test_cuda_out_of_memory PASSED",
    f"FAILED tests/test_memory.py::test_limit - RuntimeError: {OOM}",
    f"E       torch.OutOfMemoryError: {OOM}",
    "train/loop.py:12: error: Incompatible types, CUDA out of memory [assignment]",
    "src/alloc.cc:91:5: error: 'cudaErrorMemoryAllocation' is deprecated [modernize-deprecated-names]",
    "** (python3:12): CRITICAL **: 10:00:00.200: gst_caps_is_empty: assertion 'GST_IS_CAPS (caps)' failed",
    # flags that deny what they name
    "FORCED SINGLE GPU MODE: False",
    "Slow training detected: no",
    "No space left on device: false",
    # counts of a summary
    "CUDA out of memory ....... 0",
    "NCCL error   0",
    "Segmentation fault | 0 |",
    "[       OK ] Memory.CudaOutOfMemory CUDA out of memory (3 ms)",
    '  --oom-retries N   how often "CUDA out of memory" is retried',
    '<|user|> what is "CUDA error: uncorrectable ECC error encountered"?',
    "- `No space left on device` on /scratch, quota raised",
    "mca: libuct.so.0: cannot open shared object file: No such file or directory (ignored)",
    "Exception ignored in: <function Bar.__del__ at 0x7f>\nTraceback (most recent call last):\n"
    "AttributeError: 'Bar' object has no attribute 'disp'",
    "Exception ignored in: <function BaseEventLoop.__del__ at 0x7f>\nTraceback (most recent call last):\n"
    '  File "/w/x.py", line 3, in __del__\n    f()\nRuntimeError: Event loop is closed',
    f"Exception ignored in: <function Bar.__del__ at 0x7f>\nRuntimeError: {OOM}\nstep 12 loss 2.1",
    "Exception ignored in: <_io.TextIOWrapper name='<stdout>' mode='w'>\n"
    "OSError: [Errno 5] Input/output error",
    "Exception ignored in: <function Reader.__del__ at 0x7f>\n"
    "AttributeError: 'NoneType' object has no attribute 'close'",
    f"[eval sample 4] >>> RuntimeError: {OOM}",
    "[sample 12]: NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
    "expecting failure: RuntimeError: NCCL error: unhandled system error",
    "2025-03-02 10:00:00 ERROR upload of the snapshot failed; will try again at the next one",
    # samples at a prompt, subjects of commits, dry runs
    f"sample> RuntimeError: {OOM}",
    f"2025-03-02 10:00:00 INFO - assistant> you ran into RuntimeError: {OOM}",
    f"model #3>> RuntimeError: {OOM}",
    "a1b2c3d fix: CUDA out of memory crash in eval",
    "| * d4e5f6a (origin/main) Handle NCCL error: unhandled system error",
    "- fix(loader): CUDA out of memory at the end of an epoch",
    "[dry-run] RuntimeError: NCCL error: unhandled system error",
    "on failure it prints 'NCCL error: unhandled system error'",
    "ignoring errors: ['CUDA out of memory', 'No space left on device']",
    # the line's own level
    f"2025-03-02 10:00:00 | INFO     | MainProcess  | caught {OOM} retrying with batch 4",
    f"DEBUG:autobatch:{OOM} next size 8",
    f'{{"level": "info", "message": "probe ended: {OOM}"}}',
]
EVENTS = [
    f"RuntimeError: {OOM}",
    f"2025-03-02 10:00:00 | ERROR    | MainProcess  | training failed: {OOM}",
    f'{{"level": "error", "message": "{OOM}", "prompt": "x"}}',
    f'{{"prompt": "x", "error": "{OOM}"}}',
    f"Generated: the cat sat on the mat\nTraceback (most recent call last):\n  ...\nRuntimeError: {OOM}",
    f"=== Sample 3 ===\nThe log says\nRuntimeError: {OOM}",  # the last words: it may have cut the sample
    f"Exception ignored in: <function Bar.__del__ at 0x7f>\nTraceback (most recent call last):\n"
    f'  File "/w/x.py", line 3, in __del__\n    f()\nRuntimeError: {OOM}',  # likewise: its end
    "Exception ignored in: <function Writer.__del__ at 0x7f>\nOSError: [Errno 28] No space left on device",
    f"Possible causes:\n  - x\n2025-03-02 10:00:00 ERROR {OOM}",
    "Apr  9 21:05:38.106121 leaf-4 INFO kernel: [10601.214044] igb 0000:00:14.0 eth0: NIC Link is Down",
    f"cn4.1> RuntimeError: {OOM}",
    f"a1b2c3d4e5f6 RuntimeError: {OOM}",
    f"step 4: raised RuntimeError: {OOM}",
    f"saved 12 samples to prompt.json. RuntimeError: {OOM}",
    "host1:77:99 [0] NCCL INFO NET/Socket : unused\nRuntimeError: NCCL error: unhandled system error",
]


def alarms(text: str) -> list[str]:
    found = scan_excerpt(built_in_rules(), text.split("\n"))
    return [str(each["rule"]) for each in found if each["severity"] in ALARMING]


@pytest.mark.parametrize("text", NO_EVENTS)
def test_words_of_an_error_that_are_no_event_raise_no_alarm(text: str) -> None:
    assert alarms(text) == []


@pytest.mark.parametrize("text", EVENTS)
def test_the_same_words_as_an_event_do(text: str) -> None:
    assert alarms(text) != []


@pytest.mark.parametrize(
    "raised",
    [
        "ValueError: too many values to unpack (expected 2)",
        "ValueError: not enough values to unpack (expected at least 2, got 1)",
        "TypeError: f() got an unexpected keyword argument 'test'",
        "TypeError: expected str, bytes or os.PathLike object, not NoneType",
        "KeyError: 'prompt'",
        "AssertionError: no failures expected",
        "AssertionError",
        "RuntimeError: expected scalar type Half but found Float",
        "ValueError: invalid literal for int() with base 10: 'ignored'",
        "FileNotFoundError: [Errno 2] No such file or directory: '/data/user: prompt.txt'",
        "RuntimeError: Trying to backward through the graph a second time (or directly access saved tensors)",
        "ImportError: cannot import name 'x' from 'y' (unknown location)",
        "ConnectionResetError: [Errno 104] Connection reset by peer while downloading s3://bucket/part-0041.tar",
        "requests.exceptions.HTTPError: 404 Client Error: Not Found for url: https://x/y",
    ],
)
def test_an_exception_that_ends_a_traceback_is_an_event_whatever_its_words(raised: str) -> None:
    frames = 'Traceback (most recent call last):\n  File "/w/train.py", line 1, in <module>\n    main()\n'
    found = scan_excerpt(built_in_rules(), (frames + raised).split("\n"))
    assert [each for each in found if each["severity"] in ALARMING]


def test_pythons_heading_of_one_rank_names_it_for_no_traceback_without_a_tag() -> None:
    frames = 'Traceback (most recent call last):\n  File "/w/train.py", line 1, in <module>\n    main()\n'
    for heading, rank in (("[rank1]: Exception ignored in: <x>\n", None), ("[rank1]: ERROR it failed\n", 1)):
        (found,) = scan_excerpt(built_in_rules(), f"{heading}{frames}RuntimeError: {OOM}".split("\n"))[-1:]
        assert found.get("rank") == rank
