"""Hints and the lines of healthy starts: none leads an incident, none raises an alert in a job that steps on."""
# ruff: noqa: E501  lines of logs are quoted whole

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpuwatch.report.scan.report import ScanReport, judged
from gpuwatch.rules.load import load_packs
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.scan.scan import scan

PACKS = load_packs()
HINTS = {rule.id: rule for rule in PACKS.rules if rule.role == "hint"}
NOW = 1_800_000_000.0
MEANT_TO_WARN = frozenset(
    (
        "c10d.hostname_resolution",
        "check.failed",
        "data.too_long",
        "nccl.flight_recorder_dump",
        "num.grad_nan",
        "num.loss_spike",
        "proc.child_end",
        "train.communication_bound",
        "train.imbalance",
        "train.low_utilisation",
        "train.slow",
    )
)
"""Hints with advice for a job that goes on."""
STARTS = """\
W0314 09:00:00.123000 4100 torch/distributed/run.py:793]
W0314 09:00:00.123000 4100 torch/distributed/run.py:793] *****************************************
W0314 09:00:00.123000 4100 torch/distributed/run.py:793] Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being overloaded, please further tune the variable for optimal performance in your application as needed.
[W314 09:00:01.100000000 socket.cpp:204] [c10d] The hostname of the client socket cannot be retrieved. err=-3
[W314 09:00:01.100000000 socket.cpp:462] [c10d] The hostname of the client socket cannot be retrieved. err=-3
[W314 09:00:01.100000000 socket.cpp:752] [c10d] The client socket has failed to connect to [head-node]:29500 (errno: 111 - Connection refused).
[W314 09:00:01.100000000 socket.cpp:752] [c10d] The client socket cannot be initialized to connect to [head-node]:29500 (errno: 97 - Address family not supported by protocol).
[W314 09:00:01.100000000 socket.cpp:601] [c10d] The IPv6 network addresses of (head-node, 29500) cannot be retrieved (gai error: -2 - Name or service not known).
[W314 09:00:01.100000000 Utils.hpp:164] Warning: Environment variable NCCL_ASYNC_ERROR_HANDLING is deprecated; use TORCH_NCCL_ASYNC_ERROR_HANDLING instead (function operator())
[W314 09:00:01.100000000 ProcessGroupNCCL.cpp:4115] [PG ID 0 PG GUID 0 Rank 0]  using GPU 0 to perform barrier as devices used by this process are currently unknown. This can potentially cause a hang if this rank to GPU mapping is incorrect. Specify device_ids in barrier() to force use of a particular device, or call init_process_group() with a device_id.
[rank0]:[W314 09:00:01.100000000 ProcessGroupNCCL.cpp:4561] [PG ID 0 PG GUID 0 Rank 0]  using GPU 0 to perform barrier as devices used by this process are currently unknown.
[Gloo] Rank 0 is connected to 1 peer ranks. Expected number of connected peer ranks is : 1
Waiting in store based barrier to initialize process group for rank: 0, key: store_based_barrier_key:1 (world_size=2, worker_count=1, timeout=0:30:00)
Added key: store_based_barrier_key:1 to store for rank: 0
gpu-1:510:560 [0] NCCL INFO NET/Plugin: Failed to find ncclNetPlugin_v8 symbol.
gpu-1:510:560 [0] NCCL INFO NET/Plugin : dlerror=libnccl-net.so: cannot open shared object file: No such file or directory No plugin found (libnccl-net.so), using internal implementation
gpu-1:510:560 [0] NCCL INFO NET/IB : No device found.
gpu-1:510:560 [0] NCCL INFO Failed to open libibverbs.so[.1]
gpu-1:510:560 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.
gpu-1:510:560 [0] NCCL INFO cudaDriverVersion 12040
gpu-1:510:560 [0] NCCL INFO TUNER/Plugin: Could not find: libnccl-tuner.so. Using internal tuner plugin.
gpu-1:510:560 [0] NCCL INFO PROFILER/Plugin: Could not find: libnccl-profiler.so.
2026-03-14 09:00:02.101010: E external/local_xla/xla/stream_executor/cuda/cuda_fft.cc:485] Unable to register cuFFT factory: Attempting to register factory for plugin cuFFT when one has already been registered
2026-03-14 09:00:02.101010: E external/local_xla/xla/stream_executor/cuda/cuda_blas.cc:1452] Unable to register cuBLAS factory: Attempting to register factory for plugin cuBLAS when one has already been registered
2026-03-14 09:00:02.101010: W tensorflow/compiler/tf2tensorrt/utils/py_utils.cc:38] TF-TRT Warning: Could not find TensorRT
2026-03-14 09:00:02.101010: I external/local_xla/xla/stream_executor/cuda/cuda_executor.cc:887] successful NUMA node read from SysFS had negative value (-1), but there must be at least one NUMA node, so returning NUMA node zero.
WARNING:root:No module named 'apex', fused optimizers are not used
Some weights of LlamaForSequenceClassification were not initialized from the model checkpoint at /models/llama and are newly initialized: ['score.weight']
You should probably TRAIN this model on a down-stream task to be able to use it for predictions and inference.
The tokenizer has new PAD/BOS/EOS tokens that differ from the model config and generation config. The model config and generation config were aligned accordingly.
huggingface/tokenizers: The current process just got forked, after parallelism has already been used. Disabling parallelism to avoid deadlocks...
`use_cache=True` is incompatible with gradient checkpointing. Setting `use_cache=False`.
/opt/venv/lib/python3.11/site-packages/torch/utils/checkpoint.py:460: UserWarning: torch.utils.checkpoint: please pass in use_reentrant=True or use_reentrant=False explicitly.
/opt/venv/lib/python3.11/site-packages/torch/cuda/__init__.py:61: FutureWarning: The pynvml package is deprecated. Please install nvidia-ml-py instead.
/opt/venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py:557: UserWarning: This DataLoader will create 8 worker processes in total. Our suggested max number of worker in current system is 4, which is smaller than what this DataLoader is going to create.
[2026-03-14 09:00:03,001] [WARNING] [runner.py:212:fetch_hostfile] Unable to find hostfile, will proceed with training with local resources only.
[2026-03-14 09:00:03,001] [INFO] [real_accelerator.py:219:get_accelerator] Setting ds_accelerator to cuda (auto detect)
 [WARNING]  async_io requires the dev libaio .so object and headers but these were not found.
 [WARNING]  sparse_attn requires a torch version >= 1.5 and < 2.0 but detected 2.4
 [WARNING]  using untested triton version (3.0.0), only 1.0.0 is known to be compatible
[2026-03-14 09:00:03,001] [INFO] [loss_scaler.py:190:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768
The following values were not passed to `accelerate launch` and had defaults used instead:
wandb: WARNING Path /scratch/wandb/ wasn't writable, using system temp directory.
wandb: Network error (ReadTimeout), entering retry loop.
libibverbs: Warning: couldn't load driver 'libhfi1verbs-rdmav34.so': libhfi1verbs-rdmav34.so: cannot open shared object file: No such file or directory
[gpu-1:00510] mca_base_component_repository_open: unable to open mca_btl_openib: librdmacm.so.1: cannot open shared object file: No such file or directory (ignored)
srun: job 81220 queued and waiting for resources
srun: warning: can't run 1 processes on 2 nodes, setting nnodes to 1
slurmstepd: task_p_pre_launch: Using sched_affinity for tasks
ERROR: ld.so: object 'libtcmalloc.so.4' from LD_PRELOAD cannot be preloaded (cannot open shared object file): ignored.
bash: warning: setlocale: LC_ALL: cannot change locale (en_US.UTF-8)
Xformers is not installed correctly. If you want to use memory_efficient_attention to accelerate training use the following command to install Xformers
fatal: not a git repository (or any of the parent directories): .git
OpenBLAS WARNING - could not determine the L2 cache size on this system, assuming 256k
ALSA lib confmisc.c:855:(parse_card) cannot find card '0'
"""
"""Lines of starts of healthy jobs, from public logs; versions, names and times are changed."""


def run(folder: Path, lines: Sequence[str], last: Sequence[str] = ()) -> ScanReport:
    """Return the report on two ranks: rank 0 logs `lines` among its steps, rank 1 ends with `last`."""
    steps = [
        f"2026-03-14 09:{minute:02}:{second:02} INFO step {60 * minute + second}/1800 | loss 2.4 | lr 1e-4"
        for minute in range(30)
        for second in range(0, 60, 10)
    ]
    ends = [] if last else ["2026-03-14 09:30:01 INFO training finished after 1800 steps"]
    steps = [*steps, "2026-03-14 09:30:00 INFO step 1800/1800 | loss 2.4 | lr 1e-4"] if not last else steps
    folder.mkdir()
    (folder / "rank0.log").write_text("\n".join([*steps[:3], *lines, *steps[3:], *ends, ""]))
    (folder / "rank1.log").write_text("\n".join([*steps, *last, *ends, ""]))
    return judged(scan(gather([folder]), PACKS.all, "agent", cores=1), PACKS, NOW, 0.1)


def test_a_healthy_start_and_hints_make_no_incident_and_no_unmeant_alert(tmp_path: Path) -> None:
    reported = run(tmp_path / "starts", STARTS.splitlines())
    assert [each.headline for each in reported.incidents] == []
    assert [(each.code, each.text) for each in reported.outside if each.severity != "info"] == []
    examples = [line for rule in HINTS.values() for example in rule.examples for line in example.splitlines()]
    reported = run(tmp_path / "hints", examples)
    assert [each.headline for each in reported.incidents] == []
    loud = {each.code for each in reported.outside if each.severity != "info"}
    assert loud <= MEANT_TO_WARN
    assert HINTS.keys() >= MEANT_TO_WARN


def test_no_hint_leads_the_incident_of_a_failure_after_it(tmp_path: Path) -> None:
    """Nor gives it its time: the failure is half an hour later."""
    traceback = [
        "Traceback (most recent call last):",
        '  File "/work/train.py", line 12, in <module>',
        "    main()",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
    ]
    for rule in HINTS.values():
        lines = [line for example in rule.examples for line in example.splitlines()]
        reported = run(tmp_path / rule.id, lines, traceback)
        leading = [(each.code, each.rank) for each in reported.incidents]
        assert leading == [("cuda.illegal_access", 1)], rule.id
    reported = run(tmp_path / "starts", STARTS.splitlines(), traceback)
    assert [(each.code, each.rank) for each in reported.incidents] == [("cuda.illegal_access", 1)]
