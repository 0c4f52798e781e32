"""One rule: what to look for in a log, what it means, and what to do."""

from __future__ import annotations

import msgspec

from gpuwatch.wire import Role, Severity


class Flood(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nothing is reported before `count` matches came within `seconds`; then one finding gathers them."""

    count: int
    seconds: float


class Context(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The match counts only when this was found in the same file, at most `lines` lines above it."""

    match: str
    lines: int = 20


class GeneralPatterns(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Patterns in general words, asked only of lines that no rule in words of its own explains."""

    match: tuple[str, ...]
    unless: tuple[str, ...] = ()
    """Words of other subjects, which contradict these patterns; not `match` of the rule itself."""


class RecoveryPattern(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line that ends what the rule found; `same` names the fields that must be equal in both."""

    match: str
    same: tuple[str, ...] = ()


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of a pack. Patterns are Python's, searched anywhere in a normalised line."""

    id: str
    """`family.name`; the classes of the failure taxonomy."""
    severity: Severity
    title: str
    """What happened, in a few words, as a headline states it."""
    match: tuple[str, ...]
    """Any of them. Named groups become fields, numbers where they look like one."""
    explain: str
    do: tuple[str, ...]
    """The first things to do, at most three, the best first."""
    examples: tuple[str, ...]
    """Each must give this rule; several lines in one example are one excerpt of a file."""
    role: Role = "root"
    literals: tuple[str, ...] = ()
    """Words, one of which stands in every line that matches; derived from `match` where left out."""
    unless: tuple[str, ...] = ()
    """Not where one of these is in the line."""
    general: GeneralPatterns | None = None
    exact: bool = False
    """Its wording is one library's own: it counts at any level of the line, and inside advice."""
    fallback: bool = False
    """Only lines whose own level is error or critical, and that no other rule explains."""
    raised: str | None = None
    """Searched in the line that ends a Python traceback, where no other rule explains it."""
    after: Context | None = None
    above: Context | None = None
    """Named groups of the nearest line above that it is found in become fields too; it need not be there."""
    block: int = 0
    """Lines below the key line that belong to it."""
    until: str | None = None
    """The block ends with the line that this is found in."""
    flood: Flood | None = None
    recovery: RecoveryPattern | None = None
    newest: bool = False
    """One finding of each speaker, which is always the newest match."""
    once: bool = False
    """A match states nothing but its own text: where that stands again, nothing is reported."""
    programs: tuple[str, ...] = ()
    """Names in a system log, `kernel`, `job` or `any`; `job` and `kernel` where left out."""
    severity_by: dict[str, dict[str, Severity]] = {}
    """Field -> value (as text) -> severity, over `severity`."""
    links: tuple[str, ...] = ()
    negatives: tuple[str, ...] = msgspec.field(default=(), name="not")
    """Must not give this rule."""
