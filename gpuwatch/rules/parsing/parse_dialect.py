"""Parses dialects in users' packs; every mistake is reported with its position."""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from gpuwatch.agent.logs.progress.dialect import TIMER_GROUPS
from gpuwatch.agent.logs.progress.metrics_table import COMMON
from gpuwatch.agent.logs.progress.quantities import QUANTITIES
from gpuwatch.hosts.validation.errors import Problems, TextPosition, did_you_mean, escaped
from gpuwatch.hosts.validation.structures import ReadMapping
from gpuwatch.rules.compiling.compile import literals_for
from gpuwatch.rules.model.dialect import Dialect, Example
from gpuwatch.rules.model.errors import NO_WORD


def dialect_of(entry: ReadMapping, known: AbstractSet[str], problems: Problems) -> Dialect | None:
    """Return the dialect of a pack's entry; None if a required key is missing, which is reported already.

    Other mistakes are added to `problems`. `known` are the ids that `like` may name.
    """
    values = dict(entry.values)
    if any(name not in values for name in ("kind", "id", "title", "match", "examples")):
        return None
    examples = [each.values for each in values["examples"] if "line" in each.values]
    dialect = Dialect(
        id=values["id"],
        title=values["title"],
        match=tuple(values["match"]),
        examples=tuple(Example(**each) for each in examples),
        literals=tuple(values.get("literals", ())),
        unless=tuple(values.get("unless", ())),
        words=values.get("words", {}),
        like=values.get("like", COMMON),
        plain=values.get("plain") == "true",
        needs=tuple(values.get("needs", ())),
        least=values.get("least", 1),
        phases=values.get("phases"),
        per_epoch=values.get("per_epoch") == "true",
        fallback=values.get("fallback") == "true",
        tokens_of=values.get("tokens_of"),
        tflops_of=values.get("tflops_of"),
        engine=values.get("engine"),
        logs_failures=values.get("logs_failures") == "true",
        links=tuple(values.get("links", ())),
        sources=tuple(values.get("sources", ())),
        negatives=tuple(values.get("not", ())),
    )
    for at, text in _mistakes(dialect, entry, known):
        problems.add(at, f"rule {dialect.id}: {text}")
    return dialect


def _mistakes(
    dialect: Dialect, entry: ReadMapping, known: AbstractSet[str]
) -> Iterator[tuple[TextPosition, str]]:
    if not literals_for(dialect):
        yield entry.places["match"], NO_WORD
    for pattern in dialect.match:
        for group in re.compile(pattern).groupindex:
            if group not in QUANTITIES and group not in TIMER_GROUPS:
                hint = did_you_mean(group, QUANTITIES)
                yield entry.places["match"], f"the group '{escaped(group)}' is not a quantity{hint}"
    if dialect.like not in known:
        hint = did_you_mean(dialect.like, known)
        yield entry.places["like"], f"there is no dialect '{escaped(dialect.like)}'{hint}"
