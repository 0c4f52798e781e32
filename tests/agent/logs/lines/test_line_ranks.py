"""Which rank writes a line, and which one it says has failed."""

from __future__ import annotations

from time import process_time

import pytest

from gpuwatch.agent.logs.lines.line_ranks import LineRanks, line_ranks

WRITERS = (
    "[rank {n}] boom",
    "[Rank {n}/64] boom",
    "[RANK:{n}] boom",
    "[PID:4411] [RANK:{n}] boom",
    "[2025-03-04 10:11:12,345] [ERROR] [engine.py:88] [PID:4411] [RANK:{n}] boom",
    "[rank={n}]: boom",
    "rank={n} boom",
    "rank:  {n} | 2025-03-04 10:11:12,345 CRITICAL | boom",
    "rank {n}: boom",
    "rank{n} | boom",
    "Rank_{n}: boom",
    "RANK={n} boom",
    "2025-03-04 10:11:12,345 - lab.trainer - ERROR - rank {n} - boom",
    "2025-03-04 10:11:12 | ERROR | rank {n}/64 | boom",
    "(rank {n}) boom",
    "<rank {n}> boom",
    "ERROR:lab.trainer:[global_rank={n}] boom",
    "[warning] [store.cc:12] rank {n}: boom",
    "[job7, rank {n}, gpu 1] boom",
    "global rank {n}: boom",
    "[node7:rank {n}] boom",
    '{{"at": "2025-03-04T10:11:12Z", "rank": {n}, "msg": "boom"}}',
    '{{"level": "error", "message": "boom", "global_rank": "{n}"}}',
    'ts=2025-03-04T10:11:12Z level=error rank={n} msg="boom"',
    "Initializing distributed: GLOBAL_RANK: {n}, MEMBER: 4/64",
    "Worker rank {n} | boom",
    "hvd.rank()={n}: boom",
    "dist.get_rank(): {n} boom",
    "comm.Get_rank() = {n}: boom",
    "[ERROR] HCCL(4411,python):2025-03-04-10:11:12.345 [rank[{n}]] boom",
    "[rank {n} (local 1)] boom",
    "[global {n} local 1] boom",
    "{{'rank': {n}, 'error': 'boom'}}",
    '{{"level":"ERROR","globalRank":{n},"message":"boom"}}',
    '{{"severity":"ERROR","rank_id":{n},"message":"boom"}}',
    "boom @ rank {n}",
    "boom, rank {n}",
    "boom, rank={n}",
    "boom - rank {n}",
    "boom; rank {n} step=5",
    "[ Info: rank = {n} boom",
)
FAILED = (
    "rank {n} died from signal 6 and dumped core",
    "n1.example: rank {n} died from signal 9",
    "launcher: lost contact, rank {n} is gone",
    "the process of rank {n} was killed",
    "mpirun noticed that process rank {n} with PID 11 on node n1 exited on signal 6",
    "Process name: [[4411,1],{n}]",
    "Container rank {n} status failed cmd ['python', 'fit.py'] code 1",
    "out of memory on rank {n}",
    "invalid device at comm.cc:7 [rank {n}/64 on n1]",
    "exception from rank {n}: no route",
    "UNAVAILABLE: Task /job:jax_worker/replica:0/task:{n} heartbeat timeout.",
    "[rank 63] the coordinator says that rank {n} crashed",
    "MPI_ABORT was invoked on rank {n} in communicator X",
    'prterun has exited due to process rank {n} with PID 0 on node n4 calling "abort".',
    "   Process name: [prterun-n4-4411@1,{n}]",
    "=   RANK {n} PID 4411 RUNNING AT n4",
    "<< Rank {n} on host n4 exited 137",
    "Worker rank {n} errored: boom",
    "\u8fdb\u7a0b rank {n} \u9000\u51fa",
)
INDEXES = (
    ("worker", "worker {n}: boom"),
    ("worker", "[worker-{n}] boom"),
    ("worker", "worker {n} bailed out: no shard"),
    ("worker", '{{"src": "launcher", "worker": {n}, "msg": "boom"}}'),
    ("task", "srun: error: n1: task {n}: Illegal instruction (core dumped)"),
    ("task", 'level=error task_index={n} msg="boom"'),
    ("process", "[process_index={n}] boom"),
    ("process", "proc {n} | boom"),
    ("pe", "[PE {n}] boom"),
    ("letter", "r{n}: boom"),
    ("letter", "[R{n}] boom"),
    ("replica", "replica {n} | boom"),
    ("trainer", "trainer-{n}: boom"),
    ("bare", "[{n}] boom"),
    ("inner", "[2025-03-04 10:11:12.345: E operations.cc:697] [{n}]: boom"),
    ("inner", "ERROR 2025-03-04 10:11:12,345 distributed.py:44] [{n}] boom"),
    ("process", "Process {n}: boom"),
    ("process", "[process={n}] boom"),
    ("process", "Process {n} exit with status code 1."),
    ("process", "-- Process {n} terminated with the following exception:"),
    ("process", "[proceso {n}] boom"),
    ("process", "\u8fdb\u7a0b {n} \u51fa\u9519: boom"),
    ("letter", "r{n} 2025-03-04 10:11:12.345 boom"),
    ("letter", "R:{n} boom"),
    ("letter", "[p{n}] boom"),
    ("ordinal", "[xla:{n}] boom"),
    ("device", "[GPU{n}] boom"),
)
LOCALS = ("[local_rank {n}] boom", "local rank {n}: boom", 'level=error local_rank={n} msg="boom"')
NOBODY = (
    "ERROR: Command '['train.py', '--style', 'rank0', '--hub', '127.0.0.1']' returned exit status 1",
    "subprocess.CalledProcessError: Command '['train.py', '--log', 'rank0']' returned exit status 1",
    "boom",
    "rank 2 waits for rank 5",
    "rank 5 is the one that rank 2 waits for",
    "recv from rank 5 timed out",
    "connection to rank 5 closed",
    "ranks 1-3 timed out",
    "expected rank 3 tensor",
    "expected a tensor of rank 4 but got rank 3",
    "LoRA rank 8 does not fit",
    "ValueError: rank 16 adapter does not match rank 8 in the file",
    "lora_rank=8",
    "tp rank 3: boom",
    "pipeline parallel rank 2 | boom",
    "node rank 1: boom",
    "Caught KeyError in DataLoader worker process 3.",
    "DataLoader worker 3 exited",
    "rank 3 died, and rank 5 died",
    "page rank 3",
    "n1:44:45 [3] NCCL WARN boom",
    "loss 3.2 [3/8]",
    "the low-rank factors have rank 16",
    "process 44112: boom",
    "p99: 12 ms",
    "r2 score 0.91",
    "closed by the peer, rank 3",
    "ranks 0, 1, rank 3",
    "gpu 3 is at 81 C",
    "takes 3 - rank 8 and rank 9",
)


@pytest.mark.parametrize("line", WRITERS)
@pytest.mark.parametrize("number", [0, 3, 41])
def test_writer_is_the_rank_in_the_head(line: str, number: int) -> None:
    found = line_ranks(line.format(n=number))
    assert (found.rank, found.phrase) == (number, False)


@pytest.mark.parametrize("line", FAILED)
@pytest.mark.parametrize("number", [0, 3, 41])
def test_sentence_names_the_failed_rank(line: str, number: int) -> None:
    found = line_ranks(line.format(n=number))
    assert (found.rank, found.phrase) == (number, True)


@pytest.mark.parametrize(("word", "line"), INDEXES)
@pytest.mark.parametrize("number", [0, 3, 41])
def test_general_words_give_an_index_and_no_rank(word: str, line: str, number: int) -> None:
    found = line_ranks(line.format(n=number))
    assert (found.rank, found.index, found.word) == (None, number, word)


@pytest.mark.parametrize("line", LOCALS)
def test_local_ranks_are_no_ranks(line: str) -> None:
    found = line_ranks(line.format(n=3))
    assert (found.rank, found.local_rank, found.index) == (None, 3, None)


@pytest.mark.parametrize("line", NOBODY)
def test_other_numbers_name_nobody(line: str) -> None:
    assert line_ranks(line).empty


@pytest.mark.parametrize("line", WRITERS + FAILED)
def test_without_the_word_there_is_no_rank(line: str) -> None:
    found = line_ranks(
        line.format(n=3)
        .lower()
        .replace("rank", "tank")
        .replace("jax_worker", "x")
        .replace("process name", "x")
        .replace("[global", "[x")
    )
    assert found.rank is None


@pytest.mark.parametrize(
    ("line", "rank", "local"),
    [("[local_rank: 1] [rank: 9] boom", 9, 1), ('{"local_rank": 1, "rank": 9, "msg": "x"}', 9, 1)],
)
def test_rank_and_local_rank_of_one_line(line: str, rank: int, local: int) -> None:
    found = line_ranks(line)
    assert (found.rank, found.local_rank) == (rank, local)


def test_world_size_beside_the_rank() -> None:
    assert [line_ranks(line).world for line in ("[rank 3/8] x", "worker 3 of 8: x", "rank 3: x")] == [
        8,
        8,
        None,
    ]


@pytest.mark.long
@pytest.mark.parametrize(
    "line",
    ["[rank 3" * 3000, "rank 3 " * 3000, "a=1 rank" * 3000, "worker " * 4000, "((((" * 4000 + "rank 3"],
)
def test_the_time_for_a_line_grows_with_its_length(line: str) -> None:
    def took(text: str) -> float:
        began = process_time()
        for _ in range(20):
            assert isinstance(line_ranks(text), LineRanks)
        return process_time() - began

    whole, quarter = (min(took(text) for _ in range(3)) for text in (line, line[: len(line) // 4]))
    assert whole < 12 * quarter, "16 times would be the square"
