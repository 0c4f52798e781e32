"""Real gloo ranks through the worker: every collective and both directions of a pair, and right results."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import pytest

from gpuwatch.probe.probe_request import COLLECTIVES, MIB, Collective
from tests.probe.ranks.driver import Cluster
from tests.sentences import Sentences

RANKS = 3
LISTEN = "0A"


def listeners(pids: list[int]) -> set[str]:
    """Hexadecimal addresses, without the port, on which these processes listen."""
    links = {str(fd.readlink()) for pid in pids for fd in Path(f"/proc/{pid}/fd").iterdir()}
    inodes = {link.removeprefix("socket:[").removesuffix("]") for link in links}
    rows = []
    for table in ("tcp", "tcp6"):
        path = Path(f"/proc/net/{table}")
        if path.exists():
            rows += [line.split() for line in path.read_text("utf-8").splitlines()[1:]]
    return {row[1].partition(":")[0] for row in rows if row[3] == LISTEN and row[9] in inodes}


def test_every_rank_says_what_it_runs(cluster: Cluster) -> None:
    """One import a node, the pid of every rank, and nothing that gloo cannot do here."""
    ready = cluster.ready()
    assert sorted(message.rank for message in ready) == list(range(RANKS))
    assert len({message.pid for message in ready}) == RANKS
    assert {message.backend for message in ready} == {"gloo"}
    assert all(message.torch[0] == "2" and message.import_s and message.init_s for message in ready)
    assert ready[0].lacks == ready[1].lacks


@pytest.mark.parametrize("size", [4, 4096, MIB + 4])
@pytest.mark.parametrize("op", COLLECTIVES)
def test_a_collective_is_timed_on_every_rank_and_its_result_is_right(
    cluster: Cluster, op: Collective, size: int
) -> None:
    """Also for sizes that the ranks cannot share evenly.

    Document 004, line 167.
    """
    done = cluster.do("collective", collective=op, bytes=size, check=True, warmup=1, iterations=3)
    if op in cluster.ready()[0].lacks:
        assert all(op in (message.error or "") for message in done)
        return
    assert [message.error for message in done] == [None] * RANKS
    assert [message.correct for message in done] == [True] * RANKS
    assert all(len(message.times_s) == 3 and min(message.times_s) > 0 for message in done)


def test_nothing_is_compared_unless_it_is_asked(cluster: Cluster) -> None:
    """`correct` stays unknown."""
    done = cluster.do("collective", collective="all_reduce", bytes=4096)
    assert [message.correct for message in done] == [None] * RANKS


@pytest.mark.parametrize("pair", [(0, 1), (1, 0), (0, 2), (2, 0)])
def test_a_pair_is_measured_one_way(cluster: Cluster, pair: tuple[int, int]) -> None:
    """The receiver times bandwidth, the sender latency; both ends answer, the third rank does not."""
    done = cluster.do("bandwidth", answers=2, pairs=[pair], bytes=MIB, check=True, iterations=4)
    ends = {message.rank: message for message in done}
    source, destination = pair
    assert [message.error for message in done] == [None, None]
    assert (ends[source].peer, ends[destination].peer) == (destination, source)
    assert len(ends[destination].times_s) == 4 and not ends[source].times_s
    assert ends[destination].correct is True
    done = cluster.do("latency", answers=2, pairs=[pair], bytes=8, warmup=5, iterations=20)
    ends = {message.rank: message for message in done}
    assert len(ends[source].times_s) == 20 and not ends[destination].times_s
    assert 0 < statistics.median(ends[source].times_s) < 1


def test_a_gpu_check_of_a_cpu_rank_says_so(cluster: Cluster) -> None:
    """And only the ranks that were named answer."""
    done = cluster.do("matmul", answers=1, ranks=[1])
    assert [(message.rank, message.error) for message in done] == [(1, "no GPU")]


def test_a_pair_whose_other_end_did_not_come_connects_anew(cluster: Cluster, sentences: Sentences) -> None:
    """Measured, failed on one side alone, measured again."""
    pair: dict[str, Any] = {"pairs": [(0, 2)], "bytes": 4096}
    assert [message.error for message in cluster.do("bandwidth", answers=2, **pair)] == [None, None]
    alone = cluster.step("latency", timeout_s=0.3, **pair)
    cluster.workers[0].send(alone)
    (done,) = cluster.done(alone.id, 1)
    sentences(done.error)
    assert [message.error for message in cluster.do("bandwidth", answers=2, **pair)] == [None, None]


def test_nothing_listens_on_every_interface_and_only_the_worker_of_the_store_holds_its_socket(
    cluster: Cluster,
) -> None:
    """torch's own store would listen on all; gloo's ranks listen on the interface they were given."""
    cluster.do("bandwidth", answers=2, pairs=[(0, 2)], bytes=4096)
    workers = [worker.process.pid for worker in cluster.workers]
    assert listeners([message.pid for message in cluster.ready()]) == {"0100007F"}
    assert listeners(workers[:1]) == {"0100007F"}
    assert listeners(workers[1:]) == set()
