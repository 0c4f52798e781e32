"""A node of a probe that answers with extreme numbers and texts ends neither the probe nor its reports."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest

from gpuwatch.probe.orchestration.conductor import Conductor
from gpuwatch.probe.orchestration.nodes.carrier_line import TalkError, decode_message
from gpuwatch.probe.probe_request import MIB, ProbeRequest
from gpuwatch.probe.protocol import Done, Step
from gpuwatch.report.once.json_output import to_json
from gpuwatch.report.probe.csv_output import probe_csv
from gpuwatch.report.probe.json_output import probe_facts
from gpuwatch.report.probe.text import print_results
from tests.probe.orchestration.scripted import Fabric, cluster, confirm_and_wait

SMALL = ProbeRequest(sizes=(MIB,), timeout_s=1.0)
EXTREMES = (0.0, -1.0, 1e308, -1e308, 5e-324, 1e-300, float("inf"), float("nan"))


def reports(results: Any) -> None:
    """Every output of a probe."""
    out = io.StringIO()
    print_results(results, out)
    facts = probe_facts(results, "hosts.yaml", demo=False)
    for text in (out.getvalue(), to_json(facts), probe_csv(facts)):
        assert all(line.isprintable() for line in text.split("\n"))


def run(fabric: Fabric) -> Any:
    conductor = Conductor(cluster(2, fabric=fabric), SMALL)
    conductor.start()
    confirm_and_wait(conductor)
    conductor.close()
    return conductor.results


@pytest.mark.parametrize("number", EXTREMES)
def test_extreme_numbers_end_no_probe(number: float) -> None:
    def unlucky(_node: str, step: Step, rank: int) -> Done | bool:
        if rank != 3:
            return True
        peer = next((other for pair in step.pairs if rank in pair for other in pair if other != rank), None)
        times = [number] * max(1, step.iterations)
        return Done(step=step.id, rank=rank, peer=peer, times_s=times, value=number, correct=True)

    results = run(Fabric(unlucky=unlucky))
    assert results.phase in ("done", "failed"), results.reason
    if not 1e-9 < number < 1e9:
        accused = " ".join(culprit.name for culprit in results.verdict.culprits)
        assert "rank 3" in f"{accused} {results.reason}"
        assert not re.search("rank [012]", accused)
    reports(results)


def test_hostile_texts_steer_no_terminal() -> None:
    def unlucky(_node: str, step: Step, rank: int) -> Done | bool:
        if rank != 3:
            return True
        reported = decode_message(
            b'{"kind":"done","step":%d,"rank":3,"error":"\\u001b[2Jx\\u202e"}' % step.id
        )
        assert isinstance(reported, Done)
        return reported

    reports(run(Fabric(unlucky=unlucky)))


@pytest.mark.parametrize("kind", ["gpus", "nics", "ports"])
def test_an_inventory_of_more_devices_than_any_node_has_is_refused(kind: str) -> None:
    device = {
        "gpus": {"index": 0, "uuid": "GPU-0"},
        "nics": {"name": "eth0", "address": "10.0.0.1", "prefix": 24},
        "ports": {"device": "mlx5_0", "port": 1},
    }[kind]
    line = {"kind": "inventory", "host": "n", "pid": 1, kind: [device] * 1024}
    decode_message(json.dumps(line).encode())
    with pytest.raises(TalkError):
        decode_message(json.dumps({**line, kind: [device] * 1025}).encode())
