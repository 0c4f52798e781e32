"""One example of each row of the tables of subjects and marks: alerts that merge, and one that does not."""

from __future__ import annotations

import pytest

from gpuwatch.diagnose.alerts.deduplication.deduplicator import Deduplicator, joined
from gpuwatch.diagnose.alerts.deduplication.same_event import MARKS, SUBJECTS, subject_of
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.timing import Resumption
from tests.diagnose.finding import T0


def alert(code: str, file: str = "/logs/rank_3.log", kind: str = "line", **more: object) -> Alert:
    """An error of rank 3 on n1; each has an id of its own by what it holds."""
    facts = {
        "id": f"{code} {file} {more}",
        "code": code,
        "severity": "error",
        "title": code,
        "text": code,
        "proof": (Proof(kind, code, T0, node="n1", file=file, offset=0),),  # type: ignore[arg-type]
        "node": "n1",
        "rank": 3,
        "job": "run7",
        "first": T0,
        "last": T0,
        **more,
    }
    return Alert(**facts)  # type: ignore[arg-type]


def unranked(code: str, file: str = "/logs/launcher.log", **more: object) -> Alert:
    return alert(code, file, "line", **{"rank": None, "job": None, **more})


def kernel(code: str, **more: object) -> Alert:
    return unranked(code, "kernel", **{"kernel": True, **more})


VALUE = alert("gpu_temperature", kind="value")
KILL, DMESG = "oom.host.kernel", "/saved/dmesg.txt"
SAME: dict[str, tuple[Alert, Alert]] = {
    "lost GPU": (kernel("gpu.xid.fell_off", gpu=2, fields={"xid": 79}), unranked("gpu.lost", gpu=2)),
    "value": (
        alert("gpu_temperature", kind="value", id="t1"),
        alert("gpu_temperature", kind="value", id="t1"),
    ),
    "OOM kill": (unranked(KILL, DMESG, fields={"victim": "python"}), kernel(KILL)),
    "xid": (kernel("gpu.xid.ecc", gpu=2, fields={"xid": 48}), kernel("gpu.xid", gpu=2, fields={"xid": 48})),
    "end of a process": (
        unranked("rank.killed", fields={"pid": 9, "exitcode": -9}),
        alert("rank.killed", fields={"pid": 9}),
    ),
    "kernel line": (kernel("pcie.aer"), kernel("pcie.aer", count=2)),
    "rank": (alert("oom.cuda"), alert("oom.cuda", "/logs/launcher.log")),
    "file": (unranked("storage.full"), unranked("storage.full", count=2)),
}
APART: dict[str, tuple[Alert, Alert]] = {
    "place": (alert("oom.cuda", gpu=1), alert("oom.cuda", gpu=2)),
    "end": (
        alert("rank.killed", fields={"pid": 9, "exitcode": -9}),
        alert("rank.killed", fields={"pid": 9, "exitcode": -6}),
    ),
    "recovery": (alert("oom.cuda"), alert("oom.cuda", recovered=True)),
    "bus": (
        kernel("gpu.xid.ecc", fields={"xid": 48, "pci": "0000:17:00.0"}),
        kernel("gpu.xid.ecc", fields={"xid": 48, "pci": "0000:65:00.0"}),
    ),
    "subject field": (
        unranked("storage.full", fields={"mount": "/a"}),
        unranked("storage.full", fields={"mount": "/b"}),
    ),
    "collective": (
        alert("nccl.watchdog_timeout", fields={"seq": 4}),
        alert("nccl.watchdog_timeout", fields={"seq": 5}),
    ),
    "named ranks": (
        alert("c10d.monitored_barrier", fields={"missing_ranks": "4"}),
        alert("c10d.monitored_barrier", fields={"missing_ranks": "5"}),
    ),
    "attempt": (
        alert("oom.cuda", "/logs/attempt_0/3/stderr.log"),
        alert("oom.cuda", "/logs/attempt_1/3/stderr.log"),
    ),
    "peer": (
        alert("peer.connection_lost", fields={"peer": "10.0.0.1:99"}),
        alert("peer.connection_lost", fields={"peer": "10.0.0.2:99"}),
    ),
}


def test_each_row_has_an_example() -> None:
    assert set(SAME) == {row.name for row in SUBJECTS}
    assert set(APART) == {row.name for row in MARKS}


@pytest.mark.parametrize("name", SAME)
def test_two_reports_of_one_event_become_one_alert(name: str) -> None:
    one, other = SAME[name]
    assert {next(row.name for row in SUBJECTS if row.of(each)) for each in (one, other)} == {name}
    assert len(joined((one, other))) == 1


@pytest.mark.parametrize("name", APART)
def test_two_events_of_one_subject_stay_apart_by_a_mark(name: str) -> None:
    one, other = APART[name]
    row = next(row for row in MARKS if row.name == name)
    assert subject_of(one) == subject_of(other)
    assert row.of(one) and row.values(one) != row.values(other)
    assert len(joined((one, other))) == 2


@pytest.mark.parametrize("code", ["python.exception", "oom.cuda"])
@pytest.mark.parametrize(("stamp", "timed"), [("", False), ("2026-03-02 10:00:00 ", True)])
def test_the_rank_s_own_line_is_the_first_proof_not_the_launcher_s_copy(
    code: str, stamp: str, timed: bool
) -> None:
    own, copied = "/logs/rank_3.log", "/logs/launcher.log"
    texts = {own: f"{stamp}[rank3]: RuntimeError: x", copied: "[default3]:[rank3]: RuntimeError: x"}
    proofs = {
        file: (Proof("line", text, T0, node="n1", file=file, offset=0),) for file, text in texts.items()
    }
    reported = [
        alert(code, copied, proof=proofs[copied], timed=False),
        alert(code, own, proof=proofs[own], timed=timed, first=T0 + 0.5),
    ]
    for order in (reported, reported[::-1]):
        (one,) = joined(order)
        assert one.proof[0].file == own
        assert (len(one.proof), one.id) == (2, reported[0].id)


def test_a_line_of_no_job_is_of_the_same_event_after_the_job_has_resumed() -> None:
    began = (Resumption(T0 - 60, T0 - 50),)
    limit = kernel("oom.host.cgroup", rank=3, job="run7", fields={"victim": "python", "pid": 9})
    joiner = Deduplicator()
    joiner.take_resumed({"run7": began})
    for each in (kernel(KILL, fields={"process": "python"}), limit):
        joiner.put(each)
    (one,) = joiner.joined()
    assert (one.code, one.rank, one.job) == ("oom.host.cgroup", 3, "run7")
    earlier = kernel("oom.host.cgroup", job="run7", first=T0 - 61, last=T0 - 61, fields={"victim": "python"})
    joiner.put(earlier)
    assert len(joiner.joined()) == 2
