from __future__ import annotations

import io
import re

import pytest
from msgspec.structs import replace
from rich.cells import cell_len

from gpuwatch.number_text import rate_text, size_text, time_text
from gpuwatch.probe.judging.text.grade_symbols import ASCII, UNICODE, Marks
from gpuwatch.probe.protocol import GpuUser, NodeInventory
from gpuwatch.probe.results import CollectiveResult, CounterChange, ProbedNode, RankSlot, Results, Unreachable
from gpuwatch.probe.verdict import Culprit, ProbeVerdict
from gpuwatch.report.probe.preflight import busy_lines, inventory_lines, plan_lines, question, refused_lines
from gpuwatch.report.probe.text import print_results, result_lines, wrapped
from tests.report.probe.probes import cluster, gpu_checks, inventory, measured, slow_node, with_pairs
from tests.sentences import Sentences, line_of

HOSTILE = "\x1b]0;owned\x07 [red] \u202e"


def stated(results: Results, width: int | None = None, marks: Marks = UNICODE) -> str:
    return "\n".join(line.text for line in result_lines(results, marks, width))


def lopsided(src: RankSlot, dst: RankSlot) -> float | None:
    """380 GB/s inside nodes, 48 between them, a quarter of that at gpu-003; gpu-001 to gpu-004 is dead."""
    if (src.node, dst.node) == ("gpu-001", "gpu-004"):
        return None
    if src.node == dst.node:
        return 380.0
    return 12.0 if "gpu-003" in (src.node, dst.node) else 48.0


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0.0, "0.000"), (0.0001, "<.001"), (0.0243, "0.024"), (4.867, "4.87"), (392.4, "392")],
)
def test_rates_have_three_digits_and_unknown_is_no_zero(value: float | None, text: str) -> None:
    assert rate_text(value) == text


def test_times_and_sizes() -> None:
    assert [time_text(each) for each in (None, 845e-6, 12.34e-3, 1.234, 30.0)] == [
        "-",
        "845us",
        "12.3ms",
        "1.23s",
        "30.0s",
    ]
    assert [size_text(each) for each in (512, 65536, 1 << 20, 256 << 20, 3 << 29)] == [
        "512B",
        "64K",
        "1M",
        "256M",
        "1.5G",
    ]


def test_gloo_is_never_taken_for_the_fabric(sentences: Sentences) -> None:
    results = cluster(2, 1, gpus=False)
    first = next(iter(result_lines(results, UNICODE, 80)))
    sentences(line_of(first.text, "training"))
    assert first.style == "warning"
    sentences(line_of(plan_lines(results)[0].text, "training"))
    sentences(line_of(stated(cluster(2, 1)), "NCCL"))


def test_nodes_that_are_alike_are_reported_once(sentences: Sentences) -> None:
    results = cluster(4, 8)
    results.nodes[2] = ProbedNode("gpu-003", problem="no answer within 20 s")
    text = [line.text for line in inventory_lines(results)]
    assert text[0] == "gpu-[001-002,004]"
    sentences(text[1])
    assert "8 x InfiniBand 400 Gb/s ACTIVE (mlx5_[0-7])" in text[4]
    sentences(text[5:])
    alone = [line.text for line in inventory_lines(cluster(1, 8))]
    assert "process 4701 (train.py)" in alone[1]
    assert "eth0 25 Gb/s 10.0.0.1/24" in alone[3]


def test_the_question_names_nodes_and_seconds(sentences: Sentences) -> None:
    results = cluster(4, 8)
    sentences(question(results))
    plan = "\n".join(line.text for line in plan_lines(results))
    sentences(line_of(plan, "10.1.0.0/16"))


def test_a_busy_cluster_is_refused_with_its_processes(sentences: Sentences) -> None:
    results = cluster(1, 8, phase="refused")
    results.reason = "GPUs are busy: end it first, or use --allow-busy"
    results.busy = {"gpu-001": [GpuUser(pid=4711, name="python", user="alice", memory_bytes=70 << 30)]}
    sentences([line.text for line in busy_lines(results)])
    sentences(inventory_lines(results)[-1].text)
    sentences([line.text for line in refused_lines(results)])


def test_no_torch_anywhere_is_a_sentence_with_the_remedy(sentences: Sentences) -> None:
    results = cluster(2, 8, phase="refused")
    results.reason = "no node can take part"
    results.nodes = [
        ProbedNode(name, NodeInventory(host=name, pid=1, tried=["/usr/bin/python3: no torch"]))
        for name in "ab"
    ]
    text = "\n".join(line.text for line in refused_lines(results))
    assert "pip install 'gpuwatch-cluster[probe]'" in text
    sentences(line_of(text, "python"))
    results.nodes = [replace(results.nodes[0], problem=None)]
    assert "/usr/bin/python3: no torch" in "\n".join(line.text for line in inventory_lines(results))


def test_every_line_of_the_tables_fits_80_cells() -> None:
    results = with_pairs(cluster(2, 8), lopsided)
    results.collectives = measured()
    gpu_checks(results)
    lines = stated(results, 80).splitlines()
    assert max(map(cell_len, lines)) <= 80
    (head,) = [line for line in lines if line.startswith("collective")]
    assert [word for word in ("size", "p50", "algbw", "busbw", "NIC", "check") if word not in head] == []
    assert "min" in stated(results, 120)


def test_the_matrix_of_ranks_says_which_links_are_slow_and_which_failed(sentences: Sentences) -> None:
    results = with_pairs(cluster(8, 1, gpus=False), lopsided)
    text = stated(results)
    rows = {line.split()[1]: line.split()[2:] for line in text.splitlines() if re.match(r" \d gpu-", line)}
    assert rows["gpu-001"] == ["48.0", "✖12.0", "FAILED", "48.0", "48.0", "48.0", "48.0"]
    assert rows["gpu-003"] == ["✖12.0"] * 7
    sentences(line_of(text, "gpu-001"))
    assert "✖ under 70%" in text
    plain_text = stated(results, marks=ASCII)
    assert plain_text.isascii()
    assert "x12.0" in plain_text


def test_many_ranks_are_folded_to_the_worst_link_of_two_nodes(sentences: Sentences) -> None:
    results = with_pairs(cluster(8, 8), lopsided)
    assert results.pairs[0, 24].error is not None
    text = stated(results)
    rows = {line.split()[1]: line.split()[2:] for line in text.splitlines() if re.match(r" \d gpu-", line)}
    assert rows["gpu-001"] == ["380", "48.0", "✖12.0", "FAILED", "48.0", "48.0", "48.0", "48.0"]
    sentences(line_of(text, "gpu-001"))


def test_many_nodes_are_reported_by_the_nodes_in_trouble(sentences: Sentences) -> None:
    results = with_pairs(cluster(40, 2), lopsided)
    results.verdict = slow_node("gpu-003")
    lines = stated(results).splitlines()
    table = lines[lines.index("links between 40 nodes, GB/s") + 1 :]
    assert [row.split()[0] for row in table[1:4]] == ["gpu-003", "gpu-001", "gpu-004"]
    assert table[1].split() == ["gpu-003", "156", "0", "156", "0", "12.0", "12.0", "12.0"]
    sentences(table[4])
    assert "  156 links of gpu-003" in lines
    assert len(lines) < 30


def test_the_verdict_stands_last_with_its_evidence(sentences: Sentences) -> None:
    results = cluster(4, 2)
    results.verdict = slow_node("gpu-003")
    lines = stated(results).splitlines()
    alert = lines.index("ALERT  expected IB, got TCP on rank 3")
    sentence = next(n for n, line in enumerate(lines) if line.startswith("BAD  gpu-003 is slow"))
    assert alert < sentence
    sentences(lines[sentence + 2 :])


def test_failures_of_collectives_name_who_was_waited_for(sentences: Sentences) -> None:
    results = cluster(2, 2)
    failed = CollectiveResult("all_to_all", 1 << 20, error="rank 3 did not arrive within 30 s")
    slow = replace(measured([4])[0], least_waiting=2)
    wrong = replace(measured([16])[0], correct=False)
    results.collectives = [failed, slow, wrong]
    text = stated(results)
    assert re.search(r"all_to_all +1M +- .*FAILED", text)
    sentences(line_of(text, "all_to_all"))
    assert "all_reduce 4M: gpu-002 GPU 0 waited least" in text
    assert "all_reduce 16M: wrong result" in text


def test_unreachable_nodes_counters_and_partial_results(sentences: Sentences) -> None:
    results = cluster(2, 1, phase="cancelled")
    results.unreachable = [Unreachable("gpu-001", "gpu-002", "no answer within 5 s: a firewall drops it")]
    results.counters = [
        CounterChange("gpu-001", "ib:mlx5_0/1:symbol_error", 3, 15),
        CounterChange("gpu-001", "=pcie:GPU-1:gen", 1, 4),
    ]
    text = stated(results)
    sentences(line_of(text, "gpu-001"))
    assert "gpu-001: ib:mlx5_0/1:symbol_error +12" in text
    assert "verdict: none" in text


def test_why_a_node_takes_no_part_is_reported_once(sentences: Sentences) -> None:
    results = cluster(2, 1, phase="done")
    why = "no Python with torch; name one with `python:`"
    results.notes = [f"node gpu-002 does not take part: {why}", "a word about something else"]
    culprit = Culprit("node", "gpu-002", None, (why,), "took no part")
    results.verdict = ProbeVerdict("failed", f"gpu-002 cannot take part: {why}", (culprit,))
    text = stated(results)
    assert text.count(why) == 1
    sentences(line_of(text, "gpu-002"))


def test_why_a_node_was_lost_is_reported_once_and_not_for_each_of_its_ranks(sentences: Sentences) -> None:
    why = "gpu-002 was lost: the session or the node went down"
    results = cluster(2, 2, phase="failed")
    results.reason = why
    culprit = Culprit(
        "node", "gpu-002", None, (f"rank 2: {why}", f"rank 3: {why}", "12 links were measured"), "was lost"
    )
    results.verdict = ProbeVerdict("failed", why, (culprit,), evidence=(why,))
    text = stated(results)
    assert text.count(why) == 1
    sentences(line_of(text, "12"))


def test_remote_words_cannot_steer_the_terminal() -> None:
    results = with_pairs(cluster(2, 1), lambda _src, _dst: None)
    results.pairs = {key: replace(pair, error=HOSTILE) for key, pair in results.pairs.items()}
    results.notes = [HOSTILE]
    results.torch = HOSTILE
    results.transports = {HOSTILE: [0]}
    results.nodes = [ProbedNode("gpu-001", problem=HOSTILE), inventory(2)]
    results.collectives = [CollectiveResult("broadcast", 1 << 20, error=HOSTILE)]
    out = io.StringIO()
    print_results(results, out)
    text = out.getvalue() + "\n".join(line.text for line in inventory_lines(results))
    assert "owned" in text
    assert "[red]" in text
    assert not set("\x1b\x07\u202e") & set(text)


def test_an_output_that_is_no_utf8_gets_ascii_signs() -> None:
    results = with_pairs(cluster(8, 1), lopsided)
    results.notes = ["Über-node"]
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii", write_through=True)
    print_results(results, out)
    text = raw.getvalue().decode("ascii")
    assert "x12.0" in text
    assert "?ber-node" in text


def test_a_long_sentence_goes_on_further_in() -> None:
    text = "  " + "word " * 30
    lines = wrapped(text.rstrip(), 40)
    assert lines[0].startswith("  word")
    assert all(line.startswith("      word") and len(line) <= 40 for line in lines[1:])
    assert " ".join(lines).split() == text.split()
