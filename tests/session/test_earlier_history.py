"""The past of a live fleet out of a Prometheus that knew its GPUs before."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from msgspec import structs
from msgspec.structs import replace

from gpuwatch.hosts.builtin import demo_plan
from gpuwatch.hosts.prometheus_target import PrometheusTarget
from gpuwatch.link.prometheus.client import PrometheusClient
from gpuwatch.link.stream.options import LinkOptions
from gpuwatch.session import Session, earlier_history
from gpuwatch.session.earlier_history import EarlierHistory
from tests.link.prometheus.real import exporter, prometheus, wait_for_nodes
from tests.link.prometheus.simulated import SimulatedPrometheus, simulated
from tests.link.recording.recordings import PlayedSession, demo_story

NODES, PAST_PCT = 2, 41.0
WAIT_S = 240.0


@pytest.fixture
def session() -> PlayedSession:
    """Two nodes of the demo, connected 20 seconds ago."""
    plan = replace(demo_plan(), nodes=demo_plan().nodes[:NODES])
    names = {spec.name for spec in plan.nodes}
    played = PlayedSession(plan, [one for one in demo_story(20.0) if one.node in names])
    played.run(20.0, 1.0)
    return played


def knows_all_but_the_last(known: SimulatedPrometheus, session: PlayedSession) -> str:
    """The UUID of the GPU that the server does not know."""
    *some, last = session.fleet.gpus()
    for gpu in some:
        labels = {"UUID": gpu.info.uuid, "Hostname": gpu.node, "instance": f"{gpu.node}:9400"}
        known.add("DCGM_FI_DEV_GPU_UTIL", PAST_PCT, **labels)
        known.add("DCGM_FI_DEV_GPU_TEMP", 44.0, **labels)
    return last.info.uuid


def asked(known: SimulatedPrometheus, session: PlayedSession) -> EarlierHistory:
    """Until there is an answer."""
    history = EarlierHistory(PrometheusTarget(known.url), session.clock.monotonic)
    deadline = time.monotonic() + WAIT_S
    history.update(session.fleet)
    session.now += earlier_history.GATHER_S
    history.update(session.fleet)
    assert history._thread is not None
    history._thread.join(max(0.0, deadline - time.monotonic()))
    history.update(session.fleet)
    return history


def test_the_charts_begin_before_the_session(session: PlayedSession) -> None:
    with simulated() as known:
        unknown = knows_all_but_the_last(known, session)
        history = asked(known, session)
        for gpu in session.fleet.gpus():
            day = gpu.history.series("util", 86_400, 48, session.now)
            quarter = gpu.history.series("util", 900, 90, session.now)
            if gpu.info.uuid == unknown:
                assert np.isnan(day[:-1]).all()
                continue
            assert day[1:-1] == pytest.approx(PAST_PCT, abs=0.1)
            assert quarter[2:-4] == pytest.approx(PAST_PCT, abs=0.1)
            live = gpu.history.series("util", 20, 20, session.now - earlier_history.GATHER_S)
            assert (live[4:-4] > 90).all(), "what was seen replaces what the server had"
            temperature = gpu.history.series("temp", 86_400, 48, session.now)
            assert temperature[1:-1] == pytest.approx(44.0, abs=0.1)
        queries = len(known.queries)
        session.now += 10.0
        history.update(session.fleet)
        assert len(known.queries) == queries, "each GPU is asked about once"
        assert history.take_trouble() is None
    session.run(30.0, 1.0)
    later = session.fleet.gpus()[0].history.series("util", 86_400, 48, session.now)
    assert later[5] == pytest.approx(PAST_PCT, abs=0.1)


def test_a_server_that_fails_costs_the_past_alone_and_is_reported_once(session: PlayedSession) -> None:
    with simulated() as known:
        history = asked(known, session)
        assert PrometheusTarget(known.url).name in (history.take_trouble() or "")
        assert history.take_trouble() is None
        knows_all_but_the_last(known, session)
        known.mood = "500"
        assert "500" in (asked(known, session).take_trouble() or "")


def test_a_uuid_that_is_none_comes_into_no_query(session: PlayedSession) -> None:
    gpu = session.fleet.gpus()[0]
    gpu.info = structs.replace(gpu.info, uuid='x"} or up{a="')
    with simulated() as known:
        knows_all_but_the_last(known, session)
        asked(known, session)
        assert not any("or up" in query for query in known.queries)
        assert any(session.fleet.gpus()[1].info.uuid in query for query in known.queries)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_real_prometheus_knows_what_was_before(tmp_path: Path) -> None:
    with exporter("--dcgm-names") as scraped, prometheus(tmp_path, scraped) as url:
        wait_for_nodes(url)
        client, began = PrometheusClient(PrometheusTarget(url)), time.monotonic()
        while not any(len(each.values) > 3 for each in client.raw("DCGM_FI_DEV_GPU_UTIL", 60.0)):
            assert time.monotonic() < began + WAIT_S
            time.sleep(0.2)
        began = time.monotonic()
        with Session(demo_plan(), LinkOptions(history=PrometheusTarget(url))) as live:
            deadline = began + WAIT_S
            seen = np.zeros(0, np.float32)
            while not (~np.isnan(seen)).any():
                assert time.monotonic() < deadline
                live.poll()
                time.sleep(0.05)
                if live.fleet.gpus():
                    history = live.fleet.gpus()[0].history
                    seen = history.series("util", 10, 10, began - 2.0)
            assert np.nanmax(seen) > 0
            assert live.take_trouble() is None
