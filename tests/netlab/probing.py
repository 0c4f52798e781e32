"""A whole probe of a lab: carriers, launchers, workers, conductor and judge, as for any other cluster."""

from __future__ import annotations

from msgspec.structs import replace

from gpuwatch.link.stream.options import LinkOptions
from gpuwatch.probe.orchestration.opening import open_probe
from gpuwatch.probe.probe_request import ProbeRequest
from gpuwatch.probe.results import Results
from tests.netlab.lab import Lab

PAIRS_ONLY = ProbeRequest(collectives=(), ranks_per_node=1, budget_s=120.0, timeout_s=20.0)
WISH = replace(PAIRS_ONLY, collectives=("all_reduce",), sizes=(1 << 20,))
PATIENCE_S = 110.0


def probe(lab: Lab, request: ProbeRequest = PAIRS_ONLY) -> Results:
    """What a probe of all hosts measures and says."""
    conductor = open_probe(lab.plan(), LinkOptions(), None, request)
    try:
        conductor.start()
        conductor.confirm()
        assert conductor.wait(PATIENCE_S), f"still {conductor.results.phase}"
    finally:
        conductor.close()
    return conductor.results
