"""torch 2.1 to 2.15: what a version lacks or renames is found by trying, and nothing deprecated is called.

Warnings are errors in every worker of these tests.
"""

from __future__ import annotations

import pytest

from gpuwatch.probe.protocol import NodeSlot, Note, Prepare, Step
from gpuwatch.probe.ranks.shared import orders
from tests.parts import need_torch
from tests.probe.ranks.driver import Cluster
from tests.sentences import Sentences

SHARED = ("all_gather", "reduce_scatter")
HIDE = "import torch.distributed as d; [d.__dict__.pop(n, None) for n in {names}];"
ONLY_OLD = HIDE.format(names=("all_gather_single", "reduce_scatter_single"))
"""As before torch 2.13: the old names do not warn there, which this copies."""
QUIET = "import warnings; warnings.simplefilter('ignore', FutureWarning);"
ONLY_LISTS = HIDE.format(
    names=(
        "all_gather_single",
        "all_gather_into_tensor",
        "reduce_scatter_single",
        "reduce_scatter_tensor",
    )
)
ONLY_NEW = (
    "import torch.distributed as d;"
    "d.all_gather_single = getattr(d, 'all_gather_single', None) or d.all_gather_into_tensor;"
    "d.reduce_scatter_single = getattr(d, 'reduce_scatter_single', None) or d.reduce_scatter_tensor;"
    "[d.__dict__.pop(n, None) for n in ('all_gather_into_tensor', 'reduce_scatter_tensor')];"
)
REFUSES = (
    "import torch.distributed as d;"
    "exec('def no(*a, **k): raise RuntimeError(\\'ProcessGroupGloo does not support it\\')');"
    "d.reduce_scatter_single = d.reduce_scatter_tensor = d.reduce_scatter = no;"
)


@pytest.fixture(autouse=True)
def _torch() -> None:
    need_torch()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("before", [QUIET + ONLY_OLD, ONLY_LISTS, ONLY_NEW], ids=["old", "lists", "new"])
def test_any_of_the_names_will_do(before: str) -> None:
    """Single tensors by their new or old name, or lists of tensors."""
    with Cluster((2,), before=before) as cluster:
        for message in cluster.ready():
            assert set(message.lacks) <= {"reduce_scatter"}
        for op in set(SHARED) - set(cluster.ready()[0].lacks):
            done = cluster.do("collective", collective=op, bytes=4096, check=True)
            assert [(message.correct, message.error) for message in done] == [(True, None)] * 2


def test_what_a_backend_cannot_do_is_lacking_and_nothing_else(sentences: Sentences) -> None:
    """It says so when it is asked all the same, and the ranks work on."""
    with Cluster((2,), before=REFUSES) as cluster:
        assert {tuple(message.lacks) for message in cluster.ready()} == {("reduce_scatter",)}
        done = cluster.do("collective", collective="reduce_scatter", bytes=4096)
        sentences(list({message.error for message in done}))
        done = cluster.do("collective", collective="all_gather", bytes=4096, check=True)
        assert [message.correct for message in done] == [True, True]
        assert not cluster.all_of(Note, 0)


@pytest.mark.long
def test_a_world_of_one_measures_what_makes_sense() -> None:
    """A single GPU, or one CPU rank: nobody to send to."""
    with Cluster((1,)) as cluster:
        assert set(cluster.ready()[0].lacks) - {"reduce_scatter"} == {"send_recv"}
        (done,) = cluster.do("collective", collective="all_reduce", bytes=4096, check=True)
        assert done.correct is True


def test_orders_are_read_with_the_defaults_that_talk_leaves_out() -> None:
    """The nodes have no msgspec: both sides must mean the same by a missing field."""
    step = Step(id=1, what="copy")
    prepare = Prepare(backend="gloo", world_size=1, slots=[], store_address="::1", store_port=2)
    slot = NodeSlot(rank=1, local=0)
    for ours, theirs in (
        (orders.StepFields(1, "copy"), step),
        (orders.PrepareFields("gloo", 1, "::1", 2), prepare),
        (orders.SlotFields(1, 0), slot),
    ):
        assert vars(ours) == {name: getattr(theirs, name) for name in theirs.__struct_fields__}
    assert orders.read(
        orders.StepFields, {"id": 1, "what": "copy", "of_a_later_version": 3}
    ) == orders.StepFields(1, "copy")


def test_a_rank_gets_only_its_own_part() -> None:
    """512 pairs in one step must not fill the pipe of a rank that is busy."""
    step = {"do": "step", "id": 1, "what": "latency", "pairs": [[0, 1], [2, 3]]}
    assert orders.part_of(3, step) == dict(step, pairs=[[2, 3]])
    assert orders.part_of(4, step) is None
    assert orders.part_of(4, {"do": "step", "id": 1, "what": "copy", "ranks": [4]}) is not None
    assert orders.part_of(4, {"do": "step", "id": 1, "what": "copy", "ranks": [5]}) is None
    assert orders.part_of(4, {"do": "step", "id": 1, "what": "copy"}) is not None
    assert orders.part_of(4, {"do": "stop"}) == {"do": "stop"}
