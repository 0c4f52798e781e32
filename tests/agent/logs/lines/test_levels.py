"""How grave a line calls itself, in the formats of many loggers and languages."""

from __future__ import annotations

import pytest

from gpuwatch.agent.logs.lines.levels import level, own_level
from gpuwatch.agent.logs.lines.normalise import messages

GRAVE = [
    "2025-12-01 22:40:33 错误\uff1a保存检查点失败",
    "[2025-12-01 22:40:33] Fehler: Datei fehlt",
    "エラー: 学習を中断しました",
    # Python: logging, loguru, structlog, absl, Lightning, transformers, vLLM
    "2025-03-02 10:00:00,123 - trainer - ERROR - lost the batch",
    "2025-03-02 10:00:00,123 - Rank 0 - rank_0 - ERROR - lost the batch",
    "2025-03-02 10:00:00 | ERROR    | MainProcess  | lost the batch",
    "2025-03-02 10:00:00.123 | CRITICAL | train.loop:run:88 - lost the batch",
    "2025-03-02 10:00:00 train.loop ERROR lost the batch",
    "2025-03-02 10:00:00 [error    ] lost the batch                 rank=3",
    "ERROR:root:lost the batch",
    "ERROR: lost the batch",
    "[ERROR] lost the batch",
    "[ERROR|trainer.py:1234] 2025-03-02 10:00:00,123 >> lost the batch",
    "[2025-03-02 10:00:00,123] [ERROR] [engine.py:12:step] lost the batch",
    "[2025-03-02 10:00:00,123][train][ERROR] - lost the batch",
    "ERROR 03-02 10:00:00 engine.py:12] lost the batch",
    "(EngineCore pid=77) ERROR 03-02 10:00:00 [engine.py:12] lost the batch",
    "[rank3]: 2025-03-02 10:00:00 ERROR lost the batch",
    "E0302 10:00:00.123456 4242 train.py:12] lost the batch",
    "[rank1]:[E302 10:00:00.123456 worker.cpp:12] lost the batch".replace("E302", "E0302"),
    "2025-03-02 10:00:00.123456: E external/local_xla/xla/stream.cc:12] lost the batch",
    '{"time": "2025-03-02T10:00:00Z", "level": "error", "msg": "lost the batch"}',
    '{"levelname": "ERROR", "message": "lost the batch", "rank": 3}',
    'time="2025-03-02T10:00:00Z" level=error msg="lost the batch"',
    "ts=2025-03-02T10:00:00Z lvl=eror msg=lost",
    "[2026-01-05 10:00:00] production.ERROR: lost the batch",
    "rank 3: ERROR: lost the batch",
    "!!! ERROR !!! lost the batch",
    "trainer - ERROR - lost the batch",
    "ERROR lost the batch of shard 3",
    "[E] lost the batch",
    '{"level":50,"time":1767600000000,"msg":"lost the batch"}',
    "libc++abi: terminating with uncaught exception of type std::runtime_error",
    "Unhandled exception. System.InvalidOperationException: lost the batch",
    "Assertion failed: (x > 0), function f, file a.c, line 3.",
    # C++, Go, Rust, Julia, Java, Fortran, Lua, R, shell
    "[2025-03-02 10:00:00.123] [train] [error] lost the batch",
    "terminate called after throwing an instance of 'std::runtime_error'",
    "F0302 10:00:00.123456 4242 train.cc:12] Check failed: x > 0",
    "panic: runtime error: index out of range [5] with length 3",
    "ERRO[0012] lost the batch",
    "2025-03-02T10:00:00.123Z\tERROR\tworker/loop.go:12\tlost the batch",
    "thread 'main' panicked at src/main.rs:4:5:",
    "2025-03-02T10:00:00.123456Z ERROR loader::shard: lost the batch",
    "[2025-03-02T10:00:00Z ERROR loader] lost the batch",
    "ERROR: LoadError: MethodError: no method matching step(::Int64)",
    "\u250c Error: lost the batch",
    'Exception in thread "main" java.lang.IllegalStateException: lost the batch',
    "25/03/02 10:00:00 ERROR TaskSetManager: lost the batch",
    "10:00:00.123 [main] ERROR o.a.s.Executor - lost the batch",
    "forrtl: severe (174): SIGSEGV, segmentation fault occurred",
    "Fortran runtime error: End of file",
    "lua: train.lua:12: attempt to index a nil value",
    "Error in fit(model) : lost the batch",
    "/var/spool/job/script: line 12: ml: command not found",
    "Mar  2 10:00:00 gpu-003 trainer[4242]: ERROR lost the batch",
    "train.py: error: unrecognized arguments: --lerning-rate",
    "RuntimeError: lost the batch",
    "mypkg.loader.ShardError: lost the batch",
    "Rank 1: Error - lost the batch",
]
QUIET = [
    "Fehler: 0.031",
    "错误: 0",
    "errors=0",
    "step 10 | error_rate 0.04 | loss 2.1",
    "2025-03-02 10:00:00 | INFO | eval | ERROR: 0.04 | WER: 0.12",
    "0 errors, 3 warnings",
    "2025-03-02 10:00:00,123 - pkg.errors - INFO - registry loaded",
    "2025-03-02 10:00:00 INFO ErrorHandler initialised",
    "mean_squared_error: 0.12",
    "loss = MSELoss, metric = mean_absolute_error",
    "INFO: retry policy for ERROR and FATAL replies is exponential",
    "Evaluating 5 ERROR cases of the robustness set",
    "max_error: 0.4 | error_if_nonfinite: False",
    "on_error: continue",
    '{"prompt": "What does ERROR mean?", "completion": "A level."}',
    "log_level: error",
    "NCCL_DEBUG=ERROR TORCH_SHOW_CPP_STACKTRACES=1",
    "fatal: not a git repository (or any of the parent directories): .git",
    "PASSED tests/test_errors.py::test_fatal",
    "| metric | ERROR | WER |",
    "ERROR RATE: 0.04",
    "error: 0.042",
    "Error: 1.2e-4",
    "ERROR: 0",
    "FATAL: 0 ERROR: 0 WARN: 3",
    "labels: ERROR, OK, FATAL",
    "tokens: ['ERROR', 'FATAL']",
    "prediction: ERROR",
    "- [x] ERROR handling",
    "+ export NCCL_DEBUG=ERROR",
    "logging level: ERROR",
    "the panic of 1907 began in October",
]


@pytest.mark.parametrize("line", GRAVE)
def test_an_error_is_one_in_the_format_of_any_logger_and_language(line: str) -> None:
    text = messages(line.encode())[0][-1][0]
    assert level(text, line) in ("error", "critical")


@pytest.mark.parametrize("line", QUIET)
def test_the_same_words_in_names_values_and_sentences_are_no_level(line: str) -> None:
    text = messages(line.encode())[0][-1][0]
    assert level(text, line) is None


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("2025-03-02 10:00:00 | INFO     | MainProcess  | CUDA OOM caught, retrying", "info"),
        ("[INFO|trainer.py:12] 2025-03-02 10:00:00,123 >> x", "info"),
        ("DEBUG:loader:x", "debug"),
        ("I0302 10:00:00.123456 4242 train.py:12] x", "info"),
        ('{"level": "info", "message": "x"}', "info"),
        ("2025-03-02 10:00:00 WARNING x", "warning"),
        ("x", None),
    ],
)
def test_the_level_that_a_line_gives_itself(line: str, expected: str | None) -> None:
    assert own_level(messages(line.encode())[0][-1][0], line) == expected
