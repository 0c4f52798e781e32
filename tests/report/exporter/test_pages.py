"""Pages, read by the two parsers of prometheus-client."""

from __future__ import annotations

import math

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.link.stream.inbox import LinkStatus
from gpuwatch.report.exporter import job_metrics
from gpuwatch.report.exporter.page import MetricsPage
from gpuwatch.report.exporter.scrape import Scraper
from gpuwatch.rules.load import load_packs
from gpuwatch.wire import Event, GpuSample, HostSample, Nic, Progress, Ranks, Sample
from tests.report.fleets import GIB, NODE_TIME, START, feed, hello, plan, process, reading, sample

WALL = NODE_TIME
"""Our unix time at START: the node's clock is right."""


def page_of(fleet: Fleet, now: float = START, *, most: int = 200_000, dcgm: bool = False) -> MetricsPage:
    book = AlertBook(load_packs(), fleet.plan.thresholds)
    wall = WALL + now - START
    for _ in range(3):
        book.update(fleet, now, wall)
    return Scraper(most, dcgm).page(fleet, book, now, wall)


def samples(page: MetricsPage) -> dict[tuple[str, ...], float]:
    """(name, label=value...) -> value, where both formats hold the same."""
    text, openmetrics = page.text().decode(), page.text(openmetrics=True).decode()
    found: dict[tuple[str, ...], float] = {}
    for parsed in (parse_text(text), parse_openmetrics(openmetrics)):  # type: ignore[no-untyped-call]
        these: dict[tuple[str, ...], float] = {}
        for family in parsed:
            assert family.documentation
            for each in family.samples:
                key = (each.name, *sorted(f"{name}={value}" for name, value in each.labels.items()))
                assert key not in these, f"twice: {key}"
                these[key] = each.value
        assert not found or these.keys() == found.keys()
        found = these
    return found


def live(*content: Sample | Ranks | Progress | Event) -> Fleet:
    fleet = Fleet(plan("gpu-001"))
    feed(fleet, "gpu-001", LinkStatus("live"), hello(), *content)
    return fleet


def at(name: str, *labelled: str) -> tuple[str, ...]:
    return (name, *sorted(labelled))


GPU = ("gpu=0", "node=gpu-001", "uuid=GPU-0000")


def test_values_are_in_base_units() -> None:
    found = samples(page_of(live(sample(reading(0), reading(1)))))
    assert found[at("gpuwatch_gpu_utilization_ratio", *GPU)] == 0.98
    assert found[at("gpuwatch_gpu_memory_used_bytes", *GPU)] == 72 * GIB
    assert found[at("gpuwatch_gpu_sm_clock_hertz", *GPU)] == 1_980_000_000
    assert found[at("gpuwatch_gpu_throttle_ratio", *GPU[:2], "reason=power_cap", GPU[2])] == 0.12
    assert found["gpuwatch_node_up", "node=gpu-001"] == 1
    assert found["gpuwatch_node_cpu_ratio", "node=gpu-001"] == 0.34
    assert found[at("gpuwatch_gpu_last_sample_timestamp_seconds", *GPU[:2], "tier=fast", GPU[2])] == WALL


def test_an_unknown_is_absent_and_never_0() -> None:
    found = samples(page_of(live(sample(reading(0, temperature_c=None)))))
    names = {key[0] for key in found}
    assert "gpuwatch_gpu_temperature_celsius" not in names
    assert "gpuwatch_gpu_ecc_corrected_errors_total" not in names
    assert "gpuwatch_gpu_power_watts" in names
    assert not any(key[0] == "gpuwatch_gpu_power_watts" and "gpu=1" in key for key in found)
    assert found["gpuwatch_gpu_up", "gpu=1", "node=gpu-001", "uuid=GPU-0001"] == 0


def test_old_values_are_absent_and_their_age_stays() -> None:
    found = samples(page_of(live(sample(reading(0), reading(1))), START + 60))
    names = {key[0] for key in found}
    assert "gpuwatch_gpu_utilization_ratio" not in names
    assert "gpuwatch_node_cpu_ratio" not in names
    assert found[at("gpuwatch_gpu_last_sample_timestamp_seconds", *GPU[:2], "tier=fast", GPU[2])] == WALL
    assert found["gpuwatch_node_up", "node=gpu-001"] == 0
    assert found["gpuwatch_node_state", "node=gpu-001", "state=stale"] == 1


def test_a_lost_gpu_is_down_and_shows_no_values() -> None:
    lost = GpuSample(uuid="GPU-0000", state="lost", reason="GPU is lost")
    xid = Event(t=NODE_TIME, seq=2, event="xid", title="fell off the bus", gpu="GPU-0000", code=79)
    fleet = live(sample(reading(0), reading(1)), sample(lost, reading(1)), xid)
    found = samples(page_of(fleet, dcgm=True))
    assert found[at("gpuwatch_gpu_up", *GPU)] == 0
    assert found[at("gpuwatch_gpu_last_xid", *GPU)] == 79
    assert at("gpuwatch_gpu_utilization_ratio", *GPU) not in found
    firing = [key for key in found if key[0] == "gpuwatch_alert_firing"]
    assert any("gpu=0" in key and "severity=critical" in key for key in firing)
    assert found["gpuwatch_alerts", "severity=critical"] >= 1


def test_dcgm_exporters_names_have_its_units_and_labels() -> None:
    found = samples(page_of(live(sample(reading(0, throttle=["power_cap", "sw_thermal"]))), dcgm=True))
    (used,) = [key for key in found if key[0] == "DCGM_FI_DEV_FB_USED"]
    assert found[used] == 72 * 1024
    names = {part.partition("=")[0] for part in used[1:]}
    assert {"gpu", "UUID", "device", "modelName", "Hostname"} <= names
    assert "Hostname=gpu-001.cluster" in used
    (mask,) = [value for key, value in found.items() if key[0] == "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"]
    assert mask == 0x24
    (clock,) = [value for key, value in found.items() if key[0] == "DCGM_FI_DEV_SM_CLOCK"]
    assert clock == 1980


def test_training_numbers_and_ranks() -> None:
    ranks = Ranks(t=NODE_TIME, seq=1, processes=[process(7, 0, 0, job="411", world_size=2, logs=["/l/0"])])
    progress = Progress(
        t=NODE_TIME,
        seq=2,
        file="/l/0",
        offset=0,
        at=NODE_TIME,
        timed=True,
        dialect="key_value",
        fields={"step": 41, "loss": "nan", "step_time_s": 2.0, "mfu": 0.4},
        phases_s={"allreduce": 0.5},
        rank=0,
        job="411",
    )
    found = samples(page_of(live(sample(reading(0)), ranks, progress)))
    assert found["gpuwatch_job_step", "job=411"] == 41
    assert math.isnan(found["gpuwatch_job_loss", "job=411"])
    assert found["gpuwatch_job_model_flops_utilization_ratio", "job=411"] == 0.4
    assert found["gpuwatch_job_step_share_ratio", "job=411", "part=communication"] == 0.25
    assert found["gpuwatch_rank_step", "gpu=0", "job=411", "node=gpu-001", "rank=0"] == 41
    assert found["gpuwatch_rank_up", "gpu=0", "job=411", "node=gpu-001", "rank=0"] == 1
    assert found["gpuwatch_job_world_size", "job=411"] == 2


@pytest.mark.parametrize(
    "name", ['a"} 1\nx 2', "back\\slash", "\x1b]0;t\x07", "\udcff", "x" * 5000, "\u0287\u202e"]
)
def test_a_hostile_name_stays_one_label(name: str) -> None:
    host = HostSample(t=NODE_TIME, nics=[Nic(name=name, rx_bps=1.0), Nic(name=name, rx_bps=2.0)])
    found = samples(page_of(live(Sample(t=NODE_TIME, seq=1, host=host))))
    (key,) = [key for key in found if key[0] == "gpuwatch_network_receive_bytes_per_second"]
    assert len("".join(key)) < 400
    assert not {"\x1b", "\x07", "\n", "\u202e"} & set("".join(key))


def test_what_is_over_a_bound_is_counted() -> None:
    nics = [Nic(name=f"veth{number}", rx_bps=1.0) for number in range(1000)]
    fleet = live(Sample(t=NODE_TIME, seq=1, host=HostSample(t=NODE_TIME, nics=nics)))
    found = samples(page_of(fleet))
    assert len([key for key in found if key[0].startswith("gpuwatch_network_receive")]) == 128
    assert found["gpuwatch_exporter_dropped_series",] == 1000 - 128
    bounded = samples(page_of(fleet, most=40))
    assert len(bounded) <= 40
    assert bounded["gpuwatch_alerts", "severity=critical"] == 0
    assert bounded["gpuwatch_exporter_dropped_series",] > 1000 - 128


def test_one_node_with_many_jobs_takes_no_others_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_metrics, "MAX_JOBS_SHOWN", 4)
    fleet = Fleet(plan("evil", "honest"))
    claimed = [process(7 + n, n % 8, n, job=str(n), world_size=1_000_000) for n in range(20)]
    claims = Ranks(t=NODE_TIME, seq=1, processes=claimed)
    own = Ranks(t=NODE_TIME, seq=1, processes=[process(7, 0, 0, job="411", world_size=1)])
    feed(fleet, "evil", LinkStatus("live"), hello(), claims)
    feed(fleet, "honest", LinkStatus("live"), hello(), own)
    found = samples(page_of(fleet))
    jobs = [key for key in found if key[0] == "gpuwatch_job_up"]
    assert len(jobs) == 4
    assert ("gpuwatch_job_up", "job=411") in jobs
