"""More jobs of other launchers and frameworks: the culprit's rank from whole folders of logs."""
# ruff: noqa: E501, E741  lines of logs are quoted whole

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuwatch.report.scan.report import judged
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.scan.scan import scan
from tests.runs.placement.culprits import OOM, PACKS, Job, culprit


def pods_jax(n: int) -> Job:
    return {
        f"pods/run-slice-job-0-{r}.log": "I0220 08:00:06.458022 1 distributed.py:1] Connecting to JAX distributed service on run-slice-job-0-0:8476\n"
        + ("".join(f"I0220 08:00:1{i}.458022 1 x.py:1] waiting\n" for i in range(3)))
        + (
            "E0220 08:00:20.000000 1 x.py:1] OSError: [Errno 13] Permission denied: '/gcs/c4'\n"
            if r == n
            else "E0220 09:00:20.000000 1 coordination_service.cc:1230] Stopping coordination service as cluster registration failed.\n"
        )
        for r in range(8)
    }


def pods_prefix_world(n: int) -> Job:
    return {
        "all.log": "".join(f"[pod/llm-worker-{r}/pytorch] world_size=8 lr 0.1\n" for r in range(8))
        + f"[pod/llm-worker-{n}/pytorch] {OOM}\n"
    }


def pods_master(n: int) -> Job:
    def name(r: int) -> str:
        return "llm-master-0" if r == 0 else f"llm-worker-{r - 1}"

    return {
        "all.log": "".join(f"[pod/{name(r)}/pytorch] world_size: 8\n" for r in range(8))
        + f"[pod/{name(n)}/pytorch] {OOM}\n"
    }


def pods_env(n: int) -> Job:
    def name(r: int) -> str:
        return "llm-master-0" if r == 0 else f"llm-worker-{r - 1}"

    d = {
        f"kubectl-logs_{name(r)}.txt": f"MASTER_ADDR=llm-master-0 RANK={r} WORLD_SIZE=8\nlr 0.1\n"
        for r in range(8)
    }
    d[f"kubectl-logs_{name(n)}.txt"] += OOM + "\n"
    return d


def task_folders(n: int) -> Job:
    return {
        f"iris/task-{r}/attempt-0/stdout": f"2026-05-07T19:13:00.000 I train task={r} argv\n"
        + ("2026-05-07T19:13:26.097 E " + OOM + "\n" if r == n else "2026-05-07T19:13:26.097 I waiting\n")
        for r in range(8)
    }


def of_its_own(path: str, start: str = "lr 0.1\n") -> Callable[[int], Job]:
    """A file for each rank, as `path` names it (R: the rank)."""
    failed = f"Traceback (most recent call last):\n{OOM}\n"

    def job(n: int) -> Job:
        return {path.replace("R", str(r)): start + (failed if r == n else "lr 0.2\n") for r in range(8)}

    job.__name__ = path  # the test's id
    return job


def tracker(n: int) -> Job:
    return {
        "driver.log": "".join(
            f"D root.accept_workers:375 Received start signal from 10.10.6.{10 + r}; assign rank {r}\n"
            for r in range(8)
        ),
        f"workers/10.10.6.{10 + n}.log": "distributed.nanny - INFO - start\n" + OOM + "\n",
    }


def host_local_global(n: int) -> Job:
    return {
        f"nemo_ip-26-0-170-{node}.log": "".join(
            f"[ip-26-0-170-{node}:{l}]:Initializing distributed: GLOBAL_RANK: {node * 4 + l}, MEMBER: {node * 4 + l + 1}/8\n"
            for l in range(4)
        )
        + (f"[ip-26-0-170-{node}:{n % 4}]:{OOM}\n" if node == n // 4 else "")
        for node in range(2)
    }


def ascend_cont(n: int) -> Job:
    t = "[ERROR] 2024-05-21-11:57:54 (PID:92700{r}, Device:{r}, RankID:{r}) ERR02200 DIST call hccl api failed.\n"
    return {
        "job.log": "".join(
            f"[INFO] 2024-05-21-11:50:54 (PID:92700{r}, Device:{r}, RankID:{r}) start\n" for r in range(8)
        )
        + "RuntimeError: [ERROR] HCCL error in: torch_npu/csrc/distributed/ProcessGroupHCCL.cpp:64\n"
        + t.format(r=n)
        + "EJ0001: Failed to initialize the HCCP process. Reason: Maybe the last training process is running.\n"
    }


def record_cont(n: int) -> Job:
    t = "2025-03-04 10:11:0{i},345 [{lv}] [rank {r}] {m}\n"
    return {
        "job.log": "".join(t.format(i=1, lv="INFO", r=r, m="lr 0.1") for r in range(8))
        + t.format(i=5, lv="ERROR", r=n, m="step failed:")
        + OOM
        + "\n"
        + t.format(i=6, lv="INFO", r=1, m="lr")
    }


def neuron(n: int) -> Job:
    return {
        "run.log": "world_size=8\n"
        + "".join(
            f"2023-Aug-01 16:10:46.2530 3320{r}:332506 [{r}] init.cc:1 CCOM INFO up\n" for r in range(8)
        )
        + f"2023-Aug-01 16:12:38.2530 3320{n}:332506 ERROR  TDRV:dmem_alloc  Failed to alloc DEVICE memory: 3221225472\n"
    }


def missing_follower(n: int) -> Job:
    to = "[rank{r}]:[E204 03:12:01.123456 ProcessGroupNCCL.cpp:616] [Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=600000) ran for 600061 milliseconds before timing out.\n"
    return {
        "job.log": "".join(f"[rank{r}]: lr 0.1\n" for r in range(8))
        + "OSError: [Errno 5] Input/output error: '/data/x'\n"
        + "".join(to.format(r=r) for r in range(8) if r != n)
    }


def missing_peer_lost(n: int) -> Job:
    to = "[rank{r}]: torch.distributed.DistBackendError: NCCL error in: x.cpp:33, remote process exited or there was a network error\n"
    return {
        "job.log": "".join(f"[rank{r}]: lr 0.1\n" for r in range(8))
        + OOM
        + "\n"
        + "".join(to.format(r=r) for r in range(8) if r != n)
    }


def jax_arrived(n: int) -> Job:
    return {
        "host0.log": f"E coordination: DEADLINE_EXCEEDED: Barrier timed out. Id: tpu_init. Some tasks never arrived: /job:jax_worker/replica:0/task:{n}\n"
    }


def vllm_tp(n: int) -> Job:
    return {
        "serve.log": "tensor_parallel_size=8 world_size=8\n"
        + "".join(f"(Worker_TP{r} pid=44{r}) INFO 03-04 10:11:12 [x.py:5] up\n" for r in range(8))
        + f"(Worker_TP{n} pid=44{n}) ERROR 03-04 10:12:12 [x.py:5] {OOM}\n"
    }


def sglang(n: int) -> Job:
    return {
        "serve.log": "tp_size=8, world_size=8\n"
        + "".join(f"[2025-03-04 10:11:12 TP{r}] up\n" for r in range(8))
        + f"[2025-03-04 10:12:12 TP{n}] {OOM}\n"
    }


def rust(n: int) -> Job:
    return {
        "t.log": "".join(
            f"2025-06-24T10:00:01.000000Z  INFO worker{{rank={r}}}: train::learner: batch=1 loss=2.2\n"
            for r in range(8)
        )
        + f"2025-06-24T10:00:09.000000Z  ERROR worker{{rank={n}}}: train::learner: {OOM}\n"
    }


def torchrun_ranks(n: int) -> Job:
    def res(g: int) -> str:
        return f"[2025-03-04 10:11:12,345] torch.distributed.elastic.agent.server.api: [INFO] [default] Rendezvous complete for workers. Result:\n  restart_count=0\n  master_addr=k0\n  master_port=29500\n  group_rank={g}\n  group_world_size=2\n  local_ranks=[0, 1, 2, 3]\n  role_ranks=[{4 * g}, {4 * g + 1}, {4 * g + 2}, {4 * g + 3}]\n  global_ranks=[{4 * g}, {4 * g + 1}, {4 * g + 2}, {4 * g + 3}]\n  role_world_sizes=[8, 8, 8, 8]\n  global_world_sizes=[8, 8, 8, 8]\n"

    d = {f"k{g}.log": res(g) for g in range(2)}
    d[f"k{n // 4}.log"] += (
        f"[2025-03-04 10:15:12,345] torch.distributed.elastic.multiprocessing.api: [ERROR] failed (exitcode: -9) local_rank: {n % 4} (pid: 4411) of binary: /usr/bin/python\n"
    )
    return d


def torchrun_cmd(n: int) -> Job:
    d = {
        f"k{g}.log": f"+ torchrun --nnodes=2 --nproc_per_node=4 --node_rank={g} --master_addr=k0 train.py\n[default0]: lr 0.1\n"
        for g in range(2)
    }
    d[f"k{n // 4}.log"] += f"[default{n % 4}]: {OOM}\n"
    return d


def sagemaker_algo(n: int) -> Job:
    return {
        "cw.log": "".join(f"[algo-{r + 1}] world_size=8 up\n" for r in range(8)) + f"[algo-{n + 1}] {OOM}\n"
    }


def vertex(n: int) -> Job:
    def nm(r: int) -> str:
        return "workerpool0-0" if r == 0 else f"workerpool1-{r - 1}"

    return {
        "v.log": "".join(f"{nm(r)} 2025-03-04T10:11:12Z INFO world_size=8 up\n" for r in range(8))
        + f"{nm(n)} 2025-03-04T10:15:12Z ERROR {OOM}\n"
    }


def gpu_heads(n: int) -> Job:
    return {
        "j.log": "world_size=8\n"
        + "".join(f"[GPU{r}] Epoch 1 | lr 0.1\n" for r in range(8))
        + f"[GPU{n}] {OOM}\n"
    }


def spawner(n: int) -> Job:
    start = "".join(f"09:00:00 spawn: r{r} -> pid {5120 + r}\n" for r in range(8))
    return {
        "spawn.log": start,
        "k3.kern": f"Mar  4 10:11:12 k3 kernel: python[{5120 + n}]: segfault at 18 ip 00007f3a1c2b0e41 sp 00007ffd5c0d8a10 error 4 in libx.so[7f3a1c280000+91000]\n",
    }


def supervisor(n: int) -> Job:
    start = "".join(f"2025-07-07 12:00:00,000 INFO spawned: 'rank{r}' with pid {310 + r}\n" for r in range(8))
    return {
        "supervisord.log": start
        + f"2025-07-07 15:41:12,000 WARN exited: rank{n} (terminated by SIGSEGV (core dumped); not expected)\n"
    }


def hydra_boxes(n: int) -> Job:
    box = "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK {r} PID 44{r} RUNNING AT k-a\n=   KILLED BY SIGNAL: {s}\n"
    return {
        "mpi.log": "[0] step 9  loss 3.4\n"
        + box.format(r=n, s="9 (Killed)")
        + "".join(box.format(r=r, s="15 (Terminated)") for r in range(8) if r != n)
    }


def interleaved_numbers(n: int) -> Job:
    return {
        "train.out": "".join(
            f"2026-05-05 05:05:0{s} [{r}] step={s} loss=2.{s} data_wait=0.02\n"
            for s in range(4)
            for r in range(8)
        )
        + f"2026-05-05 05:41:51 [{n}] {OOM}\n"
    }


def headers_of_files(n: int) -> Job:
    return {
        f"k{r // 4}-gpu{r % 4}.log": f"# k{r // 4} gpu{r % 4} global_rank {r}\n14:00 it 0\n"
        + (f"14:59 {OOM}\n" if r == n else "14:59 it 59\n")
        for r in range(8)
    }


def spawned_local_ranks(n: int) -> Job:
    mapping = "[INFO] [launch.py:164:main] global_rank_mapping=defaultdict(<class 'list'>, {'k0': [0, 1, 2, 3], 'k1': [4, 5, 6, 7]})\n"
    start = "".join(
        f"k{r // 4}: [2025-03-04 10:11:12,345] [INFO] [launch.py:253:main] process {4400 + r} spawned with command: ['python', '-u', 'train.py', '--local_rank={r % 4}']\n"
        for r in range(8)
    )
    return {
        "run.log": mapping + start,
        f"k{n // 4}.kern": f"Mar  4 10:21:12 k{n // 4} kernel: Memory cgroup out of memory: Killed process {4400 + n} (python) total-vm:9kB, anon-rss:9kB\n",
    }


def error_file_of_torchelastic(n: int) -> Job:
    return (
        {"agent.log": "world_size=8\n"}
        | {
            f"run_x1/attempt_0/{r}/error.json": '{"message": {"message": "%s", "extraInfo": {"timestamp": "1767262513"}}}'
            % (OOM if r == n else "SignalException: Process 4102 got signal: 15")
            for r in range(8)
        }
        | {f"run_x1/attempt_0/{r}/stderr.log": "loading\n" for r in range(8)}
    )


def pod_that_was_evicted(n: int) -> Job:
    logs = {
        f"llm-w-0-{r}-k2v9{r}.log": f"JOB_COMPLETION_INDEX={r} -> starting as rank {r} of 8\nstep 10 loss 9.1\n"
        for r in range(8)
    }
    head = "LAST SEEN   TYPE      REASON             OBJECT                          MESSAGE\n"
    return logs | {
        "events.txt": head
        + f"3m11s       Warning   Evicted            pod/llm-w-0-{n}-k2v9{n}             Pod ephemeral local storage usage exceeds the total limit of containers 200Gi.\n"
    }


def table_of_failures(n: int) -> Job:
    entry = "[{i}]:\n  time      : 2026-09-07_13:02:58\n  host      : k0\n  rank      : {r} (local_rank: {r})\n  exitcode  : 1 (pid: 44{r})\n"
    trace = f'[rank{n}]: Traceback (most recent call last):\n[rank{n}]:   File "t.py", line 3, in f\n[rank{n}]:     x\n[rank{n}]: RuntimeError: reduce said no\n'
    return {
        "job.log": trace
        + "Failures:\n"
        + entry.format(i=1, r=7)
        + "-----\nRoot Cause (first observed failure):\n"
        + entry.format(i=0, r=n)
    }


def table_in_the_order_of_ranks(n: int) -> Job:
    """Entries have the numbers of their ranks, all of one second; only the heading tells the first failure."""
    entry = "[{r}]:\n  time      : 2026-09-07_13:02:58\n  host      : k0\n  rank      : {r} (local_rank: {r})\n  exitcode  : 1 (pid: 44{r})\n"
    others = "".join(entry.format(r=r) for r in range(8) if r != n)
    text = f"Failures:\n{others}-----\nRoot Cause (first observed failure):\n{entry.format(r=n)}"
    return {"job.log": "step 10 loss 9.1\n" + text}


def missing_in_plain_words(n: int) -> Job:
    steps = "".join(f"2026-09-07 13:02:{second} step {second} loss 2.5\n" for second in range(10, 40))
    return {
        "job.log": steps
        + f"2026-09-07 13:12:40 ERROR [rank{8 - n}] gave up waiting for rank {n} at the barrier\n"
    }


def global_rank_behind_the_local_one(n: int) -> Job:
    """`torchrun --tee` numbers the processes of a node; the rank of the job is the process's own."""
    steps = "".join(f"[default{r % 4}]:[Rank {r}]: step {r} loss 2.1\n" for r in range(8))
    return {"slurm.out": f"WORLD_SIZE=8\n{steps}[default{n % 4}]:[Rank {n}]:{OOM}\n"}


def global_rank_in_torchs_own_line(n: int) -> Job:
    steps = "".join(f"[default{r % 4}]: step {r} loss 2.1\n" for r in range(32))
    end = f"[default{n % 4}]:[Rank {n}]:[E817 17:40:34.227531918 ProcessGroupNCCL.cpp:1515] [PG 0 (default_pg) Rank {n}] Process group watchdog thread terminated with exception: CUDA error: uncorrectable ECC error encountered\n"
    return {"slurm.out": f"WORLD_SIZE=16\n{steps}{end}"}


def jax_other_incarnation(n: int) -> Job:
    why = (
        f"ABORTED: {n} unexpectedly tried to connect with a different incarnation. It has likely restarted.\n"
    )
    end = "F0726 03:02:1{at}.122505 88 client.h:77] Terminating process because the JAX distributed service detected fatal errors. This most likely indicates that another task died. absl::Status: "
    return {
        "job.log": f"task=0 | E0726 03:02:19.240152 88 coordination_service.cc:1217] {why}"
        + "".join(f"task={r} | {end.format(at=r)}{why}" for r in range(8) if r != n)
    }


def glog_with_the_year(n: int) -> Job:
    def line(second: int, r: int, text: str) -> str:
        return f"I20261118 10:14:{second}.021682 44{r} t.cc:88] worker {r}/8 (tuna-0{r // 4}) {text}\n"

    steps = "".join(line(second, r, f"step={second} auc=0.81") for second in range(40, 44) for r in range(8))
    return {
        "trainer.INFO": steps
        + "E"
        + line(56, n, "Check failed: err == cudaSuccess (2 vs. 0) out of memory")[1:]
    }


JOBS: tuple[Callable[[int], Job], ...] = (
    global_rank_behind_the_local_one,
    global_rank_in_torchs_own_line,
    jax_other_incarnation,
    glog_with_the_year,
    missing_in_plain_words,
    table_of_failures,
    table_in_the_order_of_ranks,
    pod_that_was_evicted,
    pods_jax,
    pods_prefix_world,
    pods_master,
    pods_env,
    task_folders,
    of_its_own("logs/task_R/stderr"),
    of_its_own("logs/worker-R/out.log"),
    of_its_own("logs/R.log", "world_size=8\nlr 0.1\n"),
    of_its_own("train.R.out", "world_size=8\nlr 0.1\n"),
    tracker,
    host_local_global,
    ascend_cont,
    record_cont,
    neuron,
    missing_follower,
    missing_peer_lost,
    jax_arrived,
    vllm_tp,
    sglang,
    rust,
    torchrun_ranks,
    torchrun_cmd,
    sagemaker_algo,
    vertex,
    gpu_heads,
    spawner,
    supervisor,
    hydra_boxes,
    interleaved_numbers,
    headers_of_files,
    spawned_local_ranks,
    error_file_of_torchelastic,
)


@pytest.mark.parametrize("number", [2, 5])
@pytest.mark.parametrize("job", JOBS)
def test_the_rank_that_the_lines_tell(job: Callable[[int], Job], number: int, tmp_path: Path) -> None:
    assert culprit(tmp_path, job(number)) == number


NOT_TOLD: dict[str, Job] = {
    "pods of which each may run several ranks": {
        "all.log": "".join(f"[pod/llm-worker-{r}/pytorch] lr 0.1\n" for r in range(4))
        + f"[pod/llm-worker-2/pytorch] {OOM}\n"
    },
    "files of nodes": {
        f"{node}.log": "world_size=16\n" + (OOM if node == 1 else "lr") + "\n" for node in range(2)
    },
    "numbers that rise as steps do": {
        "a.log": "".join(f"2026-05-05 05:05:0{n} [{n}] lr 0.1\n" for n in range(8))
        + f"2026-05-05 05:06:00 [3] {OOM}\n"
    },
    "several that lost their peer": {
        "a.log": OOM
        + "\n"
        + "".join(f"[rank{r}]: NCCL error in: x.cpp:33, remote process exited\n" for r in (0, 1, 4))
    },
    "a line below a record of another time": {
        "a.log": f"2025-03-04 10:11:02 [ERROR] [rank 3] failed\n2025-03-04 10:11:03 {OOM}\n"
    },
    "two ports of one node": {
        "a.log": "".join(
            f"k{r // 8}:61{r}:62{r} [{r % 8}] NCCL INFO comm 0x5 rank {r} nranks 16 cudaDev {r % 8} nvmlDev {r % 8} busId {r}000 commId 0x1 - Init COMPLETE\n"
            for r in range(10, 16)
        )
        + "k0:610:620 [0] NCCL INFO comm 0x5 rank 0 nranks 16 cudaDev 0 nvmlDev 0 busId 1000 commId 0x1 - Init COMPLETE\n"
        + "".join(
            f"k1:61{r}:62{r} [{r % 8}] NCCL WARN NET/IB : mlx5_{r}:1 Got async event : port error\n"
            for r in (11, 14)
        )
    },
    "first ranks of each node": {
        f"k{node}.log": f"# k{node} global_rank {8 * node}\n" + (OOM if node == 1 else "lr 0.1") + "\n"
        for node in range(2)
    },
}


@pytest.mark.parametrize("job", NOT_TOLD.values(), ids=NOT_TOLD.keys())
def test_nobody_is_named_where_the_lines_do_not_tell(job: Job, tmp_path: Path) -> None:
    assert culprit(tmp_path, job) is None


def test_the_key_that_the_user_typed_is_no_failure(tmp_path: Path) -> None:
    typed = "^CW0412 21:10:44.100000 880 torch/distributed/elastic/agent/server/api.py:719] Received Signals.SIGINT death signal, shutting down workers\n"
    (tmp_path / "console.txt").write_text("step 0 loss 2.3\nstep 100 loss 1.9\n" + typed)
    report = judged(scan(gather([tmp_path]), PACKS.rules, "agent", cores=1), PACKS, 1.8e9, 0.0)
    assert (report.incidents, {alert.severity for alert in report.outside} - {"info"}) == ((), set())
