"""Generates docs/playbook.md from the data of `gpuwatch explain`.

Run it as `python -m gpuwatch.report.explain.page`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from gpuwatch.blocks.markdown import code, markdown
from gpuwatch.blocks.model import Block, Heading, Item, Line, Table
from gpuwatch.diagnose.explanations.explanation import of_topic
from gpuwatch.diagnose.playbook.topics import MetricMeaning, Topic, metric_meanings, topics
from gpuwatch.fleet.nodes.metrics import METRICS, NODE_METRICS

HEAD = (
    Heading("Playbook", 1),
    Line("What fails or is slow in distributed training, what to do, and where gpuwatch shows it."),
    Table(
        ("command", "what it explains"),
        (
            ("`gpuwatch explain hang`", "a topic"),
            ("`gpuwatch explain oom.cuda`", "a rule of the logs (`gpuwatch rules list` lists them)"),
            ("`gpuwatch explain smclk`", "a metric"),
            ('`gpuwatch explain "link down"`', "a search over all of them"),
        ),
    ),
    Line(
        "On the screens `i` explains the alert, metric or column under the cursor. This page is generated "
        "(`make docs`) from `gpuwatch/diagnose/playbook/data/`."
    ),
)
GROUPS = {"gpu": "Metrics of a GPU", "node": "Metrics of a node", "rank": "Columns of a rank (screen 6)"}


def playbook_page() -> str:
    """Return the whole page as Markdown."""
    return markdown(_page(), "all")


def _page() -> Iterator[Block]:
    yield from HEAD
    yield Heading("Topics", 2)
    yield from (Item(each.title, target=each.id) for each in topics())
    for each in topics():
        yield from _topic(each)
    yield from _metrics()


def _topic(topic: Topic) -> Iterator[Block]:
    """Yield the blocks of one topic in the playbook: title, command, explanation, ids of its rules."""
    yield from (Heading(topic.title, 2, topic.id), Line(f"`gpuwatch explain {topic.id}`"))
    yield from of_topic(topic, {}).blocks
    if topic.rules:
        yield Line("Rules: " + ", ".join(f"`{each}`" for each in topic.rules))


def _metrics() -> Iterator[Block]:
    columns = ("name", "what", "unit", "how it is read", "normal", "a bad value")
    for group, meanings in metric_meanings().items():
        rows = tuple(_metric_row(group, name, meaning) for name, meaning in meanings.items())
        yield from (Heading(GROUPS[group], 2), Table(columns, rows))


def _metric_row(group: str, name: str, meaning: MetricMeaning) -> tuple[str, ...]:
    metric = METRICS.get(name) if group == "gpu" else NODE_METRICS.get(name) if group == "node" else None
    unit = metric.quantity.unit if metric is not None else ""
    return (code(name), meaning.what, unit, meaning.read, meaning.normal, meaning.bad)


if __name__ == "__main__":
    sys.stdout.write(playbook_page())
