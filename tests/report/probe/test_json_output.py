from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from gpuwatch.probe.probe_request import MIB, ProbeRequest
from gpuwatch.probe.protocol import GpuUser
from gpuwatch.probe.results import CollectiveResult, ProbedNode, RankSlot, Results
from gpuwatch.report.once.json_output import Facts, to_json
from gpuwatch.report.probe.csv_output import HEADER, probe_csv
from gpuwatch.report.probe.json_output import probe_facts
from tests.report.probe.probes import cluster, gpu_checks, measured, slow_node, with_pairs
from tests.sentences import Sentences

PROMISED = {
    "": {"backend", "world_size", "collectives", "pairs", "verdict"},
    "collectives": {"op", "bytes", "p50_s", "p99_s", "algbw_gb_per_s", "busbw_gb_per_s", "correct"},
    "pairs": {"src", "dst", "ok", "bandwidth_gb_per_s", "latency_us", "error"},
    "verdict": {"status", "sentence", "culprits"},
    "culprits": {"kind", "name", "ratio", "evidence", "state"},
}


def rate(src: RankSlot, dst: RankSlot) -> float | None:
    return None if (src.node, dst.node) == ("gpu-002", "gpu-001") else 48.7


@pytest.fixture
def full() -> Results:
    results = with_pairs(cluster(2, 2), rate)
    results.collectives = measured([1, 4])
    gpu_checks(results)
    results.verdict = slow_node("gpu-002")
    return results


def as_json(results: Results) -> Facts:
    facts: Facts = json.loads(to_json(probe_facts(results, "hosts.yaml")))
    return facts


def keys(value: object, path: str = "") -> set[str]:
    """Every key with the path that leads to it; lists by their first element."""
    if isinstance(value, list):
        return keys(value[0], path) if value else set()
    if not isinstance(value, dict):
        return set()
    return set().union(*({f"{path}.{name}"} | keys(each, f"{path}.{name}") for name, each in value.items()))


def test_the_keys_that_were_promised_are_there(full: Results, sentences: Sentences) -> None:
    facts = as_json(full)
    assert facts.keys() >= PROMISED[""]
    assert facts["collectives"][0].keys() >= PROMISED["collectives"]
    assert facts["pairs"][0].keys() >= PROMISED["pairs"]
    assert facts["verdict"].keys() >= PROMISED["verdict"]
    assert facts["verdict"]["culprits"][0].keys() == PROMISED["culprits"]
    assert (facts["backend"], facts["world_size"], facts["seconds"]) == ("nccl", 4, 42.5)
    sentences(facts["verdict"]["culprits"][0]["evidence"][0])
    assert "demo" not in facts
    assert probe_facts(full, "--demo", demo=True)["demo"] is True


def test_src_and_dst_are_ranks_that_slots_place(full: Results) -> None:
    facts = as_json(full)
    nodes = {slot["rank"]: slot["node"] for slot in facts["slots"]}
    dead = [pair for pair in facts["pairs"] if not pair["ok"]]
    assert {(nodes[pair["src"]], nodes[pair["dst"]]) for pair in dead} == {("gpu-002", "gpu-001")}
    assert all(pair["bandwidth_gb_per_s"] is None and pair["error"] for pair in dead)


def test_gigabytes_are_10_to_the_9_everywhere(full: Results) -> None:
    (first, *_) = as_json(full)["gpus"]
    assert first == {
        "rank": 0,
        "matmul_tflop_per_s": 700,
        "copy_gb_per_s": 1600,
        "h2d_gb_per_s": 52,
        "d2h_gb_per_s": 50,
    }


def test_before_anything_is_known_the_keys_are_the_same(full: Results) -> None:
    bare = Results(ProbeRequest(), started=1_700_000_000.0, phase="refused", reason="no torch")
    facts = as_json(bare)
    assert facts.keys() == as_json(full).keys()
    assert (facts["backend"], facts["world_size"], facts["verdict"]) == (None, None, None)
    bare.nodes = [ProbedNode("gpu-009", problem="no answer")]
    (node,) = as_json(bare)["nodes"]
    assert node.keys() == as_json(full)["nodes"][0].keys()
    assert (node["problem"], node["python"], node["gpus"]) == ("no answer", None, None)


def test_gloo_is_called_what_it_is_in_every_form(sentences: Sentences) -> None:
    results = with_pairs(cluster(2, 1, gpus=False), rate)
    facts = as_json(results)
    assert (facts["backend"], facts["nccl"]) == ("gloo", None)
    sentences(facts["backend_note"])
    rows = list(csv.DictReader(io.StringIO(probe_csv(facts))))
    assert {row["backend_note"] for row in rows} == {facts["backend_note"]}


def test_remote_words_and_odd_numbers_are_harmless(full: Results) -> None:
    hostile = "\x1b]0;owned\x07\u202e"
    full.pairs = {
        key: replace(pair, error=hostile, latency_us=float("nan")) for key, pair in full.pairs.items()
    }
    full.busy = {"gpu-001": [GpuUser(pid=1, name=hostile)]}
    full.notes = [hostile]
    full.collectives = [CollectiveResult("broadcast", MIB, p50_s=0.000123456789, cv=float("inf"))]
    text = to_json(probe_facts(full, "hosts.yaml"))
    facts = json.loads(text)
    assert not set("\x1b\x07\u202e") & set(msgspec.json.decode(text.encode())["notes"][0])
    assert "\\u001b" not in text
    assert facts["pairs"][0]["latency_us"] is None
    assert facts["collectives"][0] | {"p50_s": 0.000123457, "cv": None} == facts["collectives"][0]


def test_csv_has_a_row_for_every_measurement(full: Results) -> None:
    """Document 004, line 208."""
    facts = as_json(full)
    rows = list(csv.DictReader(io.StringIO(probe_csv(facts))))
    assert [row["kind"] for row in rows] == ["collective"] * 2 + ["pair"] * 8 + ["gpu"] * 4
    assert list(rows[0]) == list(HEADER)
    first = rows[0]
    assert (first["op"], first["bytes"], first["busbw_gb_per_s"], first["ok"]) == (
        "all_reduce",
        str(MIB),
        "370.25",
        "true",
    )
    dead = [row for row in rows if row["kind"] == "pair" and row["ok"] == "false"]
    assert {(row["src_node"], row["dst_node"], row["bandwidth_gb_per_s"]) for row in dead} == {
        ("gpu-002", "gpu-001", "")
    }
    assert rows[-1]["node"] == "gpu-002"
    used = {name for row in rows for name, value in row.items() if value}
    assert used >= {"latency_us", "h2d_gb_per_s", "cv", "nic_gb_per_s", "error", "time"}


def test_every_key_is_documented(full: Results) -> None:
    page = (Path(__file__).parents[3] / "docs" / "json.md").read_text()
    section = page.partition("# The JSON of `gpuwatch probe --json`")[2]
    names = {path.rpartition(".")[2] for path in keys(as_json(full))}
    assert names - {name for name in names if f"`{name}`" in section} == set()
