"""What a hostile node says comes into no export as anything but text."""

from __future__ import annotations

import csv
import io
import json

import pytest
from msgspec import structs

from gpuwatch import wire
from gpuwatch.diagnose.alerts.from_findings import alerts_of
from gpuwatch.diagnose.alerts.placement.finding_place import LocatedFinding
from gpuwatch.diagnose.incidents.builder import incidents
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.jobs.rank_places import places_of
from gpuwatch.report.incidents.json_output import bounded, proof_facts
from gpuwatch.report.once.csv_output import HEADER, to_csv
from gpuwatch.report.once.json_output import fleet_facts, to_json
from gpuwatch.report.once.problems.active import Standing
from gpuwatch.report.once.tables import print_report
from gpuwatch.report.once.text import report
from gpuwatch.rules.load import load_packs
from tests.report.fleets import NODE_TIME, START, feed, hello, info, plan, process, sample

PACKS = load_packs()
POISONS = (
    "\x1b[2J\x1b]52;c;cHduZWQ=\x07\x9b31m\u202eevil\u2066",
    'a\r\nb,"c",\n=1+1\t\x00',
    "=cmd|' /C calc'!A0",
    "@SUM(1)\u2028next",
    "[bold red]x[/] </script>\ud800",
)


def poisoned(text: str) -> tuple[Fleet, list[LocatedFinding]]:
    """A fleet whose frames went over the wire with the text in every string."""
    fleet = Fleet(plan("gpu-001"))
    gpu = wire.GpuInfo(uuid="GPU-0000", index=0, name=text, bus_id=text, serial=text, vbios=text)
    more = {"user": text, "job": text, "command": text, "logs": [text], "variables": {"NCCL_DEBUG": text}}
    notice = wire.Notice(text, text, "warning", text)
    frames: list[wire.AnyFrame] = [
        structs.replace(hello(1), host=text, gpus=[gpu], driver=text, os=text, notices=[notice]),
        sample(wire.GpuSample(uuid="GPU-0000", state="stuck", reason=text, stuck_in=text)),
        wire.Ranks(t=NODE_TIME, seq=2, processes=[process(50, 0, rank=3, **more)], partial=text),
        wire.Event(t=NODE_TIME, seq=3, event="xid", title=text, detail=text, remedy=text, code=79),
        wire.Logs(t=NODE_TIME, seq=4, files=[wire.LogFile(text, "unreadable", text, ranks=[3])]),
    ]
    finding = wire.Finding(
        t=NODE_TIME, seq=5, id=1, rule="oom.cuda", severity="critical", file=text, offset=0, at=NODE_TIME,
        timed=True, lines=[text], rank=3, host=text, fields={"tried": text, "free": text},
    )  # fmt: skip
    decoded = [wire.decode(wire.encode(frame)) for frame in [*frames, finding]]
    feed(fleet, "gpu-001", *decoded)
    assert info(0).index == 0
    return fleet, [LocatedFinding("gpu-001", each) for each in decoded if isinstance(each, wire.Finding)]


def printable(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n"))


@pytest.mark.parametrize("text", POISONS)
def test_no_export_holds_control_characters_or_formulas(text: str) -> None:
    fleet, found = poisoned(text.encode("utf-8", "replace").decode())
    places = places_of(list(fleet.nodes.values()))
    alerts = alerts_of(found, PACKS, places)
    stands = Standing(tuple(incidents(alerts, places, PACKS, NODE_TIME)), tuple(alerts))
    facts = fleet_facts(fleet, [], START + 1, NODE_TIME, stands)
    reported = to_json(facts)
    assert printable(reported)
    assert json.loads(reported)["incidents"]
    table = to_csv(facts)
    assert printable(table)
    rows = list(csv.reader(io.StringIO(table)))
    assert {len(row) for row in rows} == {len(HEADER)}
    assert not [cell for row in rows for cell in row if cell[:1] in ("=", "@", "+", "\t")]
    out = io.StringIO()
    print_report(report(fleet, [], START + 1, NODE_TIME, stands), out)
    assert printable(out.getvalue())


@pytest.mark.parametrize("key", [0, 3, 500, 999])
def test_evidence_of_one_finding_has_a_bound(key: int) -> None:
    many: dict[str, str | int | float] = {f"field {number}": "v" * 60_000 for number in range(300)}
    finding = wire.Finding(
        t=NODE_TIME, seq=5, id=1, rule="oom.cuda", severity="critical", file="/a.log", offset=0, at=NODE_TIME,
        timed=True, lines=[f"{number} {'x' * 60_000}" for number in range(1000)], key=key, fields=many,
    )  # fmt: skip
    where = places_of([])
    (alert,) = alerts_of([LocatedFinding("gpu-001", finding)], PACKS, where)
    facts = proof_facts(alert, alert.proof[0])
    assert facts["lines"][facts["key"]].startswith(f"{key} ")
    assert len(facts["lines"]) > 1
    assert len(json.dumps(facts)) < 500_000


def test_the_lines_of_ordinary_evidence_are_whole() -> None:
    lines = [f"line {number}" for number in range(40)]
    assert bounded(lines, 39) == (lines, 39)
    assert bounded([], 0) == ([], 0)
