"""Parses users' rule packs; every mistake is reported with its position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

from gpuwatch.agent.logs.progress.metrics_table import COMMON
from gpuwatch.hosts.validation.document import compose
from gpuwatch.hosts.validation.errors import HostsError, Problems, TextPosition, did_you_mean, escaped
from gpuwatch.hosts.validation.structures import ReadMapping
from gpuwatch.number_text import limit_text
from gpuwatch.rules.compiling.compile import literals_for
from gpuwatch.rules.model.dialect import Dialect
from gpuwatch.rules.model.errors import NO_WORD, RulesError
from gpuwatch.rules.model.failure_class import families_of
from gpuwatch.rules.model.rule import Context, Flood, GeneralPatterns, RecoveryPattern, Rule
from gpuwatch.rules.parsing.parse_dialect import dialect_of
from gpuwatch.rules.parsing.shapes import PACK, PackProblems
from gpuwatch.whole_file import read_bounded

MAX_BYTES = 4 << 20


def parse_pack(
    text: str, source: str, known: AbstractSet[str] = frozenset({COMMON})
) -> list[tuple[Rule | Dialect, TextPosition]]:
    """Return the rules in a pack's text, each with its position; `known` are ids of other packs.

    Raises:
        RulesError: With every problem, in the order of the text.
    """
    problems = PackProblems(source)
    root = compose(text, problems)
    if root is None and not len(problems):
        problems.add(TextPosition(1, 1), "the file is empty; a pack is a list of rules")
    read = PACK.read(root, problems) if root is not None else None
    pack: dict[str, Any] = read.values if isinstance(read, ReadMapping) else {"rules": read or []}
    entries: list[ReadMapping] = pack.get("rules", [])
    families = {name: tuple(kinds) for name, kinds in pack.get("families", {}).items()}
    if isinstance(read, ReadMapping):
        for name in families:
            _check_family(name, entries, read.places["families"], problems)
    known = known | {entry.values.get("id", "") for entry in entries}
    found = [
        (rule if isinstance(rule, Dialect) else rule.with_families(families), entry.place)
        for entry in entries
        if (rule := _any(entry, known, problems)) is not None
    ]
    try:
        problems.raise_any()
    except HostsError as error:
        raise RulesError(error.problems) from None
    return found


def _check_family(name: str, entries: Sequence[ReadMapping], at: TextPosition, problems: Problems) -> None:
    """Add a problem if no rule of the pack is of the family."""
    known = dict.fromkeys(each for entry in entries for each in families_of(entry.values.get("id", "")))
    if name not in known:
        problems.add(at, f"no rule of this pack is of the family {name!r}{did_you_mean(name, known)}")


def read_packs(
    files: Sequence[Path], known: AbstractSet[str] = frozenset({COMMON})
) -> tuple[dict[str, Rule | Dialect], dict[str, str]]:
    """Return (rule id -> rule, rule id -> its file) of packs; `known` are the ids of other packs.

    Raises:
        RulesError: With every problem of every pack.
    """
    by_id: dict[str, Rule | Dialect] = {}
    places: dict[str, str] = {}
    packs: dict[str, str] = {}
    wrong: list[str] = []
    for file in files:
        try:
            for rule, at in parse_pack(_text(file), str(file), known | by_id.keys()):
                if rule.id in by_id:
                    wrong.append(
                        f"{escaped(str(file))}:{at.line}:{at.column}: rule {rule.id}: given twice, "
                        f"first in {places[rule.id]}"
                    )
                    continue
                by_id[rule.id] = rule
                places[rule.id] = f"{escaped(file.name)}:{at.line}"
                packs[rule.id] = str(file)
        except RulesError as error:
            wrong.extend(error.problems)
    if wrong:
        raise RulesError(wrong)
    return by_id, packs


def _text(file: Path) -> str:
    try:
        data = read_bounded(file, MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise RulesError(
                [f"{escaped(str(file))}: larger than {limit_text(MAX_BYTES)}, too large for a pack"]
            )
        return data.decode("utf-8-sig")
    except OSError as error:
        raise RulesError([f"{escaped(str(file))}: {error.strerror}"]) from None
    except UnicodeDecodeError:
        raise RulesError([f"{escaped(str(file))}: not UTF-8 text"]) from None


def _any(entry: ReadMapping, known: AbstractSet[str], problems: Problems) -> Rule | Dialect | None:
    return dialect_of(entry, known, problems) if "kind" in entry.places else _rule(entry, problems)


def _rule(entry: ReadMapping, problems: Problems) -> Rule | None:
    values = dict(entry.values)
    if any(name not in values for name in ("id", "severity", "title", "match", "explain", "do", "examples")):
        return None
    rule = Rule(
        id=values["id"],
        severity=values["severity"],
        title=values["title"],
        match=tuple(values["match"]),
        explain=values["explain"].strip(),
        do=tuple(values["do"]),
        examples=tuple(values["examples"]),
        role=values.get("role", "root"),
        kinds=tuple(values.get("kinds", ())),
        end_weight=values.get("end_weight"),
        explains=tuple(values.get("explains", ())),
        literals=tuple(values.get("literals", ())),
        unless=tuple(values.get("unless", ())),
        general=_part(GeneralPatterns, values.get("general")),
        exact=values.get("exact") == "true",
        fallback=values.get("fallback") == "true",
        after=_part(Context, values.get("after")),
        above=_part(Context, values.get("above")),
        block=values.get("block", 0),
        until=values.get("until"),
        raised=values.get("raised"),
        flood=_part(Flood, values.get("flood")),
        recovery=_part(RecoveryPattern, values.get("recovery")),
        programs=tuple(name.lower() for name in values.get("programs", ())),
        severity_by=values.get("severity_by", {}),
        links=tuple(values.get("links", ())),
        negatives=tuple(values.get("not", ())),
    )
    for at, text in _mistakes(rule, entry):
        problems.add(at, f"rule {rule.id}: {text}")
    return rule


def _part(kind: type[Any], entry: ReadMapping | None) -> Any:  # noqa: ANN401 - one of the small structs
    if entry is None:
        return None
    values = {
        name: tuple(value) if isinstance(value, list) else value for name, value in entry.values.items()
    }
    try:
        return kind(**values)
    except TypeError:  # a key is missing, which has been noted
        return None


def _mistakes(rule: Rule, entry: ReadMapping) -> Iterator[tuple[TextPosition, str]]:
    if len(rule.do) > 3:
        yield entry.places["do"], f"{len(rule.do)} steps in 'do'; list the first three"
    if not literals_for(rule):
        yield entry.places["match"], NO_WORD
