"""What a node lists of another node's rank, alive or ended: it neither hides nor invents the end of it."""

from __future__ import annotations

import pytest
from msgspec import structs

from gpuwatch import wire
from gpuwatch.link.stream.inbox import LinkStatus
from gpuwatch.report.once.problems.health import placed_conditions
from tests.diagnose.incidents.alert_cluster import Watched, idle

LIAR, VICTIM, RANK = "gpu-003", "gpu-002", 9
BLOCK = {"LOCAL_WORLD_SIZE": "8"}


class Hostile(Watched):
    """gpu-003 lists ranks of the job of the other two nodes."""

    def __init__(self, *, first: bool) -> None:
        super().__init__()
        idle(self, LIAR)
        if first:
            nodes = self.fleet.nodes
            self.fleet.nodes = {LIAR: nodes[LIAR], **{name: nodes[name] for name in nodes if name != LIAR}}
        self.began = self.t - 3000
        for name in self.names:
            self.report(name, wire.Sample(t=self.t, seq=3, host=wire.HostSample(t=self.t)))
        for name in ("gpu-001", VICTIM):
            listed = [structs.replace(each, variables=BLOCK) for each in self.fleet.nodes[name].processes]
            self.report(name, wire.Ranks(t=self.t, seq=4, processes=listed))

    def lie(self, ranks: list[int], state: str, *, status: int | None = None) -> None:
        listed = [
            wire.Process(
                700 + rank, "python", rank=rank, local_rank=rank % 8, job="4711", world_size=16,
                start=self.began, state=state, exit_status=status,
            )
            for rank in ranks
        ]  # fmt: skip
        self.report(LIAR, wire.Ranks(t=self.t, seq=7, processes=listed))

    def end(self, rank: int) -> None:
        for name in ("gpu-001", VICTIM):
            left = [each for each in self.fleet.nodes[name].processes if each.rank != rank]
            self.report(name, wire.Ranks(t=self.t, seq=6, processes=left))

    def named(self) -> set[tuple[int | None, str | None]]:
        return {(each.rank, each.node) for each in self.book.incidents if not each.over}

    def reported(self) -> set[tuple[str, str]]:
        """What `once` names: the node and the condition."""
        found = [
            each for each in placed_conditions(self.fleet, self.now) if each.condition.code == "rank_missing"
        ]
        return {(each.node.name, each.condition.code) for each in found}


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("claimed", [[RANK], list(range(16))])
def test_a_rank_that_another_node_lists_as_living_is_missed_on_its_own(
    claimed: list[int], *, first: bool
) -> None:
    cluster = Hostile(first=first)
    cluster.lie(claimed, "S")
    cluster.step(4)
    cluster.end(RANK)
    cluster.wait()
    cluster.wait()
    assert (RANK, VICTIM) in cluster.named()


@pytest.mark.sampled(5)
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("claimed", [[RANK], list(range(8, 16)), [RANK, *range(20, 40)]])
@pytest.mark.parametrize("ended", [RANK, 3])
def test_a_copied_boot_id_hides_no_missing_rank(claimed: list[int], ended: int, *, first: bool) -> None:
    cluster = Hostile(first=first)
    for name in (VICTIM, LIAR):
        greeting = cluster.fleet.nodes[name].hello
        assert greeting is not None
        cluster.report(name, structs.replace(greeting, boot_id="one"))
    cluster.lie([*claimed, ended], "S")
    cluster.step(4)
    cluster.end(ended)
    cluster.wait()
    cluster.wait()
    honest = {(rank, node) for rank, node in cluster.named() if node != LIAR}
    assert honest == {(ended, VICTIM if ended == RANK else "gpu-001")}


@pytest.mark.parametrize("first", [False, True])
def test_a_rank_that_a_liar_lists_no_more_is_not_missed(*, first: bool) -> None:
    cluster = Hostile(first=first)
    cluster.lie([RANK, 3], "S")
    cluster.step(4)
    cluster.lie([3], "S")
    cluster.wait()
    cluster.wait()
    assert cluster.named() == set()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("zombies", [[3], [RANK], [3, RANK], list(range(16))])
def test_an_ended_process_on_another_node_moves_no_missing_rank(zombies: list[int], *, first: bool) -> None:
    """Rank 3 was gone before anybody looked; its siblings on gpu-001 show that it belongs there."""
    cluster = Hostile(first=first)
    cluster.end(3)
    cluster.book = cluster.book.renewed()
    cluster.lie(zombies, "Z", status=-9)
    for _ in range(3):
        cluster.wait()
    assert cluster.named() == {(3, "gpu-001")}
    assert cluster.reported() == {("gpu-001", "rank_missing")}


def test_a_rank_that_was_started_anew_elsewhere_is_not_missed() -> None:
    cluster = Hostile(first=False)
    cluster.step(4)
    cluster.end(RANK)
    cluster.step(4)
    cluster.lie([RANK], "S")
    cluster.wait()
    cluster.wait()
    assert cluster.named() == set()


def test_the_step_that_ends_a_job_counts_from_the_nodes_that_run_it() -> None:
    cluster = Hostile(first=False)
    cluster.report(LIAR, LinkStatus("live"))
    for node, step in (("gpu-001", 40), (LIAR, 100)):
        progress = wire.Progress(
            t=cluster.t, seq=8, file=f"/{node}/x.log", offset=9, at=cluster.t, timed=True, dialect="x",
            fields={"step": step, "total_steps": 100}, job="4711", rank=RANK if node == LIAR else 0,
        )  # fmt: skip
        cluster.report(node, progress)
    cluster.step(4)
    cluster.end(RANK)
    cluster.wait()
    cluster.wait()
    assert (RANK, VICTIM) in cluster.named()
