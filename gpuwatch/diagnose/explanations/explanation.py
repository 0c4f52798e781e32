"""A topic, a rule, a condition or a metric as an explanation: the same content for text, JSON and screens."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from gpuwatch.diagnose.health.remedies import REMEDIES
from gpuwatch.diagnose.playbook.topics import MetricMeaning, Topic, metric_meanings, topics
from gpuwatch.fleet.nodes.metrics import METRICS, NODE_METRICS
from gpuwatch.rules.model.rule import Rule

Kind: TypeAlias = Literal["topic", "rule", "condition", "metric"]
OWNERS = {"gpu": "Of a GPU", "node": "Of a node", "rank": "Of a rank (screen 6)"}
"""Headings for the groups of metrics."""
Style: TypeAlias = Literal["text", "step", "code"]
_PLACEHOLDER = re.compile(r"\{(node|gpu|rank|job|pid)\}")


class ExplanationLine(Struct, frozen=True):
    """A sentence, a numbered step, or a command to copy."""

    text: str
    style: Style = "text"


class ExplanationPart(Struct, frozen=True):
    """A section of an explanation: its heading and lines."""

    heading: str
    lines: tuple[ExplanationLine, ...]


class Explanation(Struct, frozen=True):
    """The explanation of a topic, rule, condition or metric: id, title, sections and search words."""

    ident: str
    kind: Kind
    title: str
    parts: tuple[ExplanationPart, ...]
    words: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """Return the lines of all parts, for the search."""
        return " ".join(line.text for part in self.parts for line in part.lines)


def all_explanations(rules: Mapping[str, Rule]) -> list[Explanation]:
    """Return an explanation of each topic, metric, condition and rule, in this order."""
    found = [of_topic(each, rules) for each in topics()]
    for group, meanings in metric_meanings().items():
        found += [_of_metric(group, name, each) for name, each in meanings.items()]
    found += [_of_condition(code, text) for code, text in REMEDIES.items() if code not in rules]
    return found + [of_rule(each) for each in rules.values()]


def of_topic(topic: Topic, rules: Mapping[str, Rule]) -> Explanation:
    """Return the explanation of a topic: symptoms, reason, solutions, evidence, titles of its rules."""
    steps = []
    for number, each in enumerate(topic.solutions, 1):
        steps.append(ExplanationLine(f"{number}. {_in_capitals(each.do)}", "step"))
        steps += [ExplanationLine(_in_capitals(each.code), "code")] if each.code else []
    evidence = [
        ExplanationLine(f"{each.command or f'key {each.key}'}: {each.shows}", "step")
        for each in topic.evidence
    ]
    related = [
        ExplanationLine(f"{name}: {rules[name].title}", "step") for name in topic.rules if name in rules
    ]
    parts = (
        ("Symptoms", _lines(topic.symptoms, "step")),
        ("Why", _lines([topic.why])),
        ("What to do", tuple(steps)),
        ("What shows it", tuple(evidence)),
        ("Rules", tuple(related)),
    )
    return Explanation(topic.id, "topic", topic.title, _filled(parts), topic.words)


def of_rule(rule: Rule) -> Explanation:
    """Return the explanation of a rule: meaning, next steps, and the topics that it belongs to."""
    steps = [
        ExplanationLine(f"{number}. {_in_capitals(step.strip())}", "step")
        for number, step in enumerate(rule.do, 1)
    ]
    parts = (
        ("Why", _lines([rule.explain.strip()])),
        ("What to do", tuple(steps)),
        ("More", _lines(rule.links, "code")),
        ("Example", _lines([example.split("\n")[0] for example in rule.examples[:1]], "code")),
        ("Topics", tuple(ExplanationLine(f"gpuwatch explain {name}", "step") for name in topics_of(rule.id))),
    )
    return Explanation(rule.id, "rule", rule.title, _filled(parts))


def topics_of(rule: str) -> list[str]:
    """Return the ids of the topics that name a rule or condition, among their rules or search words."""
    return [each.id for each in topics() if rule in each.rules or rule in each.words]


def _of_condition(code: str, remedy: str) -> Explanation:
    title = re.sub(r"[._]", " ", code)
    related = tuple(ExplanationLine(f"gpuwatch explain {name}", "step") for name in topics_of(code))
    return Explanation(
        code, "condition", title, _filled((("What to do", _lines([remedy])), ("Topics", related)))
    )


def _of_metric(group: str, name: str, meaning: MetricMeaning) -> Explanation:
    metric = METRICS.get(name) if group == "gpu" else NODE_METRICS.get(name) if group == "node" else None
    title = name if metric is None else metric.title
    unit = "" if metric is None or not metric.quantity.unit else f" Unit: {metric.quantity.unit}."
    parts = (
        ("What it is", _lines([f"{OWNERS[group]}: {meaning.what}.{unit}"])),
        ("How it is read", _lines([meaning.read])),
        ("Normal", _lines([meaning.normal])),
        ("A bad value", _lines([meaning.bad])),
    )
    ident = name if group == "gpu" else f"{group}.{name}"
    return Explanation(ident, "metric", title, _filled(parts), (name, group))


def _in_capitals(text: str) -> str:
    """Return the text with its placeholders as manuals write them: `cordon {node}` becomes `cordon NODE`."""
    return _PLACEHOLDER.sub(lambda found: found[1].upper(), text)


def _lines(texts: Iterable[str], style: Style = "text") -> tuple[ExplanationLine, ...]:
    return tuple(ExplanationLine(text, style) for text in texts if text)


def _filled(parts: Iterable[tuple[str, tuple[ExplanationLine, ...]]]) -> tuple[ExplanationPart, ...]:
    return tuple(ExplanationPart(heading, lines) for heading, lines in parts if lines)
