"""The NCCL path without a GPU: gloo under NCCL's name, the CPU under CUDA's; real ones in tests/gpu."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpuwatch.probe.probe_request import COLLECTIVES
from gpuwatch.probe.protocol import Died, Transport
from tests.parts import need_torch
from tests.probe.ranks.driver import Cluster
from tests.sentences import Sentences

GLOO_LACKS = {"reduce_scatter"}
"""What gloo could not do in older versions."""
SIMULATED = "import tests.probe.ranks.simulated_cuda;"


@pytest.fixture(autouse=True)
def _torch() -> None:
    need_torch()


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    need_torch()
    with Cluster((2, 1), before=SIMULATED, backend="nccl") as made:
        made.ready()
        yield made


def test_a_rank_tells_its_gpu_and_which_nccl_it_has(cluster: Cluster) -> None:
    """It sees its own GPU alone, by UUID, and knows which of torch's NCCL back ends it got."""
    for message in cluster.ready():
        assert (message.backend, message.nccl, message.nccl_backend) == ("nccl", "2.27.3", "nccl2")
        assert (message.gpu, message.device) == (f"GPU-{message.rank}", f"Simulated GPU-{message.rank}")
        assert set(message.lacks) <= GLOO_LACKS


def test_what_nccl_prints_becomes_a_transport(cluster: Cluster) -> None:
    """On its stdout, as NCCL does by itself; reported once a rank."""
    reported = cluster.all_of(Transport, 3)
    assert sorted((message.rank, message.transports) for message in reported) == [
        (r, ["NET/Socket"]) for r in range(3)
    ]


@pytest.mark.parametrize("op", COLLECTIVES)
def test_collectives_are_right_and_timed_by_events(cluster: Cluster, op: str) -> None:
    """One time for every iteration."""
    if op in cluster.ready()[0].lacks:
        pytest.skip(f"this torch's gloo, which stands in here, cannot do {op}")
    done = cluster.do("collective", collective=op, bytes=1 << 14, check=True, iterations=4)
    assert [(message.correct, message.error, len(message.times_s)) for message in done] == [
        (True, None, 4)
    ] * 3


@pytest.mark.sampled(1)
@pytest.mark.parametrize("alone", [False, True])
def test_pairs_exchange_inside_the_group_of_all_or_in_a_world_of_two(cluster: Cluster, alone: bool) -> None:
    """The receiver times bandwidth, the sender latency; pairs change partners."""
    if not alone:
        measure_pairs(cluster)
        return
    with Cluster((2, 1), before=SIMULATED, backend="nccl", pairs_only=True) as apart:
        assert {tuple(message.lacks) for message in apart.ready()} == {COLLECTIVES}
        measure_pairs(apart)
        assert apart.stop() == [0, 0]


def measure_pairs(cluster: Cluster) -> None:
    for pair in ((0, 1), (1, 0), (2, 0), (1, 2)):
        done = cluster.do("bandwidth", answers=2, pairs=[pair], bytes=1 << 14, check=True)
        times = {message.rank: (message.error, message.correct, len(message.times_s)) for message in done}
        assert times == {pair[0]: (None, True, 0), pair[1]: (None, True, 5)}
        done = cluster.do("latency", answers=2, pairs=[pair], bytes=8)
        assert {message.rank: len(message.times_s) for message in done} == {pair[0]: 5, pair[1]: 0}


@pytest.mark.parametrize("what", ["matmul", "copy", "h2d", "d2h"])
def test_gpu_checks_give_a_rate(cluster: Cluster, what: str) -> None:
    """FLOP/s or bytes per second, on every rank."""
    done = cluster.do(what, bytes=1 << 16, iterations=3)
    assert all(message.error is None and message.value and len(message.times_s) == 3 for message in done)


def test_a_gpu_that_never_finishes_is_given_up_and_reported(
    monkeypatch: pytest.MonkeyPatch, sentences: Sentences
) -> None:
    """Every later step is answered at once, since it would wait behind; stopping does not hang."""
    monkeypatch.setenv("SIMULATED_STUCK", "1")
    with Cluster((2,), before=SIMULATED, backend="nccl", timeout_s=0.2) as cluster:
        cluster.ready()
        done = cluster.do("copy", bytes=1024, timeout_s=0.2)
        sentences(list({message.error for message in done}))
        done = cluster.do("matmul", timeout_s=20.0)
        sentences(list({message.error for message in done}))
        assert cluster.stop() == [0]


def test_a_gpu_that_cannot_be_used_ends_its_rank_with_the_reason(sentences: Sentences) -> None:
    """Here: this torch has no CUDA."""
    with Cluster((1,), backend="nccl") as cluster:
        (died,) = cluster.all_of(Died, 1)
        sentences(died.reason.partition(": ")[0])
