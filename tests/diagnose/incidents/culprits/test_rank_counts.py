"""What an incident counts and names agrees with the number of ranks that the job announces."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from gpuwatch.diagnose.incidents.builder import within_world
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.diagnose.model.rank_index import RankIndex
from tests.diagnose.finding import PACK, Pack, Reporter, places, rule

STALL = Pack((*PACK.rules, rule("horovod.stall", "error", "first", title="Horovod waits for ranks")))
NUMBERED = re.compile(r"\branks? (\d+(?:[-,] ?\d+)*)")
COUNTED = re.compile(r"\b(\d+) (?:of \d+ |other |more )?ranks?\b")
TOTALS = re.compile(r"\bof (\d+) ranks?\b")
KINDS = (
    "nccl.watchdog_timeout",
    "horovod.stall",
    "peer.connection_lost",
    "rank.killed",
    "oom.cuda",
    "rank.abort",
)

Line = tuple[str, float, int, list[int]]
LINES = st.lists(
    st.tuples(
        st.sampled_from(KINDS), st.floats(0, 900), st.integers(0, 9), st.lists(st.integers(0, 9), max_size=3)
    ),
    min_size=1,
    max_size=12,
)


def judged(world: int, lines: list[Line]) -> list[Incident]:
    """The incidents of a job of `world` ranks whose lines name whatever they name."""
    report = Reporter(places(world, job=None), STALL)
    for code, at, rank, missing in lines:
        fields: dict[str, Any] = {"peer_rank": missing[0]} if missing and code != "horovod.stall" else {}
        if code == "horovod.stall" and missing:
            fields = {"missing_ranks": ", ".join(map(str, missing))}
        report.emit(code, at, rank, **fields)
    return report.judged()


def check(incident: Incident, world: int) -> None:
    """No rank beyond the world is named, and no more ranks are counted than there are."""
    text = incident.headline
    named = {int(number) for found in NUMBERED.findall(text) for number in re.findall(r"\d+", found)}
    assert all(rank < world for rank in named), text
    assert all(int(count) <= world for count in COUNTED.findall(text) + TOTALS.findall(text)), text
    assert incident.rank is None or incident.rank < world
    culprits = 0 if incident.rank is None else 1
    assert incident.followers + culprits <= world, text


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.integers(1, 9), LINES)
def test_no_rank_beyond_the_world_is_named_and_the_counts_agree_with_it(
    world: int, lines: list[Line]
) -> None:
    for incident in judged(world, lines):
        check(incident, world)


@pytest.mark.parametrize("missing", ["2", "1, 2", "2, 3, 4"])
def test_a_list_of_missing_ranks_beyond_a_world_of_two_names_none_of_those(missing: str) -> None:
    report = Reporter(places(2, job=None), STALL)
    report.emit("horovod.stall", 0, 0, missing_ranks=missing)
    (incident,) = report.judged()
    check(incident, 2)
    assert (incident.rank, incident.headline.count("of 2 ranks")) == (1, 1)


def test_without_an_announced_size_a_listed_rank_is_named() -> None:
    known = places(2, job=None)
    ranks = tuple(replace(place, world_size=None) for place in known.ranks)
    report = Reporter(replace(known, ranks=ranks), STALL)
    report.emit("horovod.stall", 0, 0, missing_ranks="5")
    report.emit("horovod.stall", 0, 1, missing_ranks="5")
    (incident,) = report.judged()
    assert incident.rank == 5
    index = RankIndex(report.places)
    assert all(within_world(alert, index, None) is alert for alert in incident.alerts)


def test_a_world_larger_than_any_job_is_not_listed_rank_by_rank() -> None:
    known = places(2, job=None)
    ranks = tuple(replace(place, world_size=1_000_000) for place in known.ranks)
    report = Reporter(replace(known, ranks=ranks), STALL)
    report.emit("nccl.watchdog_timeout", 0, 0)
    (incident,) = report.judged()
    assert RankIndex(report.places).world(None) == {0, 1}
    assert len(incident.headline) < 400
