"""A topic, a rule, a condition or a metric as an explanation: the same content for text, JSON and screens."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from gpuwatch.blocks.model import Item, Line, Style, TextBlock, titled
from gpuwatch.diagnose.health.remedies import REMEDIES
from gpuwatch.diagnose.playbook.topics import EvidenceSource, MetricMeaning, Topic, metric_meanings, topics
from gpuwatch.fleet.nodes.metrics import METRICS, NODE_METRICS
from gpuwatch.rules.model.rule import Rule

Kind: TypeAlias = Literal["topic", "rule", "condition", "metric"]
OWNERS = {"gpu": "Of a GPU", "node": "Of a node", "rank": "Of a rank (screen 6)"}
"""Headings for the groups of metrics."""
_PLACEHOLDER = re.compile(r"\{(node|gpu|rank|job|pid)\}")


class Explanation(Struct, frozen=True):
    """The explanation of a topic, rule, condition or metric: id, title, sections and search words."""

    ident: str
    kind: Kind
    title: str
    blocks: tuple[TextBlock, ...]
    words: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Return the texts below the headings, joined by spaces, for the search."""
        return " ".join(each.text for each in self.blocks if isinstance(each, Line | Item))


def all_explanations(rules: Mapping[str, Rule]) -> list[Explanation]:
    """Return an explanation of each topic, metric, condition that is no rule, and rule, in this order."""
    found = [of_topic(each, rules) for each in topics()]
    for group, meanings in metric_meanings().items():
        found += [_of_metric(group, name, each) for name, each in meanings.items()]
    found += [_of_condition(code, text) for code, text in REMEDIES.items() if code not in rules]
    return found + [of_rule(each) for each in rules.values()]


def of_topic(topic: Topic, rules: Mapping[str, Rule]) -> Explanation:
    """Return the explanation of a topic: symptoms, reason, solutions, evidence, titles of its rules."""
    steps: list[TextBlock] = []
    for number, each in enumerate(topic.solutions, 1):
        steps.append(Item(each.do, number))
        steps += [Line(each.code, "code")] if each.code else []
    evidence = [_sight(each) for each in topic.evidence]
    related = [Item(f"{name}: {rules[name].title}") for name in topic.rules if name in rules]
    blocks = (
        *titled("Symptoms", [Item(text) for text in topic.symptoms]),
        *titled("Why", _lines([topic.why])),
        *titled("What to do", steps),
        *titled("What shows it", evidence),
        *titled("Rules", related),
    )
    return Explanation(topic.id, "topic", topic.title, blocks, topic.words)


def _sight(each: EvidenceSource) -> Item:
    """Return an item that shows where a topic's evidence is: a command to copy, or a key."""
    shown = f"`{each.command}`" if each.command else f"key `{each.key}`"
    return Item(f"{shown}: {each.shows}", copy=each.command or each.key or "")


def of_rule(rule: Rule) -> Explanation:
    """Return the explanation of a rule: meaning, next steps, links, an example, and its topics."""
    blocks = (
        *titled("Why", _lines([rule.explain.strip()])),
        *titled("What to do", [Item(_in_capitals(step.strip()), n) for n, step in enumerate(rule.do, 1)]),
        *titled("More", _lines(rule.links, "code")),
        *titled("Example", _lines([example.split("\n")[0] for example in rule.examples[:1]], "code")),
        *titled("Topics", _topics(rule.id)),
    )
    return Explanation(rule.id, "rule", rule.title, blocks)


def _topics(code: str) -> list[Item]:
    return [Item(f"gpuwatch explain {name}") for name in topics_of(code)]


def topics_of(rule: str) -> list[str]:
    """Return the ids of the topics that name a rule or condition, among their rules or search words."""
    return [each.id for each in topics() if rule in each.rules or rule in each.words]


def _of_condition(code: str, remedy: str) -> Explanation:
    title = re.sub(r"[._]", " ", code)
    blocks = (*titled("What to do", _lines([remedy])), *titled("Topics", _topics(code)))
    return Explanation(code, "condition", title, blocks)


def _of_metric(group: str, name: str, meaning: MetricMeaning) -> Explanation:
    metric = METRICS.get(name) if group == "gpu" else NODE_METRICS.get(name) if group == "node" else None
    title = name if metric is None else metric.title
    unit = "" if metric is None or not metric.quantity.unit else f" Unit: {metric.quantity.unit}."
    blocks = (
        *titled("What it is", _lines([f"{OWNERS[group]}: {meaning.what}.{unit}"])),
        *titled("How it is read", _lines([meaning.read])),
        *titled("Normal", _lines([meaning.normal])),
        *titled("A bad value", _lines([meaning.bad])),
    )
    ident = name if group == "gpu" else f"{group}.{name}"
    return Explanation(ident, "metric", title, blocks, (name, group))


def _in_capitals(text: str) -> str:
    """Return the text with its placeholders as manuals write them: `cordon {node}` becomes `cordon NODE`."""
    return _PLACEHOLDER.sub(lambda found: found[1].upper(), text)


def _lines(texts: Iterable[str], style: Style = "plain") -> list[Line]:
    return [Line(text, style) for text in texts if text]
