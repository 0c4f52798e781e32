"""The topics of the playbook and the meanings of metrics, loaded from YAML files."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec
import yaml

TYPED = ("gpuwatch ", "export ", "nvidia-smi ", "torch.cuda.")
"""Prefixes of code that the user types or copies as is; other code shows a setting in context."""
DATA = Path(__file__).parent / "data"
TOPIC_FILES = ("failures.yaml", "slowness.yaml", "practice.yaml")
METRIC_FILE = "metrics.yaml"


class Solution(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One remedy of a topic, as a sentence; `code` is a command to copy, if there is one."""

    do: str
    code: str = ""


class EvidenceSource(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where gpuwatch shows the evidence: a command, or a key with the id of its binding."""

    shows: str
    command: str = ""
    key: str = ""
    binding: str = ""


class Topic(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"source": "from"}):
    """One problem in the playbook: symptoms, reason, solutions, sources of evidence, and its rules."""

    id: str
    title: str
    why: str
    words: tuple[str, ...] = ()
    """Search terms."""
    symptoms: tuple[str, ...] = ()
    solutions: tuple[Solution, ...] = ()
    evidence: tuple[EvidenceSource, ...] = ()
    rules: tuple[str, ...] = ()
    """Rules whose findings belong to this topic."""
    source: str = ""
    """Origin: number and section of the guide that describes it."""


class MetricMeaning(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a metric or column is, how to read it, and which values are normal or bad.

    Its title and unit are in the table that shows it.
    """

    what: str
    read: str
    normal: str
    bad: str


@cache
def topics() -> tuple[Topic, ...]:
    """Return all topics, in the order of the files."""
    found: list[Topic] = []
    for name in TOPIC_FILES:
        found += msgspec.convert(yaml.safe_load((DATA / name).read_text("utf-8")), list[Topic])
    return tuple(found)


@cache
def topic(ident: str) -> Topic:
    """Return the topic with this id.

    Raises:
        KeyError: There is no such topic.
    """
    for each in topics():
        if each.id == ident:
            return each
    raise KeyError(ident)


@cache
def metric_meanings() -> dict[str, dict[str, MetricMeaning]]:
    """Return `gpu`, `node` and `rank` -> metric or column name -> meaning."""
    text = (DATA / METRIC_FILE).read_text("utf-8")
    return msgspec.convert(yaml.safe_load(text), dict[str, dict[str, MetricMeaning]])


def steps_of(ident: str) -> tuple[str, ...]:
    """Return the advice of a topic, one line per step; code to type is appended to its step.

    Raises:
        KeyError: There is no such topic.
    """
    return tuple(
        each.do if not each.code.startswith(TYPED) else f"{each.do.rstrip('.')}: {each.code}"
        for each in topic(ident).solutions
    )
