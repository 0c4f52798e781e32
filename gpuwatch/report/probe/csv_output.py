"""A probe as CSV: one row per measurement, units in the header names. Safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from gpuwatch.report.once.csv_output import cell
from gpuwatch.report.once.json_output import Facts

START = ("time", "backend", "backend_note", "kind")
COLUMNS = (
    "op",
    "bytes",
    "src",
    "dst",
    "src_node",
    "dst_node",
    "rank",
    "node",
    "link",
    "ok",
    "p50_s",
    "min_s",
    "p99_s",
    "cv",
    "algbw_gb_per_s",
    "busbw_gb_per_s",
    "nic_gb_per_s",
    "least_waiting",
    "bandwidth_gb_per_s",
    "latency_us",
    "spread",
    "retested",
    "matmul_tflop_per_s",
    "copy_gb_per_s",
    "h2d_gb_per_s",
    "d2h_gb_per_s",
    "error",
)
HEADER = (*START, *COLUMNS)


def probe_csv(facts: Facts) -> str:
    """Return the CSV with its header, made from `probe_facts`."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEADER)
    start = {name: facts[name] for name in ("time", "backend", "backend_note")}
    for row in rows(facts):
        values = {**start, **row}
        writer.writerow([cell(values.get(name)) for name in HEADER])
    return text.getvalue()


def rows(facts: Facts) -> Iterator[Facts]:
    """Yield collectives, then pairs, then GPUs; a row has only the keys of its kind."""
    nodes = {slot["rank"]: slot["node"] for slot in facts["slots"]}
    for each in facts["collectives"]:
        ok = (
            None
            if each["correct"] is None and not each["error"]
            else bool(each["correct"] and not each["error"])
        )
        yield {"kind": "collective", **each, "ok": ok}
    for each in facts["pairs"]:
        ends = {"src_node": nodes.get(each["src"]), "dst_node": nodes.get(each["dst"])}
        yield {"kind": "pair", **each, **ends}
    for each in facts["gpus"]:
        yield {"kind": "gpu", **each, "node": nodes.get(each["rank"])}
