"""One rule: what to search in a log, what it means, and what to do."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from gpuwatch.rules.model.failure_class import FailureClass, Families, Kind
from gpuwatch.wire import Role, Severity


class Flood(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The limit of a flood rule: no finding before `count` matches within `seconds`, then one for all."""

    count: int
    seconds: float


class Context(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A pattern that is searched in at most `lines` lines above a matching line, in the same file."""

    match: str
    lines: int = 20


class GeneralPatterns(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Generic patterns, tried only on lines that no rule with specific patterns explains."""

    match: tuple[str, ...]
    unless: tuple[str, ...] = ()
    """Words of other subjects, which exclude these patterns, but not `match` of the rule itself."""


class RecoveryPattern(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A pattern of a line that ends what a rule found; `same`: fields that must be equal in both lines."""

    match: str
    same: tuple[str, ...] = ()


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of a pack. Patterns are Python's, searched anywhere in a normalised line."""

    id: str
    """`family.name`; the class in the failure taxonomy."""
    severity: Severity
    title: str
    """What happened, in a few words, for a headline."""
    match: tuple[str, ...]
    """Patterns, any of which matches. Named groups become fields, as numbers if they look like one."""
    explain: str
    do: tuple[str, ...]
    """The first steps to take, at most three, the best first."""
    examples: tuple[str, ...]
    """Excerpts of log files, of one or more lines, each of which must match this rule."""
    role: Role = "root"
    kinds: tuple[Kind, ...] = ()
    end_weight: int | None = None
    explains: tuple[str, ...] = ()
    literals: tuple[str, ...] = ()
    """Words, one of which occurs in every matching line; derived from `match` if left out."""
    unless: tuple[str, ...] = ()
    """A line that contains one of these does not match."""
    general: GeneralPatterns | None = None
    exact: bool = False
    """True if the wording is specific to one library: it counts at any log level, and inside advice."""
    fallback: bool = False
    """True to match only lines with log level error or critical that no other rule explains."""
    raised: str | None = None
    """Pattern that is searched in the last line of a Python traceback if no other rule explains it."""
    after: Context | None = None
    above: Context | None = None
    """Named groups of the nearest matching line above become fields too; it need not exist."""
    block: int = 0
    """Number of lines below the key line that belong to it."""
    until: str | None = None
    """Pattern of the line that ends the block."""
    flood: Flood | None = None
    recovery: RecoveryPattern | None = None
    newest: bool = False
    """True for one finding per writer, which is always the newest match."""
    once: bool = False
    """True if repetitions of the same text are not reported."""
    programs: tuple[str, ...] = ()
    """Names in a system log, `kernel`, `job` or `any`; `job` and `kernel` if left out."""
    severity_by: dict[str, dict[str, Severity]] = {}
    """Field -> value (as text) -> severity, which overrides `severity`."""
    links: tuple[str, ...] = ()
    negatives: tuple[str, ...] = msgspec.field(default=(), name="not")
    """Lines that must not match this rule."""

    @property
    def failure_class(self) -> FailureClass:
        """Return the properties of the failure class that the pack states in this rule."""
        return FailureClass(self.kinds, self.end_weight, self.explains)

    def with_families(self, families: Families) -> Rule:
        """Return the rule with the kinds of the families of its id."""
        return replace(self, kinds=self.failure_class.with_families(self.id, families).kinds)
