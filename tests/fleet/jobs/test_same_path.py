"""Ended jobs with one path on the disks of several nodes."""

from __future__ import annotations

import pytest
from msgspec import structs

from gpuwatch import wire
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.link.stream.inbox import Arrival
from tests.diagnose.finding import T0
from tests.report.fleets import plan

PATH = "/srv/run/rank{}.log"


def found(rank: int, print_of: str | None, path: str = PATH, identity: str | None = None) -> wire.LogFile:
    return wire.LogFile(
        path.format(rank),
        source="found",
        last_at=T0,
        ranks=[rank],
        fingerprint=None if print_of is None else f"{print_of}-{rank}",
        identity=identity,
        searched_to=1,
    )


def jobs_of(*nodes: list[wire.LogFile], findings: bool = False) -> list[set[str | None]]:
    """The jobs of each node's files, after each has listed its own twice; or of its findings."""
    names = [f"n{index}" for index in range(len(nodes))]
    fleet = Fleet(plan(*names))
    for _ in range(2):
        for name, files in zip(names, nodes, strict=True):
            fleet.apply(Arrival(name, 1.0, wire.Logs(t=T0, seq=1, files=files, complete=True)))
            text = wire.Finding(t=T0, seq=2, id=1, rule="oom.cuda", severity="error", file=files[0].path,
                                offset=0, at=T0, lines=["x"])  # fmt: skip
            fleet.apply(Arrival(name, 1.0, text))
    if findings:
        return [{f.finding.job for f in fleet.findings.values() if f.node == name} for name in names]
    return [{file.job for file in fleet.nodes[name].logs} for name in names]


@pytest.mark.parametrize("findings", [False, True])
def test_strangers_on_private_disks_are_two_jobs(*, findings: bool) -> None:
    reported = jobs_of([found(0, "a"), found(2, "a")], [found(0, "b"), found(1, "b")], findings=findings)
    assert reported == [{"srv/run@n0"}, {"srv/run@n1"}]


def test_nodes_whose_ranks_make_one_job_are_of_one() -> None:
    assert jobs_of([found(0, "a"), found(1, "a")], [found(2, "b"), found(3, "b")]) == [{"srv/run"}] * 2


@pytest.mark.parametrize(("later_s", "jobs"), [(4.0, 1), (4000.0, 2)])
def test_launchers_logs_without_ranks_are_of_one_job_if_they_end_together(later_s: float, jobs: int) -> None:
    first = structs.replace(found(0, "a", "/srv/run/train.log"), ranks=[])
    other = structs.replace(found(0, "b", "/srv/run/train.log"), ranks=[], last_at=T0 + later_s)
    assert len(set.union(*jobs_of([first], [other]))) == jobs


def test_nodes_are_not_distinguished_before_their_files_are_searched_to_the_end() -> None:
    partly = [structs.replace(found(0, "a"), size=2), structs.replace(found(1, "a"), size=2, ranks=[])]
    fleet = Fleet(plan("n0", "n1"))
    for name, files in (
        ("n1", [found(2, "b"), found(3, "b")]),
        ("n0", partly),
        ("n0", [found(0, "a"), found(1, "a")]),
    ):
        fleet.apply(Arrival(name, 1.0, wire.Logs(t=T0, seq=1, files=files, complete=True)))
    assert {file.job for name in ("n0", "n1") for file in fleet.nodes[name].logs} == {"srv/run"}


def test_a_file_that_both_see_is_of_one_job() -> None:
    assert jobs_of([found(0, "a")], [found(0, "a")]) == [{"srv/run"}] * 2
    assert jobs_of([found(0, None, identity="nfs")], [found(0, None, identity="nfs")]) == [{"srv/run"}] * 2


def test_an_id_in_the_path_is_that_of_the_job_on_all_nodes() -> None:
    path = "/tmp/torchelastic_x/night_abcd1234/attempt_0/{}/stderr.log"
    assert jobs_of([found(0, "a", path)], [found(0, "b", path)]) == [{"night"}] * 2


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_node_without_the_files_of_the_run_takes_its_name_from_the_other(order: tuple[int, int]) -> None:
    """Torchrun's own logs were found on one node only, beside the logs of the ranks."""
    logs = "/srv/la/logs/rank{}.log"
    run = found(0, "r", "/srv/la/tr/la_abcd1234/attempt_0/{}/stderr.log")
    nodes = [[found(0, "a", logs), found(1, "a", logs), run], [found(2, "b", logs), found(3, "b", logs)]]
    assert jobs_of(*(nodes[each] for each in order)) == [{"la"}] * 2
