"""A site's own rule states its kinds and its effects, and has the rights of a built-in one with them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import pytest
from msgspec import structs

from gpuwatch.diagnose.error_outcome.refutation import left_after
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.failure_classes import (
    EXITS,
    TIMEOUTS,
    built_in,
    explains,
    of_kinds,
    stated_class,
)
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.report.scan.report import judged
from gpuwatch.rules.built_in import built_in as rule_packs
from gpuwatch.rules.load import load_packs
from gpuwatch.rules.model.failure_class import KINDS, FailureClass, Kind
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.scan.scan import scan
from tests.agent.logs.scan_lines import rule
from tests.diagnose.incidents.alert_cluster import Watched

END = 1_772_445_000.0
"""2026-03-02 09:50:00 UTC, when every file was last written."""
RANKS = 4
RAISED = ("Traceback (most recent call last):", '  File "/w/train.py", line 3', "ValueError: no label")
DF = "Filesystem      Size  Used Avail Use% Mounted on\n/dev/nvme0n1    800G  800G     0 100% /scratch\n"
NO_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."


Texts: TypeAlias = Mapping[int, Mapping[int, tuple[str, ...]]]
"""Rank -> second -> what it logs then."""


def incident(folder: Path, own: str, texts: Texts) -> Incident:
    """The incident of a job with this rule."""
    (found,) = incidents(folder, own, texts)
    return found


def incidents(folder: Path, own: str, texts: Texts) -> Sequence[Incident]:
    logs = folder / "logs"
    logs.mkdir(exist_ok=True)
    for rank in range(RANKS):
        rows: dict[int, tuple[str, ...]] = {1: ("step 1 loss 2.1",), **texts.get(rank, {})}
        file = logs / f"rank{rank}.log"
        file.write_text(
            "".join(
                f"2026-03-02 09:40:{second:02} [rank{rank}]: {text}\n"
                for second, lines in rows.items()
                for text in lines
            )
        )
        os.utime(file, (END, END))
    pack = folder / "site.yaml"
    pack.write_text(own)
    packs = load_packs([pack])
    return judged(scan(gather([logs]), packs.rules, "agent"), packs, END, 0.1).incidents


@pytest.mark.parametrize("stated", ["", "kinds: collective_timeout"])
def test_the_rank_without_the_timeout_of_a_sites_own_library_is_the_culprit(
    stated: str, tmp_path: Path
) -> None:
    own = rule(
        "ringfab: exchange (?P<seq>\\d+) gave up", name="site.exchange", extra=f"role: first\n{stated}"
    )
    waits = {rank: {30 + rank: ("ringfab: exchange 12 gave up",)} for rank in (0, 1, 3)}
    assert incident(tmp_path, own, waits).rank == (2 if stated else 0)


@pytest.mark.parametrize("stated", ["", "kinds: [peer_connection]"])
def test_a_lost_channel_of_a_sites_own_library_is_the_effect_of_a_peers_exception(
    stated: str, tmp_path: Path
) -> None:
    own = rule("ringfab: channel collapsed", name="site.channel", extra=f"role: first\n{stated}")
    lines = {rank: {30: ("ringfab: channel collapsed",)} for rank in (0, 1, 3)}
    found = incident(tmp_path, own, {**lines, 2: {31: RAISED}})
    assert (found.code, found.rank) == (("python.exception", 2) if stated else ("site.channel", 0))


@pytest.mark.parametrize("stated", ["", ", exit_code"])
def test_an_exit_code_of_a_sites_own_launcher_follows_the_exception_of_another_rank(
    stated: str, tmp_path: Path
) -> None:
    extra = f"role: first\nend_weight: 0\nkinds: [reported_end, sudden_end, mild_end{stated}]"
    own = rule("ringlaunch: rank (?P<rank>\\d+) left value=(?P<exitcode>\\d+)", name="site.left", extra=extra)
    left = tuple(f"ringlaunch: rank {rank} left value=1" for rank in (0, 2))
    found = incident(tmp_path, own, {1: {30: left}, 3: {31: RAISED}})
    assert (found.code, found.rank) == (("python.exception", 3) if stated else ("site.left", 0))


@pytest.mark.parametrize(("stated", "severities"), [("", []), (", nan_gradient", ["error"])])
def test_gradients_of_a_sites_own_trainer_that_are_nan_to_the_end_are_an_error(
    stated: str, severities: list[str], tmp_path: Path
) -> None:
    extra = f"role: hint\nkinds: [precursor, of_training, survived, values{stated}]"
    own = rule("ringtrain: gradvec not finite", name="site.gradvec", severity="warning", extra=extra)
    lines = dict.fromkeys(range(2, 41), ("ringtrain: gradvec not finite",))
    assert [each.severity for each in incidents(tmp_path, own, {0: lines})] == severities


@pytest.mark.parametrize("stated", ["", "explains: oom.cuda"])
def test_a_sites_own_rule_explains_a_built_in_one(stated: str, tmp_path: Path) -> None:
    own = rule("memguard: share revoked", name="site.revoked", extra=stated)
    found = incident(tmp_path, own, {2: {10: (NO_MEMORY,), 14: ("memguard: share revoked",)}})
    assert (found.code, found.rank) == ("site.revoked" if stated else "oom.cuda", 2)


@pytest.mark.parametrize("stated", ["", "explains: [storage.full]"])
def test_a_table_beside_the_logs_is_evidence_for_a_sites_own_rule_that_explains_it(
    stated: str, tmp_path: Path
) -> None:
    own = rule("cairn: no block left on (?P<path>/\\S+)", name="site.cairn_full", extra=stated)
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "df.txt").write_text(DF)
    left = {2: {30: ("cairn: no block left on /scratch/run7",)}}
    found = incidents(tmp_path, own, left)
    assert (found[0].code, found[0].rank) == ("site.cairn_full", 2)
    assert (len(found) == 1 and found[0].confidence == "high") is bool(stated), found


def test_a_built_in_rule_explains_a_kind_of_a_sites_own_one(tmp_path: Path) -> None:
    pack = tmp_path / "site.yaml"
    pack.write_text(rule("member went away", name="site.gone", extra="kinds: [sudden_end]\nend_weight: 0"))
    packs = load_packs([pack])
    own = stated_class(packs.by_id["site.gone"])
    assert packs.stated_classes == {"site.gone": own}
    gone = Alert("a", "site.gone", "error", "t", "t", (), stated=own)
    assert gone in EXITS
    assert explains("oom.host.kernel", gone)
    assert not explains("oom.cuda", gone)


@pytest.mark.parametrize(
    ("name", "stated", "families", "shown"),
    [
        ("site.array", "", "", None),
        ("storage.array", "", "", 2),
        ("site.array", "kinds: file_system", "", 2),
        ("site.array", "", "families: {site: [file_system]}\nrules:\n", 2),
        ("site.fs.array", "kinds: lasting", "families: {site.fs: file_system}\nrules:\n", 2),
    ],
)
def test_the_rank_that_suffers_first_from_a_sites_own_file_system_is_named(
    name: str, stated: str, families: str, shown: int | None, tmp_path: Path
) -> None:
    pack = tmp_path / "site.yaml"
    own = rule(
        "ringfs: volume (?P<volume>\\w+) left", name=name, extra=f"explains: python.exception\n{stated}"
    )
    pack.write_text(families + own)
    cluster = Watched(packs=load_packs([pack]))
    cluster.find(name, severity="critical")
    for rank in (2, 3, 1):
        cluster.step(2)
        cluster.find("python.exception", rank)
    cluster.step(20)
    assert (cluster.incident().code, cluster.incident().rank) == (name, shown)


@pytest.mark.parametrize(
    ("stated", "left"), [("", "info"), ("kinds: [stays_lost]", "warning"), ("kinds: hardware", "error")]
)
def test_what_a_sites_own_rule_reports_as_lost_stays_a_warning(
    stated: str, left: str, tmp_path: Path
) -> None:
    pack = tmp_path / "site.yaml"
    pack.write_text(rule("ringfab: member (?P<who>\\d+) left the ring", name="site.left", extra=stated))
    own = stated_class(load_packs([pack]).by_id["site.left"])
    proof = Proof("line", "ringfab: member 7 left the ring", 1.0, file="/a.log", offset=0)
    alert = Alert("a", "site.left", "error", "t", "t", (proof,), rank=3, stated=own)
    assert left_after(alert, finished=True) == left


@pytest.mark.parametrize(
    ("stated", "cause"), [("", ("oom.cuda", 0)), ("kinds: device_fault", ("site.board", 2))]
)
def test_a_fault_of_a_sites_own_device_leads_another_error_of_the_same_second(
    stated: str, cause: tuple[str, int], tmp_path: Path
) -> None:
    own = rule("ringboard: board tripped", name="site.board", extra=stated)
    found = incident(tmp_path, own, {0: {30: (NO_MEMORY,)}, 2: {30: ("ringboard: board tripped",)}})
    assert (found.code, found.rank) == cause


@pytest.mark.parametrize("kind", KINDS)
def test_a_sites_own_rule_is_of_every_kind_that_it_states(kind: Kind) -> None:
    own = Alert("a", "site.own", "error", "t", "t", (), stated=FailureClass((kind,)))
    assert own in of_kinds(kind)
    assert structs.replace(own, stated=FailureClass()) not in of_kinds(kind)


def test_a_replaced_rule_keeps_its_class_unless_the_pack_states_one(tmp_path: Path) -> None:
    own = rule("ringfab: exchange (?P<seq>\\d+) gave up", name="nccl.watchdog_timeout", extra="role: first")
    waits = {rank: {30 + rank: ("ringfab: exchange 12 gave up",)} for rank in (0, 1, 3)}
    assert incident(tmp_path, own, waits).rank == 2


def test_the_packs_state_effects_that_exist() -> None:
    """Every effect is a code, the family of one or a kind; codes of conditions have no dot."""
    known, packs = built_in(), rule_packs()
    for code, facts in known.items():
        for effect in facts.explains:
            if effect.endswith(".*"):
                assert any(each.startswith(effect[:-1]) for each in known), (code, effect)
            elif "." in effect and effect != "job.hang":
                assert effect in known, (code, effect)
    assert not set(KINDS) & known.keys()
    assert {kind for facts in known.values() for kind in facts.kinds} == set(KINDS)
    assert all("." not in code or code in ("rank.vanished", "job.unwatched_end") for code in packs.conditions)


def test_classes_of_the_built_in_packs() -> None:
    assert "nccl.watchdog_timeout" in TIMEOUTS
    assert "rank.killed" in EXITS
    assert explains("oom.host.kernel", "rank.killed")
    assert explains("rdma.port_event", "rdma.flushed")
    assert not explains("rdma.port_event", "rdma.port_event")
    assert not explains("rank.killed", "oom.host.kernel")
